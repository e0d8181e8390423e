# SPDX-License-Identifier: Apache-2.0
"""The master's page for browsers, and the JSON that it shows."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import unittest
import urllib.error
import urllib.request

from google.protobuf import json_format

from cluster import ENDLESS, SOURCE, ClusterTest, gradus
from rpc_python import Protos  # beside what cluster.py takes

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
TIMES = 10  # until the page shows what the master knows already


class PageTest(ClusterTest):
    def get(self, master, page, method="GET", headers=None, data=None):
        """(status, headers, text)"""
        request = urllib.request.Request(f"http://{master.http}{page}", method=method, headers=headers or {}, data=data)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as e:
            with e:
                return e.code, dict(e.headers), e.read().decode()

    def api(self, master, path):
        status, headers, text = self.get(master, "/api/v1/" + path)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), text)
        return json.loads(text)

    def submit(self, master, **sets):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(**sets))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()


class Api(PageTest):
    def assert_protobufs_mapping(self, text):
        """As Google's own library reads and writes a Job; what is private is not there."""
        job = json_format.Parse(text, Protos(os.environ["GRADUS_DESCRIPTORS"])["gradus.v1.Job"]())
        expected = json_format.MessageToDict(job, including_default_value_fields=True)
        for private in ("secret", "trainFingerprint", "testFingerprint", "givenFingerprint", "eras"):
            self.assertNotIn(private, json.loads(text))
            expected.pop(private)
        self.assertEqual(json.loads(text), expected)

    def test_what_the_command_line_says(self):
        master, _, _ = self.start_cluster(2, 1)
        self.assertEqual(self.api(master, "jobs"), {"jobs": [], "more": False})
        job = self.submit(master, cluster__ps=2, training__epochs=2)
        self.wait_for("the end", lambda: master.job(job)["state"] == "SUCCEEDED")
        shown = self.get(master, "/api/v1/jobs/" + job)[2]
        self.assertEqual(gradus("status", job, "--json", "--master", master.address).stdout, shown)
        self.assert_protobufs_mapping(shown)
        shown = json.loads(shown)
        self.assertEqual((shown["id"], shown["state"], shown["dropped"], shown["paused"]), (job, "SUCCEEDED", "0", False))
        self.assertEqual(len(shown["evaluations"]), 2)
        self.assertIn("batch_size: ", shown["text"])
        self.assertEqual([j["id"] for j in self.api(master, "jobs")["jobs"]], [job])
        self.assertEqual(sorted(n["id"] for n in self.api(master, "nodes")["nodes"]), ["ps-1", "ps-2", "worker-1"])

    def test_what_is_refused(self):
        master, _, _ = self.start_cluster(0, 0)
        self.assertEqual(self.get(master, "/api/v1/jobs/none-1")[::2], (404, '{"error":"no job none-1"}\n'))
        self.assertEqual(self.get(master, "/api/v1/jobs/a/b")[0], 404)
        self.assertEqual(self.get(master, "/api/v2/jobs")[0], 404)
        self.assertEqual(self.get(master, "/api/v1/jobs", "POST", data=b"")[0], 405)
        self.assertEqual(self.get(master, "/api/v1/jobs", "POST", data=b"x" * 100000)[0], 429)
        self.assertEqual(self.get(master, "/api/v1/jobs/" + "x" * 2000)[0], 404)
        self.assertEqual(self.get(master, "/metrics")[0], 200)
        self.assertEqual(self.get(master, "/livez")[0], 200)

    def test_the_page_loads_nothing_from_elsewhere(self):
        master, _, _ = self.start_cluster(0, 0)
        status, headers, text = self.get(master, "/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertLess(len(text), 100000)
        self.assertEqual(re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text), [])
        self.assertEqual(re.findall(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b", text), [])

    def curve(self, master, job):
        curve = self.api(master, f"jobs/{job}/curve")
        steps = [int(step) for step in curve["step"]]
        self.assertEqual(steps, sorted(set(steps)))
        for name in ("timeMs", "epoch", "examplesPerSecond"):
            self.assertEqual(len(curve[name]), len(steps), name)
        for metric in curve["train"] + curve["test"]:
            self.assertEqual(len(metric["values"]), len(steps), metric["name"])
        return steps, curve

    def points_stored(self, job):
        with contextlib.closing(sqlite3.connect(f"file:{self.dir}/cluster/master.db?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM point WHERE job = ?", (job,)).fetchone()[0]

    def test_curves_outlive_the_master(self):
        master, _, _ = self.start_cluster(1, 1)
        ended = self.submit(master, training__epochs=2)
        self.wait_for("the end", lambda: master.job(ended)["state"] == "SUCCEEDED")
        steps, curve = self.curve(master, ended)
        self.assertEqual(steps[-1], int(self.api(master, "jobs/" + ended)["step"]))
        self.assertEqual([m["name"] for m in curve["train"]], ["loss", "accuracy"])
        self.assertEqual(self.points_stored(ended), len(steps))
        runs = self.submit(master, training__epochs=ENDLESS)
        self.wait_for("points", lambda: len(self.curve(master, runs)[0]) > 2)
        text = self.get(master, f"/api/v1/jobs/{runs}/curve")[2]
        parsed = json_format.Parse(text, Protos(os.environ["GRADUS_DESCRIPTORS"])["gradus.v1.Curve"]())
        shown = json_format.MessageToDict(parsed, including_default_value_fields=True)
        self.assertEqual({**json.loads(text), "epoch": 0, "examplesPerSecond": 0, "train": 0, "test": 0},
                         {**shown, "epoch": 0, "examplesPerSecond": 0, "train": 0, "test": 0})
        self.wait_for("a stored point", lambda: self.points_stored(runs) > 1)
        master.stop(signal.SIGKILL)
        master = self.start("master", f"--state-dir={self.dir}/cluster", "--unfinished=hold")
        self.assertEqual(self.curve(master, ended)[1], curve)
        self.assertEqual(len(self.curve(master, runs)[0]), self.points_stored(runs))
        self.assertGreater(self.points_stored(runs), 1)
        done = gradus("rm", ended, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get(master, f"/api/v1/jobs/{ended}/curve")[::2], (404, f'{{"error":"no job {ended}"}}\n'))
        self.assertEqual(self.points_stored(ended), 0)

    def test_with_tokens_a_reader_needs_one(self):
        tokens = os.path.join(self.dir, "tokens")
        done = gradus("token", "new", "--role", "viewer", "--name", "ann", "--tokens", tokens)
        self.assertEqual(done.returncode, 0, done.stderr)
        token = done.stdout.strip()
        master = self.start("master", f"--state-dir={self.dir}/state", f"--tokens={tokens}")
        self.assertEqual(self.get(master, "/")[0], 200)
        status, _, text = self.get(master, "/api/v1/jobs")
        self.assertEqual(status, 401, text)
        self.assertIn("token", json.loads(text)["error"])
        self.assertEqual(self.get(master, "/api/v1/jobs", headers={"Authorization": "Bearer " + token})[::2], (200, '{"jobs":[],"more":false}\n'))
        self.assertEqual(self.get(master, "/api/v1/jobs", headers={"Authorization": "Bearer x" + token})[0], 401)


class Changes(PageTest):
    """By POST, of who has a token for it."""

    def setUp(self):
        super().setUp()
        self.list, self.audit = os.path.join(self.dir, "tokens"), os.path.join(self.dir, "audit")
        self.tokens = {}
        for name, role in (("ann", "submitter"), ("bob", "submitter"), ("eve", "viewer"), ("nodes", "node")):
            done = gradus("token", "new", "--role", role, "--name", name, "--tokens", self.list)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.tokens[name] = done.stdout.strip()
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(self.tokens[name])
            os.chmod(f.name, 0o600)
        self.master = self.start("master", f"--state-dir={self.dir}/state", f"--tokens={self.list}", f"--audit-log={self.audit}")
        nodes = [f"--master={self.master.address}", f"--token-file={self.dir}/nodes"]
        self.start("ps", *nodes, f"--checkpoint-dir={self.dir}/state/checkpoints")
        self.start("worker", *nodes)
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", self.master.address, "--token-file", self.dir + "/ann",
                      *self.job(training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.job_id = done.stdout.strip()

    def post(self, who, what, body="", **headers):
        given = {"Authorization": "Bearer " + self.tokens[who], "Content-Type": "application/json", **headers}
        status, _, text = self.get(self.master, f"/api/v1/jobs/{self.job_id}/{what}", "POST", given, body.encode())
        return status, json.loads(text)

    def seen_job(self):
        text = self.get(self.master, "/api/v1/jobs/" + self.job_id, headers={"Authorization": "Bearer " + self.tokens["eve"]})[2]
        return json.loads(text)

    def state(self, wanted):
        self.wait_for(wanted, lambda: self.seen_job().get("state") == wanted)

    def test_what_a_submitter_may_change(self):
        self.state("RUNNING")
        self.assertEqual(self.post("ann", "set", '{"sets": ["update.learning_rate=0.0005"]}')[0], 200)
        self.assertEqual([(c["by"], c["sets"]) for c in self.seen_job()["changes"]], [("ann", ["update.learning_rate=0.0005"])])
        status, answer = self.post("ann", "checkpoint")
        self.assertEqual(status, 200, answer)
        self.assertIn(self.job_id, answer["path"])
        self.assertEqual(self.post("ann", "pause", "{}")[0], 200)
        self.state("PAUSED")
        self.assertEqual(self.post("ann", "resume", '{"sets": ["update.learning_rate=0.002"]}')[0], 200)
        self.state("RUNNING")
        self.assertEqual(self.post("ann", "cancel", '{"now": true}')[0], 200)
        self.state("CANCELLED")
        self.assertEqual(self.post("ann", "resume", "{}")[0], 200)
        self.state("RUNNING")
        with open(self.audit) as f:
            done = [json.loads(line) for line in f]
        self.assertEqual([d["action"] for d in done if d.get("peer", "").startswith("ipv4:127.0.0.1:") and d["action"] != "submit"],
                         ["set", "pause", "set", "resume", "cancel", "resume"])

    def test_what_is_refused(self):
        for who, part in (("eve", "Jobs/Pause"), ("bob", "ann")):
            status, answer = self.post(who, "pause")
            self.assertEqual(status, 403, answer)
            self.assertIn(part, answer["error"])
        for body, part in (("[]", "the body"), ("{", "the body"), ('{"sets": []}', 'unknown key "sets"; cancel takes now'),
                           ('{"now": 1}', '"now" is true or false')):
            status, answer = self.post("ann", "cancel", body)
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"])
        for body, part in (("{}", "0 keys to set"), ('{"sets": "a=b"}', "is a list"), ('{"sets": [1]}', '"sets"[0] is no text'),
                           ('{"sets": ["update.learning_rate=x"]}', "update.learning_rate")):
            status, answer = self.post("ann", "set", body)
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"])
        status, answer = self.post("ann", "resume", '{"sets": ["training.epochs=3"]}')
        self.assertEqual(status, 409, answer)
        self.assertIn("what runs or waits is changed with", answer["error"])
        self.assertEqual(self.get(self.master, f"/api/v1/jobs/{self.job_id}/explode", "POST", data=b"{}")[0], 405)
        self.assertEqual(self.post("ann", "pause", Origin="http://evil.example")[0], 403)
        self.assertEqual(self.post("ann", "pause", **{"Content-Type": "text/plain"})[0], 400)
        page = f"/api/v1/jobs/{self.job_id}/pause"
        self.assertEqual(self.get(self.master, page, "POST", {"Content-Type": "application/json"}, b"{}")[0], 401)
        self.assertEqual(self.get(self.master, page, headers={"Authorization": "Bearer " + self.tokens["ann"]})[0], 405)
        self.assertFalse(self.seen_job().get("paused", False))

    def test_the_live_picture_is_for_who_may_record(self):
        self.state("RUNNING")

        def recorded():  # a machine that stands still may answer too late
            try:
                status, answer = self.post("ann", "timeline", "{}")
            except OSError:
                return None
            self.assertIn(status, (200, 503), answer)
            return answer.get("lanes")
        self.assertEqual(self.wait_for("a picture", recorded)[0]["node"], "worker-1")
        for who, part in (("eve", "Jobs/Trace"), ("bob", "ann")):
            status, answer = self.post(who, "timeline")
            self.assertEqual(status, 403, answer)
            self.assertIn(part, answer["error"])
        self.assertEqual(self.post("ann", "timeline", '{"steps": 7}')[0], 400)
        self.assertEqual(self.post("ann", "timeline", Origin="http://evil.example")[0], 403)
        page = f"/api/v1/jobs/{self.job_id}/timeline"
        self.assertEqual(self.get(self.master, page, "POST", {"Content-Type": "application/json"}, b"{}")[0], 401)
        self.assertEqual(self.get(self.master, page, headers={"Authorization": "Bearer " + self.tokens["ann"]})[0], 405)

    @unittest.skipUnless(DRIVER and BROWSER, "no chromedriver is installed")
    def test_by_hand(self):
        page = Driver(self)
        page.open(f"http://{self.master.http}/#/jobs/{self.job_id}")
        page.type("#token", self.tokens["ann"] + "\n")
        page.wait_state("RUNNING")
        page.click("#acts button", "Pause")
        page.wait_state("PAUSED")
        self.state("PAUSED")
        page.click("#acts button", "Resume")
        page.wait_state("RUNNING")
        page.type("#set", "update.learning_rate=0.0007\n")
        page.wait("set: done")
        self.assertEqual(self.seen_job()["changes"][-1]["sets"], ["update.learning_rate=0.0007"])
        page.type("#set", "update.rule=nothing\n")
        page.wait("update.rule")
        page.click("#acts button", "Cancel")
        page.accept()
        page.wait_state("CANCELLED")
        self.state("CANCELLED")


class Driver:
    """Chromium under its driver (w3.org/TR/webdriver), which a test looks at, types into and clicks."""

    def __init__(self, test):
        self.test = test
        self.base = f"http://127.0.0.1:{self.started()}/session"
        options = {"binary": BROWSER, "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                              "--no-proxy-server", f"--user-data-dir={test.dir}/driven"]}
        answer = self.call("", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options,
                                                                 "unhandledPromptBehavior": "ignore"}}})
        self.base += "/" + answer["sessionId"]

    def started(self):
        """Its port. It ends when another process takes the port that it has found before it listens there, and is started anew."""
        said = []
        for _ in range(5):
            process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.test.addCleanup(self.ended, process)
            for line in process.stdout:
                port = re.search(r"started successfully on port (\d+)", line)
                if port:
                    self.test.addCleanup(self.end)
                    return port.group(1)
                said.append(line)
        raise AssertionError("the driver does not start: " + "".join(said))

    @staticmethod
    def ended(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=300) as answer:
            return json.load(answer)["value"]

    def end(self):
        try:
            self.call("", method="DELETE")
        except OSError:
            pass

    def open(self, url):
        self.call("/url", {"url": url})

    def run(self, script, *args):
        return self.call("/execute/sync", {"script": script, "args": list(args)})

    def wait(self, text):
        self.test.wait_for(f"{text} on the page", lambda: text in self.run("return document.body.innerText"))

    def wait_state(self, state):
        """Of the job that is shown."""
        self.test.wait_for(f"{state} on the page", lambda: self.run("const e = document.querySelector('h1 .state'); return e && e.textContent") == state)

    def type(self, selector, text):
        found = self.test.wait_for(selector, lambda: self.call("/elements", {"using": "css selector", "value": selector}))
        element = next(iter(found[0].values()))
        self.call(f"/element/{element}/clear", {})
        self.call(f"/element/{element}/value", {"text": text})

    def click(self, selector, text):
        """The first that has this text; the page may draw it anew meanwhile."""
        self.test.wait_for(f"{selector} with {text}", lambda: self.run(
            "const e = [...document.querySelectorAll(arguments[0])].find(e => e.textContent === arguments[1] && !e.disabled);"
            "if (e) setTimeout(() => e.click()); return !!e", selector, text))

    def accept(self):
        def accepted():
            try:
                self.call("/alert/accept", {})
                return True
            except urllib.error.HTTPError as e:  # there is none yet
                e.close()
                return False
        self.test.wait_for("a question", accepted)


@unittest.skipUnless(BROWSER, "no chromium is installed")
class Browser(PageTest):
    def show(self, master, view):
        """What stands in the page once its script has run."""
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
             f"--user-data-dir={self.dir}/browser", "--virtual-time-budget=3000", "--dump-dom",
             f"http://{master.http}/{view}"], capture_output=True, text=True, timeout=300)
        text = done.stdout[done.stdout.index("<main"):done.stdout.index("</main>")]
        return re.sub(r"<title>[^<]*</title>", "", text)

    def seen(self, master, view, *texts):
        def look():
            page = self.show(master, view)
            return page if all(t in page for t in texts) else None
        for _ in range(TIMES):
            page = look()
            if page:
                return page
        self.fail(f"{texts} in {self.show(master, view)}")

    def test_views(self):
        master, _, _ = self.start_cluster(1, 1)
        self.seen(master, "", "There are none.")
        self.seen(master, "#/nodes", "worker-1", "ps-1")
        job = self.submit(master, training__epochs=ENDLESS, training__evaluate_every="1 epochs")
        self.wait_for("an evaluation", lambda: len(self.api(master, "jobs/" + job).get("evaluations", [])) > 1)
        self.seen(master, "#/jobs", job, "RUNNING")
        page = self.seen(master, "#/jobs/" + job, "RUNNING", "Time of a step", "batch_size", "worker-1")
        self.assertRegex(page, r'aria-label="loss"')
        self.assertRegex(page, r'<path d="M[\d. L]+" fill="none" stroke="var\(--c1\)"')
        self.seen(master, "#/jobs/none-7", "no job none-7")

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_shards_with_backups(self):
        master, servers, _ = self.start_cluster(2, 1)
        job = self.submit(master, cluster__ps=2, cluster__standby="follower", training__epochs=ENDLESS)
        page = Driver(self)
        page.open(f"http://{master.http}/#/jobs/{job}")
        cells = ("return [...document.querySelectorAll('table[aria-label=shards] tr')]"
                 ".map(r => [...r.children].slice(0, 3).map(c => c.textContent.replace(/, \\d+ changes behind/, '')).join('|'))")
        self.wait_for("both backups", lambda: page.run(cells) == ["shard|primary|backup", "0|ps-1|ps-2", "1|ps-2|ps-1"])
        servers[1].stop(signal.SIGKILL)
        alone = "none: its server's death goes back to a checkpoint; there is no other server for it"
        self.wait_for("a takeover", lambda: page.run(cells)[1:] == [f"0|ps-1|{alone}", f"1|ps-1|{alone}"])
        page.wait("taken over by a backup")
        page.wait("1 times")

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_jobs_side_by_side(self):
        master, _, _ = self.start_cluster(1, 1)
        jobs = [self.submit(master, training__epochs=3, training__seed=seed) for seed in (1, 2)]
        for job in jobs:
            self.wait_for("the end", lambda: master.job(job)["state"] == "SUCCEEDED")
        page = Driver(self)
        page.open(f"http://{master.http}/")
        for job in jobs:
            page.click(f"input[aria-label='compare {job}']", "")
        page.click("a", "Compare 2 jobs")
        page.wait("Jobs side by side")
        lines = "return document.querySelectorAll('svg[aria-label=loss] path[fill=none][stroke^=var]').length"
        self.wait_for("two lines", lambda: page.run(lines) >= 2)
        for axis in ("steps", "minutes", "epochs"):
            page.click("button", axis)
            self.wait_for(axis, lambda: axis in page.run("return document.querySelector('svg[aria-label=loss]').textContent"))
        self.assertEqual(page.run("return document.querySelector('#acts').textContent"), "")

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_events_are_shown(self):
        master, _, _ = self.start_cluster(1, 1)
        page = Driver(self)
        page.open(f"http://{master.http}/")
        page.wait("There are none.")
        self.wait_for("a stream", lambda: page.run("return Boolean(stream && stream.open && seen)"))
        page.run("window.fetch = () => Promise.reject(new Error('events alone'))")
        job = self.submit(master, training__epochs=ENDLESS)
        page.wait(job)
        page.wait("RUNNING")
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)
        page.wait("CANCELLED")
        self.assertEqual(gradus("rm", job, "--master", master.address).returncode, 0)
        page.wait("There are none.")

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_without_events_the_page_asks(self):
        master, _, _ = self.start_cluster(1, 1)
        page = Driver(self)
        page.open(f"http://{master.http}/#/nodes")
        page.wait("worker-1")
        page.run("hear(''); delete window.TextDecoderStream; location.hash = '#/jobs'")
        page.wait("There are none.")
        job = self.submit(master, training__epochs=1)
        page.wait(job)
        page.wait("SUCCEEDED")
        self.assertIsNone(page.run("return stream"))

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_of_many_jobs_the_first_are_shown(self):
        master, _, _ = self.start_cluster(0, 0)
        page = Driver(self)
        page.open(f"http://{master.http}/")
        page.wait("There are none.")
        self.wait_for("a stream", lambda: page.run("return Boolean(stream && stream.open && seen)"))
        page.run("window.fetch = () => new Promise(() => {});"
                 "const states = ['SUCCEEDED', 'PENDING', 'RUNNING'];"
                 "const jobs = Array.from({length: 150}, (_, i) => ({id: 'many-' + (150 - i), state: states[i % 3], epochsTotal: 1, epoch: 0}));"
                 "last = () => showJobs({jobs}); window.jobs = jobs; replace(last())")
        ids = "return [...document.querySelectorAll('tbody a')].map(a => a.textContent)"
        shown = page.run(ids)
        self.assertEqual((len(shown), shown[0], shown[50], shown[99]), (100, "many-148", "many-149", "many-2"))
        page.run("window.row = document.querySelector('tbody tr'); window.cell = row.children[0].firstChild;"
                 "jobs[2].epoch = 0.5; replace(last())")
        self.assertTrue(page.run("return document.querySelector('tbody tr') === row && row.children[0].firstChild === cell"))
        self.assertEqual(page.run("return row.querySelector('[role=progressbar]').getAttribute('aria-valuenow')"), "50")
        page.click("button", "Show all 150")
        self.wait_for("all rows", lambda: len(page.run(ids)) == 150)
        self.assertEqual(page.run(ids)[149], "many-3")

    @unittest.skipUnless(DRIVER, "no chromedriver is installed")
    def test_a_master_that_comes_back(self):
        state = f"--state-dir={self.dir}/state"
        master = self.start("master", state)
        before = self.submit(master)  # waits for nodes
        page = Driver(self)
        page.open(f"http://{master.http}/")
        page.wait(before)
        master.stop(signal.SIGKILL)
        page.wait("No word from the master")
        self.assertIn(before, page.run("return document.body.innerText"))  # what was known is still shown
        master = self.start("master", state, "--http-listen=" + master.http)
        self.wait_for("no notice", lambda: page.run("return document.querySelector('#notice').textContent") == "")
        after = self.submit(master)
        page.wait(after)
        page.wait(before)

    def test_markup_is_text(self):
        master, _, _ = self.start_cluster(1, 1)
        job = self.submit(master, data__dir="/<img src=x onerror=alert(1)>")
        self.wait_for("its end", lambda: master.job(job)["state"] == "FAILED")
        page = self.seen(master, "#/jobs/" + job, "FAILED", "&lt;img src=x")
        self.assertNotIn("<img", page)


if __name__ == "__main__":
    unittest.main()
