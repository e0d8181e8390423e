# SPDX-License-Identifier: Apache-2.0
"""What is shown of jobs in pictures: gradus compare, one job in several modes, each on a local cluster of its own;
tables."""

import csv
import html.parser
import io
import json
import os
import re
import unittest
import xml.etree.ElementTree

from cluster import ENDLESS, SOURCE, ClusterTest, gradus

SVG = "{http://www.w3.org/2000/svg}"


class Page(html.parser.HTMLParser):
    """The cells of the tables of a page, and what it would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.elsewhere, self.cell = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elsewhere += [v for k, v in attrs if k in ("src", "href")]
        self.cell = tag in ("td", "th")
        if self.cell:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.cell = False

    def handle_data(self, data):
        if self.cell:
            self.cells[-1] += data


class Compare(ClusterTest):
    def compare(self, *args):
        return gradus("compare", SOURCE + "/examples/digits.yaml", "--state-dir", os.path.join(self.dir, "state"), "-o", os.path.join(self.dir, "out"),
                      *self.job(training__epochs=2), *args, timeout=600)

    def test_modes_beside_each_other(self):
        done = self.compare("--set", "cluster.workers=3", "--set", "training.replicas=3", "--straggler=3", "--pace=2",
                            "--modes=sync,sync+backup,bounded:2,async")
        self.assertEqual(done.returncode, 0, done.stderr)
        modes = ["sync", "sync+backup", "bounded:2", "async"]
        out = os.path.join(self.dir, "out")
        with open(out + "/index.html") as f:
            text = f.read()
        page = Page(text)
        self.assertEqual(page.elsewhere, [])
        self.assertEqual(page.cells[:5], [""] + modes)
        rows = [page.cells[i:i + 5] for i in range(0, len(page.cells), 5)]
        self.assertEqual([r[0] for r in rows if "loss of" not in r[0]],
                         ["", "gradients", "staleness", "throughput", "stragglers", "wall-clock time", "result", "tuning"])
        told = {r[0]: r[1:] for r in rows}
        self.assertEqual(told["staleness"][0], "0")
        self.assertTrue(told["staleness"][3].startswith("staleness "), told)
        for result in told["result"]:
            self.assertRegex(result, r"loss \d.*accuracy 0\.\d")
        with open(out + "/README.md") as f:
            links = re.findall(r"\]\(([^)]*)\)", f.read())
        self.assertEqual(sorted(links + ["README.md", "index.html"]), sorted(os.listdir(out)))
        for link in links:
            root = xml.etree.ElementTree.parse(os.path.join(out, link)).getroot()
            self.assertEqual(root.tag, SVG + "svg")
        charts = xml.etree.ElementTree.parse(out + "/loss-epochs.svg").getroot()
        names = [e.text for e in charts.iter(SVG + "text")]
        for mode in modes:
            self.assertIn(mode, names)
            self.assertEqual(len([e for e in charts.iter(SVG + "title") if e.text.startswith(mode + ": ")]), 2)
        for mode in modes:
            self.assertIn(f"\n{mode}\n", "\n" + done.stdout)

    def test_what_is_refused(self):
        for args, said in ((("--set", "cluster.workers=1"), "--set cluster.workers=4"),
                           (("--modes=sync,asink",), "'asink' is unknown; allowed: sync, sync+backup"),
                           (("--straggler=0.5",), "straggler"),
                           (("--modes=bounded:0",), "bounded with 0 would run in lockstep")):
            done = self.compare("--set", "cluster.workers=3", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr.replace("\n", " "))
            self.assertFalse(os.path.exists(self.dir + "/out"))


class Tables(ClusterTest):
    """Evaluations as CSV."""

    def test_as_a_table(self):
        state = os.path.join(self.dir, "state")
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", state, "--json", *self.job(training__epochs=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)["evaluations"]
        done = gradus("export", "--format", "csv", "digits-1", "-", "--state-dir", state)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(list(rows[0])[:4], ["step", "epoch", "wall_time", "train_loss"])
        self.assertEqual(len(rows), len(told))
        for row, e in zip(rows, told):
            self.assertEqual(row["step"], e["step"])
            self.assertEqual(float(row["epoch"]), e["epoch"])
            self.assertEqual(round(float(row["wall_time"]) * 1000), int(e["timeMs"]))
            for part in ("train", "test"):
                self.assertEqual({m["name"]: float(row[f"{part}_{m['name']}"]) for m in e[part]},
                                 {m["name"]: m["value"] for m in e[part]})
        done = gradus("export", "digits-1", self.dir + "/out.csv", "--state-dir", state)  # by its name
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.dir + "/out.csv", encoding="utf-8", newline="") as f:
            self.assertEqual(list(csv.DictReader(f)), rows)

    def test_as_a_table_of_a_job_that_runs(self):
        master, _, _ = self.start_cluster()
        job = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(training__epochs=ENDLESS)).stdout.strip()
        self.wait_for("an evaluation", lambda: json.loads(gradus("status", job, "--json", "--master", master.address).stdout)["evaluations"])
        done = gradus("export", "--format", "csv", job, "-", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(list(csv.DictReader(io.StringIO(done.stdout)))), 0)
        done = gradus("cancel", job, "--now", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
