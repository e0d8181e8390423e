# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the page that README.md and docs/ show, from a job that runs."""

import base64
import os
import sys
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
sys.path.insert(0, SOURCE + "/tests/integration")

from cluster import gradus  # noqa: E402
from test_page import BROWSER, DRIVER, Driver, PageTest  # noqa: E402

WIDTH = 1000
PACE = 24  # workers sleep most of their time, so that four on two processors behave like four machines;
SLOWER = 4  # and one takes so many times as long
EPOCHS_SHOWN = 9


class Pictures(PageTest):
    model = {}  # the job file's own

    @classmethod
    def setUpClass(cls):
        if not (BROWSER and DRIVER):
            sys.exit("script/pictures: there is no chromium with its driver; script/bootstrap browser installs both")
        super().setUpClass()
        done = gradus("generate", "digits", "--out", cls.shared + "/drawn", "--train", "12000", "--test", "2000")
        assert done.returncode == 0, done.stderr

    def devtools(self, page, command, **params):
        return page.call("/goog/cdp/execute", {"cmd": command, "params": params})

    def clip(self, page, box, path):
        """The part of the page that @box says, in a file."""
        answer = self.devtools(page, "Page.captureScreenshot", captureBeyondViewport=True, clip={**box, "scale": 1})
        with open(os.path.join(SOURCE, path), "wb") as f:
            f.write(base64.b64decode(answer["data"]))
        print("script/pictures:", path)

    def test_the_page(self):
        master, _, _ = self.start_cluster(2, 3, slow_down=PACE)
        self.start("worker", f"--master={master.address}", f"--slow-down={PACE * SLOWER}")
        job = self.submit(master, cluster__workers=4, cluster__ps=2, training__mode="async", training__epochs=15, data__dir=self.shared + "/drawn")
        self.wait_for("a curve", lambda: len(self.status(master, job)["evaluations"]) >= EPOCHS_SHOWN, 600)
        page = Driver(self)
        page.call("/window/rect", {"width": WIDTH, "height": 1400})
        self.devtools(page, "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])  # no sweep
        page.open(f"http://{master.http}/#/jobs/{job}")
        page.wait("examples/s")
        page.click("button", "Watch live")
        page.wait("of training, recorded at")
        page.run("live.first = live.data")
        self.wait_for("another picture", lambda: page.run("return live.data !== live.first && live.making === live.next"))
        box = ("const b = arguments[0].map(s => [...document.querySelectorAll(s)].pop().getBoundingClientRect());"
               "return {x: 0, y: Math.floor(b[0].top) + scrollY, width: innerWidth, height: Math.ceil(b[1].bottom - b[0].top) + arguments[1]}")
        self.clip(page, page.run(box, ["figure.live", "figure.live"], 0), "docs/live.png")
        self.clip(page, page.run(box, ["body", ".charts figure:nth-child(2)"], 8), "docs/page.png")


if __name__ == "__main__":
    unittest.main()
