# SPDX-License-Identifier: Apache-2.0
"""The live picture of a job that runs: what its workers and shards do, as `gradus timeline` draws it, in the page."""

import json
import os
import re
import signal
import subprocess
import unittest

from google.protobuf import json_format

from cluster import BIN, ENDLESS, SOURCE, gradus
from rpc_python import Protos  # beside what cluster.py takes
from test_page import BROWSER, DRIVER, Driver, PageTest

WIDTHS = (1280, 768, 375)
# A picture of @workers workers as the master would answer it: the third is missing, names have markup.
MAKE = """
const [workers, steps] = arguments, lanes = [], boxes = {lane: [], part: [], beginNs: [], ns: [], number: []};
const pushes = {worker: [], shard: [], sentNs: [], arrivedNs: [], begunNs: [], baseVersion: [], madeVersion: [], staleness: [], dropped: [], spare: []};
const box = (lane, part, begin, ns, number) => { boxes.lane.push(lane); boxes.part.push(part); boxes.beginNs.push(begin); boxes.ns.push(ns); boxes.number.push(String(number)); };
for (let w = 0; w < workers; w++) {
  lanes.push({node: w === 1 ? "<img src=x>" : "worker-" + (w + 1), problem: w === 2 ? "<b>no answer</b>" : "", worker: true, shard: 0});
  for (let s = 0; w !== 2 && s < steps; s++) {
    [0, 1, 3, 4, 3].forEach((part, i) => box(w, part, s * 5e6 + i * 1e6, 1e6, 40 + s));
    Object.entries({worker: w, shard: workers, sentNs: s * 5e6 + 2e6, arrivedNs: s * 5e6 + 3e6, begunNs: s * 5e6 + 4e6, baseVersion: "1", madeVersion: "2",
      staleness: w % 7, dropped: w === 3, spare: w === 4}).forEach(([key, value]) => pushes[key].push(value));
  }
}
lanes.push({node: "ps-1", problem: "", worker: false, shard: 0});
for (let s = 0; s < steps; s++) box(workers, 5, s * 5e6 + 4e6, 1e6, 40 + s);
return {job: live.id, wallMs: "1700000000000", lengthNs: steps * 5e6, parts: ["load", "compute", "evaluate", "wire", "wait", "apply", "sum", "answer"], lanes, workersMore: 0, boxes, pushes};
"""


class LiveTest(PageTest):
    def timeline(self, master, job):
        try:
            status, _, text = self.get(master, f"/api/v1/jobs/{job}/timeline", "POST", {"Content-Type": "application/json"}, b"{}")
        except OSError as e:  # the port waits for 10 s
            return 503, str(e)
        return status, text


class Picture(LiveTest):
    def test_what_is_in_it(self):
        master, _, _ = self.start_cluster(2, 2)
        waits = self.submit(master, cluster__workers=3, training__epochs=ENDLESS)
        self.assertEqual(self.timeline(master, waits), (409, f'{{"error":"job {waits} is PENDING; only a running job can be traced"}}\n'))
        self.assertEqual(gradus("cancel", waits, "--now", "--master", master.address).returncode, 0)
        job = self.submit(master, cluster__workers=2, cluster__ps=2, training__epochs=ENDLESS)
        self.wait_for("training", lambda: int(self.api(master, "jobs/" + job)["step"]) > 0)

        def recorded():  # on a machine that stands still no step may be over in time, or no node answer
            status, text = self.timeline(master, job)
            self.assertIn(status, (200, 503), text)
            return status == 200 and text.count('"problem":""') == 4 and '"lengthNs":0,' not in text and text
        text = self.wait_for("a picture", recorded)
        parsed = json_format.Parse(text, Protos(os.environ["GRADUS_DESCRIPTORS"])["gradus.v1.Timeline"]())
        self.assertEqual(json.loads(text), json_format.MessageToDict(parsed, including_default_value_fields=True))
        shown = json.loads(text)
        self.assertEqual([(lane["node"], lane["worker"]) for lane in shown["lanes"]][:2], [("worker-1", True), ("worker-2", True)])
        boxes = [dict(zip(shown["boxes"], values)) for values in zip(*shown["boxes"].values())]
        for box in boxes:
            self.assertLess(box["lane"], len(shown["lanes"]))
            self.assertLessEqual(box["beginNs"] + box["ns"], shown["lengthNs"])
        computed = [int(b["number"]) for b in boxes if shown["parts"][b["part"]] == "compute" and shown["lanes"][b["lane"]]["worker"]]
        self.assertGreater(min(computed), 0)
        self.assertLessEqual(max(computed) - min(computed), 13)  # 12 steps of each, which begin together
        self.assertEqual(set(shown["pushes"]["staleness"]) - {0}, set())  # in sync mode
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)
        self.wait_for("its end", lambda: master.job(job)["state"] == "CANCELLED")
        self.assertEqual(self.timeline(master, job)[0], 409)
        self.assertEqual(self.timeline(master, "none-1"), (404, '{"error":"no job none-1"}\n'))

    def test_one_definition_of_its_colours(self):
        with open(SOURCE + "/services/cli/timeline_svg.c", encoding="utf-8") as f:
            drawn = f.read()
        with open(SOURCE + "/services/master/shell/page/index.html", encoding="utf-8") as f:
            light, dark = re.search(r":root\{(.*?)\}.*?:root\{(.*?)\}", f.read(), re.DOTALL).groups()
        names = ["load", "compute", "evaluate", "wire", "wait", "apply", "sum", "answer"]
        for key, name in [(f"p{i}", name) for i, name in enumerate(names)] + [(f"s{i}", f"s{i}") for i in range(5)] + [("lane", "lane"), ("gone", "gone")]:
            colours = re.findall(rf"\.{key}\{{(?:stroke:#\w+;)?fill:(#\w+)", drawn)
            self.assertIn(f"--{name}:{colours[0]}", light)
            if len(colours) > 1:
                self.assertIn(f"--{name}:{colours[1]}", dark)


@unittest.skipUnless(BROWSER and DRIVER, "no chromium and chromedriver are installed")
class Watched(LiveTest):
    def browse(self, master, job):
        page = Driver(self)
        page.open(f"http://{master.http}/#/jobs/{job}")
        page.wait(job)
        return page

    def has_colour(self, page, red, green, blue):
        return page.run("const c = live.canvas, d = c.width ? c.getContext('2d').getImageData(0, 0, c.width, c.height).data : [];"
                        "for (let i = 0; i < d.length; i += 4) if (d[i] === arguments[0] && d[i + 1] === arguments[1] && d[i + 2] === arguments[2]) return true;"
                        "return false", red, green, blue)

    def test_it_is_recorded_while_somebody_looks(self):
        master, _, _ = self.start_cluster(1, 1)
        job = self.submit(master, cluster__workers=2, training__epochs=ENDLESS)
        page = self.browse(master, job)
        page.wait("There is a live picture of a job that runs; this one is PENDING.")
        self.assertTrue(page.run("return live.button.hidden && live.figure.hidden"))
        self.start("worker", f"--master={master.address}", "--slow-down=10")
        page.click("button", "Watch live")
        page.wait("of training, recorded at")
        self.wait_for("what workers compute", lambda: self.has_colour(page, 0x3A, 0x6E, 0xA5))
        self.assertRegex(page.run("return live.canvas.getAttribute('aria-label')"), rf"^{job}: 2 workers, 1 shards, .*gradients, staleness up to 0")
        page.run("const text = arguments[0], real = window.real = fetch;"
                 "window.fetch = (u, o) => String(u).endsWith('/timeline') ? Promise.resolve(new Response(text, {status: 409})) : real(u, o)",
                 '{"error": "somebody records it"}')
        page.wait("somebody records it")
        page.run("window.fetch = real")
        first = page.run("return live.data.wallMs")
        self.wait_for("the next one", lambda: page.run("return live.data.wallMs") != first)
        done = gradus("trace", job, "--steps", "2", "-o", self.dir + "/trace.json", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)  # viewers are in nobody's way

        page.click("button", "Stop")
        self.wait_for("no recording", lambda: page.run("return !live.asks"))
        told = "return live.told.textContent"
        page.run("live.canvas.focus(); window.focused = live.canvas")
        keys = page.call("/element/active", method="GET")
        page.call(f"/element/{next(iter(keys.values()))}/value", {"text": "\ue014"})  # the arrow to the right
        self.assertRegex(page.run(told), r"^worker-1: \w+(, step \d+)?, [\d.]+ (s|ms|µs)$")
        page.call(f"/element/{next(iter(keys.values()))}/value", {"text": "\ue015\ue015"})  # down
        self.assertRegex(page.run(told), r"^shard 0, ps-1: ")
        page.run("live.more.open = true")
        page.wait("shard 0, ps-1")
        self.assertTrue(page.run("return document.contains(focused) && document.activeElement === focused"))

        page.click("button", "Watch live")
        self.wait_for("a recording", lambda: page.run("return live.asks"))
        page.run("window.before = live; location.hash = '#/nodes'")
        page.wait("worker-2")
        self.wait_for("no recording", lambda: page.run("return live === null && !before.asks"))
        page.run(f"location.hash = '#/jobs/{job}'")
        page.wait("Watch live")
        self.assertFalse(page.run("return live.on"))
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)
        page.wait("There is a live picture of a job that runs; this one is CANCELLED.")

    def test_it_waits_for_a_trace(self):
        master, _, _ = self.start_cluster(1, 1, slow_down=100)
        job = self.submit(master, training__epochs=ENDLESS)
        self.wait_for("training", lambda: int(self.api(master, "jobs/" + job)["step"]) > 0)
        page = self.browse(master, job)
        tracing = subprocess.Popen([os.path.join(BIN, "gradus"), "trace", job, "--steps", "1000", "--within", "600s", "-o", self.dir + "/trace.json",
                                    "--master", master.address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(tracing)
        self.wait_for("its recording", lambda: self.timeline(master, job)[0] == 409)
        page.click("button", "Watch live")
        page.wait(f"somebody records job {job} with gradus trace")
        self.assertTrue(page.run("return live.figure.hidden && !live.data"))
        self.assertIsNone(tracing.poll())
        tracing.send_signal(signal.SIGINT)
        page.wait("of training, recorded at")
        self.assertEqual(tracing.wait(60), 130)

    def test_a_worker_that_stands_still_is_a_red_row(self):
        master, _, workers = self.start_cluster(1, 2, "--heartbeat-timeout-ms=600000")
        job = self.submit(master, cluster__workers=2, training__mode="async", training__epochs=ENDLESS)
        page = self.browse(master, job)
        page.click("button", "Watch live")
        page.wait("of training, recorded at")
        workers[1].process.send_signal(signal.SIGSTOP)
        self.addCleanup(workers[1].process.send_signal, signal.SIGCONT)
        still = "return live.data.lanes.filter(a => a.problem).map(a => a.node).join()"
        self.wait_for("what stands still", lambda: page.run(still) in ("worker-1", "worker-2"))
        self.wait_for("red", lambda: self.has_colour(page, 0xF8, 0xD7, 0xDA))
        self.assertIn("; 1 missing", page.run("return live.canvas.getAttribute('aria-label')"))
        workers[1].process.send_signal(signal.SIGCONT)
        self.wait_for("both again", lambda: page.run(still) == "")

    def test_of_4_and_64_workers_at_three_widths(self):
        master, _, _ = self.start_cluster(1, 1)
        job = self.submit(master, training__epochs=ENDLESS)
        page = self.browse(master, job)
        page.wait("Watch live")
        for workers in (4, 64):
            for width in WIDTHS:
                page.call("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride",
                                                "params": {"width": width, "height": 900, "deviceScaleFactor": 2, "mobile": width < 500}})
                page.run(f"window.make = new Function({json.dumps(MAKE)}); takeLive(live, make({workers}, 12)); live.more.open = true")
                self.wait_for("its width", lambda: page.run("return live.width === live.canvas.clientWidth && live.next.width === live.canvas.width"))
                self.wait_for("a missing worker", lambda: self.has_colour(page, 0xF8, 0xD7, 0xDA))
                self.assertLessEqual(page.run("return document.scrollingElement.scrollWidth - innerWidth"), 0, (workers, width))
                self.assertEqual(page.run("return document.querySelectorAll('#view img, #view b:not(.tile b)').length"), 0)
                page.wait("<img src=x>")
                page.wait("<b>no answer</b>")
                page.wait("dropped (broken line, cross)")
        label = page.run("return live.canvas.getAttribute('aria-label')")
        self.assertIn("64 workers, 1 shards, 60 ms; 756 gradients, staleness up to 6, 12 dropped; 1 missing", label)
        page.call("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}})
        self.wait_for("a dark picture", lambda: self.has_colour(page, 0x5C, 0x2B, 0x2F))


if __name__ == "__main__":
    unittest.main()
