# SPDX-License-Identifier: Apache-2.0
"""The master's page for browsers, and the JSON that it shows."""

import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

from google.protobuf import json_format

from cluster import ENDLESS, SOURCE, ClusterTest, gradus
from rpc_python import Protos  # beside what cluster.py takes

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
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

    def test_markup_is_text(self):
        master, _, _ = self.start_cluster(1, 1)
        job = self.submit(master, data__dir="/<img src=x onerror=alert(1)>")
        self.wait_for("its end", lambda: master.job(job)["state"] == "FAILED")
        page = self.seen(master, "#/jobs/" + job, "FAILED", "&lt;img src=x")
        self.assertNotIn("<img", page)


if __name__ == "__main__":
    unittest.main()
