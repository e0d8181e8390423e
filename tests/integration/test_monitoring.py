# SPDX-License-Identifier: Apache-2.0
"""What is measured, and who looks at it: docs/metrics.md is what running processes say of themselves, alerts and the dashboard
ask for nothing else, and where Prometheus is installed, it scrapes a cluster and answers every query.

GRADUS_WRITE_DOCS=1 writes docs/metrics.md anew."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest
import urllib.parse
import urllib.request

import yaml
from cluster import ENDLESS, SOURCE, ClusterTest, gradus, standing_still

MONITORING = os.path.join(SOURCE, "deploy", "monitoring")
PAGE = os.path.join(SOURCE, "docs", "metrics.md")
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
INTRODUCTION = """# Metrics

`/metrics` of the HTTP port (`--http-listen`) of every process is a page for Prometheus; with TLS, for who has a certificate or a token ([security.md](security.md)). What follows is what the processes of a cluster say there, by the test that compares them with this page.

- `deploy/monitoring/prometheus.yaml` scrapes a cluster without Kubernetes, `deploy/monitoring/gradus.rules.yaml` has [alerts](#alerts) (their tests beside them: `promtool test rules`), `deploy/monitoring/dashboard.json` is a dashboard for Grafana (Dashboards, Import).
- On Kubernetes `overlays/monitoring` has both for the Prometheus operator ([deployment.md](deployment.md)).
- Histograms have `_bucket`, `_sum` and `_count`. Counters begin at 0 with the process, so ask for `rate()` or `increase()`.
"""
KINDS = (("master", "The master"), ("ps", "Parameter servers"), ("worker", "Workers"), ("serve", "gradus-serve"))


def fetch(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=120) as answer:
        return answer.read().decode()


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def meters_of(page):
    """{name: (type, labels, help)} of a page of /metrics."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", page, re.M))
    types = dict(re.findall(r"^# TYPE (\S+) (.*)$", page, re.M))
    out = {}
    for name, text in helps.items():
        lines = re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:\{{(.*?)\}})? ", page, re.M)
        labels = {label for line in lines for label in re.findall(r'(\w+)="', line)} - {"le"}
        out[name] = (types[name], ", ".join(sorted(labels)), text)
    return out


def page_of(meters):
    """docs/metrics.md. meters: {kind: {name: …}}"""
    everywhere = set.intersection(*(set(of) for of in meters.values()))
    text = [INTRODUCTION]
    for kind, title in (("all", "Every process"), *KINDS):
        of = {name: meters["master"][name] for name in everywhere} if kind == "all" else {
            name: meter for name, meter in meters[kind].items() if name not in everywhere}
        text += [f"\n## {title}\n\n| metric | type | labels | what |\n|---|---|---|---|\n"]
        text += [f"| `{name}` | {t} | {labels} | {what} |\n" for name, (t, labels, what) in sorted(of.items())]
    text += ["\n## Alerts\n\n| alert | severity | after | what |\n|---|---|---|---|\n"]
    text += [f"| `{rule['alert']}` | {rule['labels']['severity']} | {rule.get('for', 'at once')} | {rule['annotations']['summary']} |\n" for rule in rules()]
    return "".join(text)


def rules():
    return [rule for group in yaml.safe_load(read(MONITORING, "gradus.rules.yaml"))["groups"] for rule in group["rules"]]


def expressions():
    """(where, query) of all alerts and panels."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads(read(MONITORING, "dashboard.json"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


class Monitoring(ClusterTest):
    def start_all(self):
        """A cluster that trains, and one process that serves a checkpoint of it, one that follows it; {kind: [service]}"""
        master, servers, workers = self.start_cluster(1, 1)
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("a step", lambda: master.job(job)["steps"] > 0)
        done = gradus("checkpoint", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        newest = max(glob.glob(f"{self.dir}/cluster/checkpoints/{job}/step-*"))
        return {"master": [master], "ps": servers, "worker": workers,
                "serve": [self.start("serve", f"--checkpoint={newest}"),
                          self.start("serve", f"--master={master.address}", f"--job={job}", "--follow")]}

    def test_what_is_measured(self):
        meters = {}
        for kind, services in self.start_all().items():
            meters[kind] = {}
            for service in services:
                meters[kind].update(meters_of(fetch(f"http://{service.http}/metrics")))
        made = page_of(meters)
        if os.environ.get("GRADUS_WRITE_DOCS"):
            with open(PAGE, "w") as f:
                f.write(made)
        self.assertEqual(read(PAGE), made, "GRADUS_WRITE_DOCS=1 writes it anew")
        known = {name for of in meters.values() for name in of}
        for where, expression in expressions():
            for name in re.findall(r"gradus_\w+", expression):
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), known, where)
        for name in sorted({name for of in meters.values() for name in of}):
            self.assertRegex(name, r"^gradus_[a-z_]+$")

    def master_meter(self, name):
        """Of the master that was started last, by whatever labels."""
        master = [service for service in self.services if "/master-" in service.log.name][-1]
        return float(re.search(rf"^gradus_master_{name} (\S+)$", fetch(f"http://{master.http}/metrics"), re.M).group(1))

    def wait_meters(self, **wanted):
        self.wait_for(str(wanted), lambda: {name: self.master_meter(name) for name in wanted} == wanted)

    def submit_endless(self, master, *sets):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(training__epochs=ENDLESS, cluster__ps=2),
                      *[arg for item in sets for arg in ("--set", item)])
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("a step", lambda: master.job(job)["steps"] > 0)
        return job

    def test_what_operators_act_on(self):
        """A server that is waited for, shards without the backups they should have, what a new master took over."""
        master, servers, _ = self.start_cluster(2, 1, "--heartbeat-timeout-ms=1500")
        job = self.submit_endless(master)
        self.wait_meters(servers_awaited=0)
        with standing_still([servers[0].process.pid]):
            self.wait_meters(servers_awaited=1)
        self.wait_meters(servers_awaited=0)
        gradus("cancel", job, "--now", "--master", master.address)
        master.stop(signal.SIGKILL)  # the next one gives nobody up for being silent

        master = self.start("master", f"--state-dir={self.dir}/cluster", f"--listen={master.address}")
        self.submit_endless(master, "cluster.standby=follower")
        self.wait_meters(takeovers_total=0, adoptions_total=0, shards_without_backup=0)
        servers[0].stop(signal.SIGKILL)
        self.wait_meters(takeovers_total=1, adoptions_total=0, shards_without_backup=2)
        master.stop(signal.SIGKILL)
        master = self.start("master", f"--state-dir={self.dir}/cluster", f"--listen={master.address}")
        self.wait_meters(takeovers_total=0, adoptions_total=1, shards_without_backup=2)
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.wait_meters(adoptions_total=1, shards_without_backup=0)

    def test_the_same_alerts_on_kubernetes(self):
        on_kubernetes = yaml.safe_load(read(SOURCE, "deploy/kubernetes/overlays/monitoring/rules.yaml"))["spec"]["groups"]
        self.assertEqual(on_kubernetes[:-1], yaml.safe_load(read(MONITORING, "gradus.rules.yaml"))["groups"])
        tried = {t["alertname"] for case in yaml.safe_load(read(MONITORING, "gradus.rules.test.yaml"))["tests"]
                 for t in case["alert_rule_test"] if "exp_alerts" in t}
        self.assertEqual(tried, {rule["alert"] for rule in rules()})

    @unittest.skipUnless(PROMTOOL, "no promtool is installed")
    def test_alerts_go_off_when_they_should(self):
        done = subprocess.run([PROMTOOL, "test", "rules", "gradus.rules.test.yaml"], cwd=MONITORING, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(PROMETHEUS, "no prometheus is installed")
    def test_a_real_prometheus_answers_every_query(self):
        services = self.start_all()
        config = yaml.safe_load(read(MONITORING, "prometheus.yaml"))
        config["global"]["scrape_interval"] = "1s"
        config["rule_files"] = [os.path.join(MONITORING, name) for name in config["rule_files"]]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [s.http for of in services.values() for s in of]
        with open(self.dir + "/prometheus.yaml", "w") as f:
            yaml.safe_dump(config, f)
        with open(self.dir + "/prometheus.log", "w") as log:
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={self.dir}/prometheus.yaml", f"--storage.tsdb.path={self.dir}/tsdb", "--web.listen-address=127.0.0.1:0"],
                stdout=log, stderr=log)
        self.addCleanup(self.end, process)
        self.wait_for("prometheus", lambda: "Server is ready" in read(self.dir, "prometheus.log"))
        address = re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', read(self.dir, "prometheus.log")).group(1)

        def ask(query):
            answer = json.loads(fetch(f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
            self.assertEqual(answer["status"], "success", query)
            return answer["data"]["result"]
        count = sum(len(of) for of in services.values())
        self.wait_for("all targets", lambda: [float(r["value"][1]) for r in ask("sum(up)")] == [count])
        alerts = {rule["alert"] for rule in rules()}
        for where, query in expressions():
            if where in alerts:  # nothing is wrong with this cluster
                self.assertEqual(ask(query), [], where)
            else:
                self.wait_for(f"{where}: {query}", lambda: ask(query))
        loaded = json.loads(fetch(f"http://{address}/api/v1/rules"))["data"]["groups"]
        self.assertEqual({rule["name"] for group in loaded for rule in group["rules"]}, alerts)

    def end(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    unittest.main()
