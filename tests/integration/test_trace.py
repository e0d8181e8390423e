# SPDX-License-Identifier: Apache-2.0
"""gradus trace, and the time of a step in gradus status: a cluster of real processes."""

import json
import os
import re
import signal
import subprocess
import time
import unittest
import urllib.request
import xml.etree.ElementTree

from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, TIMEOUT, ClusterTest, gradus, read_job

PARTS = ("load", "compute", "wire", "apply", "wait")
CLOCK_US = 1.0  # times are written with three digits


class Trace:
    """A trace file, checked for what every viewer needs."""

    def __init__(self, path):
        with open(path) as f:
            document = json.load(f)
        self.about = document["otherData"]
        events = document["traceEvents"]
        meta = [e for e in events if e["ph"] == "M"]
        self.nodes = {e["pid"]: e["args"]["name"] for e in meta if e["name"] == "process_name"}
        self.threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta if e["name"] == "thread_name"}
        self.events = [e for e in events if e["ph"] != "M"]
        times = [e["ts"] for e in self.events]
        assert times == sorted(times), "events are not in order"
        assert all((e["pid"], e["tid"]) in self.threads for e in self.events), "a thread without a name"
        self.check_nesting()
        self.check_pairs()

    def spans(self, name, node=None):
        return [e for e in self.events if e["ph"] == "X" and e["name"].split()[0] == name
                and (node is None or self.nodes[e["pid"]] == node)]

    def of_role(self, role):
        return [n["node"] for n in self.about["nodes"] if n["role"] == role]

    def check_nesting(self):
        """Spans of a thread are apart, or one is inside of the other."""
        open_spans = {}
        for e in (e for e in self.events if e["ph"] == "X"):
            stack = open_spans.setdefault((e["pid"], e["tid"]), [])
            end = e["ts"] + e["dur"]
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"] + 0.0005:
                stack.pop()
            if stack:
                assert end <= stack[-1]["ts"] + stack[-1]["dur"] + 0.0005, (stack[-1], e)
            stack.append(e)

    def check_pairs(self):
        begun = {e["id"]: e for e in self.events if e["ph"] == "b"}
        ended = {e["id"]: e for e in self.events if e["ph"] == "e"}
        assert begun.keys() == ended.keys(), "an interval without begin or end"
        assert all(begun[i]["ts"] <= ended[i]["ts"] for i in begun)

    def arrows(self):
        """[[the points of one, in order]]: each begins where a worker sends."""
        found = {}
        for e in self.events:
            if e["ph"] in "stf":
                found.setdefault(e["id"], []).append(e)
        for points in found.values():
            phases = "".join(p["ph"] for p in points)
            assert phases[0] == "s" and phases[-1] == "f" and set(phases[1:-1]) <= {"t"}, phases
        return list(found.values())

    def thread(self, event):
        return self.threads[event["pid"], event["tid"]]


class TraceTest(ClusterTest):
    def submit(self, master, **sets):
        base = {"training__epochs": ENDLESS, "training__evaluate_every": "never"}
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address,
                      *self.job(**{**base, **sets}))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def running(self, ps, workers, slow_down=SLOW_DOWN, **sets):
        master, servers, _ = self.start_cluster(ps, 0)
        nodes = [self.start("worker", f"--master={master.address}", f"--slow-down={slow_down}") for _ in range(workers)]
        job = self.submit(master, cluster__workers=workers, cluster__ps=ps, **sets)
        self.wait_for("steps", lambda: master.job(job)["steps"] > 20)
        return master, servers, nodes, job

    def running_slowly(self):
        """An epoch, and a thousand steps, take long."""
        return self.running(1, 2, 20 * SLOW_DOWN, training__mode="async", training__batch_size=1)

    def trace(self, master, job, *args, expect=0):
        path = os.path.join(self.dir, "trace.json")
        done = gradus("trace", job, "-o", path, "--master", master.address, *args)
        self.assertEqual(done.returncode, expect, done.stderr)
        return (Trace(path) if expect == 0 else None), done.stderr

    def picture(self, master, job, *args):
        """[what a reader is told of each thing], the texts that are seen, and the classes of boxes."""
        done = gradus("timeline", job, "-o", "-", "--within", "60s", "--master", master.address, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"of job {job}", done.stderr)
        root = xml.etree.ElementTree.fromstring(done.stdout)
        names = {kind: [e for e in root.iter("{http://www.w3.org/2000/svg}" + kind)] for kind in ("title", "text")}
        return [e.text for e in names["title"]], [e.text for e in names["text"]]

    def check_steps(self, trace, steps, shards):
        """Every step of a worker computes, and its pushes are applied before they are answered."""
        for worker in trace.of_role("WORKER"):
            spans = trace.spans("step", worker)
            self.assertEqual(len(spans), steps)
            for step in spans:
                inside = [c for c in trace.spans("compute", worker)
                          if step["ts"] <= c["ts"] and c["ts"] + c["dur"] <= step["ts"] + step["dur"] + 0.001]
                self.assertGreaterEqual(len(inside), 1)
        complete = [points for points in trace.arrows()
                    if any(trace.thread(p) == f"shard {n}" for p in points for n in range(shards))]
        self.assertGreaterEqual(len(complete), steps * shards)
        applied = 0
        for points in complete:
            sent, received = points[0]["ts"], points[-1]["ts"]
            self.assertEqual(trace.thread(points[0]), "job")
            for p in points[1:-1]:
                self.assertLessEqual(sent, p["ts"] + CLOCK_US)
                self.assertLessEqual(p["ts"], received + CLOCK_US)
                inside = [a for a in trace.spans("apply", trace.nodes[p["pid"]])
                          if a["tid"] == p["tid"] and a["ts"] <= p["ts"] + CLOCK_US and
                          p["ts"] <= a["ts"] + a["dur"] + CLOCK_US]
                applied += len(inside) > 0
        self.assertGreaterEqual(applied, steps * shards)


class Modes(TraceTest):
    def test_sync(self):
        master, _, _, job = self.running(2, 2, training__replicas=4)
        trace, err = self.trace(master, job, "--steps", "4", "--within", "60s")
        self.assertEqual(err, "")
        self.assertEqual(sorted(trace.nodes.values()), ["ps-1", "ps-2", "worker-1", "worker-2"])
        self.check_steps(trace, 4, 2)
        for worker in ("worker-1", "worker-2"):  # two replicas each
            self.assertEqual(len(trace.spans("compute", worker)), 8)
            self.assertEqual(len(trace.spans("add", worker)), 4)
        steps = {int(e["name"].split()[1]) for e in trace.spans("step")}
        self.assertLessEqual(len(steps), 8)
        again, _ = self.trace(master, job, "--steps", "1", "--within", "60s")  # nothing is left over
        self.check_steps(again, 1, 2)
        told, seen = self.picture(master, job, "--steps", "3")
        for name in (f"{job} · sync, 4 replicas", "worker-1", "worker-2", "shard 0, ps-1", "shard 1, ps-2"):
            self.assertIn(name, seen)
        gradients = [t for t in told if t.startswith("gradient ")]
        self.assertGreaterEqual(len(gradients), 2 * 3)  # of two workers, or one worker's last ones, to each shard
        for t in gradients:
            base, made = re.fullmatch(r"gradient of version (\d+) in version (\d+), staleness 0", t).groups()
            self.assertEqual(int(made), int(base) + 1)

    def test_async(self):
        master, _, _, job = self.running(1, 2, training__mode="async")
        trace, err = self.trace(master, job, "--steps", "5", "--within", "60s")
        self.assertEqual(err, "")
        self.check_steps(trace, 5, 1)

        def overtaken():
            """Is there a gradient of two workers that overtake each other?"""
            told, seen = self.picture(master, job, "--steps", "8")
            self.assertIn(f"{job} · async", seen)
            ages = [re.fullmatch(r"gradient of version (\d+) in version (\d+), staleness (\d+)", t) for t in told
                    if t.startswith("gradient ")]
            self.assertTrue(ages and all(ages), told)
            for age in ages:
                base, made, stale = (int(g) for g in age.groups())
                self.assertEqual(made, base + stale + 1)
            return any(int(a.group(3)) > 0 for a in ages)

        self.wait_for("workers that overtake each other", overtaken)

    def test_the_last_seconds(self):
        """By time, whatever --steps says."""
        master, _, _, job = self.running(1, 1)

        def steps_seen():
            told, _ = self.picture(master, job, "--steps", "1", "--last", "2s")
            return {t.split(", ")[1] for t in told if t.startswith("compute, step ")}
        self.wait_for("more than a step", lambda: len(steps_seen()) > 1)
        done = gradus("timeline", job, "--last", "11m", "--master", master.address)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--last", done.stderr)

    def test_bounded_with_overlap(self):
        master, _, _, job = self.running(2, 1, training__mode="bounded", training__overlap="true")
        trace, err = self.trace(master, job, "--steps", "6", "--within", "60s")
        self.assertEqual(err, "")
        self.check_steps(trace, 6, 2)

    def test_of_gradus_run(self):
        process = self.start_run(training__epochs=ENDLESS, training__evaluate_every="never")
        state = os.path.join(self.dir, "state")

        def has_steps():
            done = gradus("status", "digits-1", "--json", "--state-dir", state)
            return done.returncode == 0 and read_job(done.stdout)["steps"] > 20
        self.wait_for("steps", has_steps)
        args = [os.path.join(BIN, "gradus"), "trace", "digits-1", "--state-dir", state, "--steps", "3", "--within",
                "60s", "--json"]

        def traced():  # a node that was given up for a moment is no failure of this test
            done = subprocess.run(args, cwd=self.dir, capture_output=True, text=True, timeout=600)
            return done if done.returncode == 0 and not done.stderr else None
        done = self.wait_for("a trace", traced, 200)
        self.assertEqual(json.loads(done.stdout), {"job": "digits-1", "file": "digits-1.trace.json"})
        self.check_steps(Trace(os.path.join(self.dir, "digits-1.trace.json")), 3, 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


class Times(TraceTest):
    def metrics(self, service):
        page = urllib.request.urlopen(f"http://{service.http}/metrics", timeout=120).read().decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in page.splitlines() if not line.startswith("#")}

    def test_the_parts_of_a_step_add_up(self):
        master, servers, workers, job = self.running(1, 2)
        self.wait_for("times", lambda: len(self.status(master, job)["worker_times"]) == 2)
        status = self.status(master, job)
        for times in (status["times"], *(worker["times"] for worker in status["worker_times"])):
            self.assertGreater(times["steps"], 0)
            self.assertEqual({key[:-3] for key in times if key.endswith("_us")}, set(PARTS))
            for part in ("compute", "wire", "apply"):
                self.assertGreater(times[part + "_us"], 0)
        shown = gradus("status", job, "--master", master.address).stdout
        for word in ("TIME OF A STEP", "\nworker-1 ", "\nworker-2 ", "\nall workers ", "\nsince the start "):
            self.assertIn(word, shown)
        page = self.metrics(workers[0])
        self.assertGreater(page["gradus_worker_steps_total"], 0)
        for part in PARTS:
            self.assertIn(f'gradus_worker_step_seconds_total{{part="{part}"}}', page)
        self.assertGreater(self.metrics(servers[0])["gradus_ps_wait_seconds_count"], 0)


class Failures(TraceTest):
    def test_what_is_refused(self):
        master = self.start("master", f"--state-dir={self.dir}/cluster")
        job = self.submit(master)
        _, err = self.trace(master, job, expect=1)
        self.assertIn(f"job {job} is PENDING; only a running job can be traced", err)
        _, err = self.trace(master, "none-1", expect=5)
        self.assertIn("no job none-1", err)
        for wrong in (("--steps", "0"), ("--steps", "1001"), ("--within", "0"), ("--steps", "x")):
            self.trace(master, job, *wrong, expect=2)
        self.assertEqual(gradus("trace", "--master", master.address).returncode, 2)
        self.assertEqual(gradus("cancel", job, "--master", master.address).returncode, 0)
        _, err = self.trace(master, job, expect=1)
        self.assertIn("CANCELLED", err)
        master.stop()
        self.in_vain("trace", job, "-o", self.dir + "/none.json", "--master", master.address)

    def with_a_worker_that_dies(self, master, job, worker):
        """The trace, and what was said."""
        worker.process.send_signal(signal.SIGSTOP)
        tracing = subprocess.Popen(
            [os.path.join(BIN, "gradus"), "trace", job, "-o", self.dir + "/t.json", "--steps", "3", "--within", "60s",
             "--master", master.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(tracing)
        worker.process.send_signal(signal.SIGKILL)
        _, err = tracing.communicate(timeout=TIMEOUT)
        self.assertEqual(tracing.returncode, 0, err)
        return Trace(self.dir + "/t.json"), err

    def test_a_worker_that_dies(self):
        """The others are there; the file says who is missing."""
        master, _, workers, job = self.running_slowly()
        for _ in range(5):
            trace, err = self.with_a_worker_that_dies(master, job, workers[-1])
            missing = [n["node"] for n in trace.about["nodes"] if n["problem"]]
            if missing:
                break  # else it was known to be dead before the trace began
            workers.append(self.start("worker", f"--master={master.address}", f"--slow-down={20 * SLOW_DOWN}"))
            self.wait_for("two workers", lambda: len(master.job(job)["workers"]) == 2)
        self.assertEqual(len(missing), 1)
        self.assertIn(f"warning: {missing[0]} is missing: ", err)
        self.assertNotIn(missing[0], trace.nodes.values())
        left = [n for n in trace.of_role("WORKER") if n != missing[0]]
        self.assertEqual(len(trace.spans("step", left[0])), 3)

    def test_ctrl_c(self):
        """Who asked goes away: no node records any more, and the next trace begins at once."""
        master, _, _, job = self.running_slowly()
        command = [os.path.join(BIN, "gradus"), "trace", job, "--steps", "1000", "--within", "600s",
                   "-o", self.dir + "/stopped.json", "--master", master.address]
        tracing = []

        def recording():  # the master says that its turn does not come
            if not tracing or tracing[-1].poll() is not None:
                head_start = 0.1 * 2 ** len(tracing)  # or each probe would come first again
                if os.path.exists(self.dir + "/stopped.json"):
                    os.remove(self.dir + "/stopped.json")  # of one worker: a probe was at the other first
                tracing.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                self.processes.append(tracing[-1])
                time.sleep(head_start)
            probe = gradus("trace", job, "--steps", "1", "--within", "1ms", "-o", self.dir + "/probe.json",
                           "--master", master.address)
            return probe.returncode == 1 and "is being recorded already" in probe.stderr
        self.wait_for("the recording", recording)
        tracing[-1].send_signal(signal.SIGINT)
        out, err = tracing[-1].communicate(timeout=120)
        self.assertEqual((tracing[-1].returncode, out), (130, ""), err)
        self.assertIn(f"stopped; job {job} is not recorded any more", err)
        self.assertFalse(os.path.exists(self.dir + "/stopped.json"))

        def again():  # the master hears of it a moment later
            done = gradus("trace", job, "--steps", "2", "--within", "60s", "-o", self.dir + "/again.json",
                          "--master", master.address)
            return done.returncode == 0 and done.stderr == ""
        self.wait_for("another one", again)
        self.check_steps(Trace(self.dir + "/again.json"), 2, 1)

    def test_two_at_once_take_turns(self):
        """Of two jobs on one server, and of one job: each is whole."""
        master, _, _, job = self.running(1, 1)
        self.start("worker", f"--master={master.address}", f"--slow-down={SLOW_DOWN}")
        other = self.submit(master, cluster__workers=1, cluster__ps=1)
        self.wait_for("steps", lambda: master.job(other)["steps"] > 20)
        command = [os.path.join(BIN, "gradus"), "trace", "--steps", "20", "--within", "120s", "--master", master.address]
        begun = [subprocess.Popen([*command, name, "-o", f"{self.dir}/{i}.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for i, name in enumerate((job, other, job, other))]
        self.processes.extend(begun)
        for i, tracing in enumerate(begun):
            _, err = tracing.communicate(timeout=TIMEOUT)
            self.assertEqual((tracing.returncode, err), (0, ""))
            self.check_steps(Trace(f"{self.dir}/{i}.json"), 20, 1)

    def test_too_few_steps(self):
        """A worker that waits for another one makes none: what there is is taken after the time."""
        master, _, workers, job = self.running(1, 2, training__replicas=2)
        workers[1].process.send_signal(signal.SIGSTOP)
        trace, err = self.trace(master, job, "--steps", "1000", "--within", "2s")
        workers[1].process.send_signal(signal.SIGCONT)
        self.assertEqual(len(trace.about["nodes"]), 3)
        self.assertRegex(err, r"warning: worker-\d made only \d+ of 1000 steps|warning: worker-\d is missing")
        again, err = self.trace(master, job, "--steps", "2", "--within", "60s")
        self.assertEqual(err, "")
        self.check_steps(again, 2, 1)


if __name__ == "__main__":
    unittest.main()
