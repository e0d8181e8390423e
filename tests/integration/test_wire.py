# SPDX-License-Identifier: Apache-2.0
"""Gradients and parameters that travel in 16 bits."""

import hashlib
import json
import re
import unittest
import urllib.request

from cluster import ENDLESS, SOURCE, ClusterTest, gradus


class Wire(ClusterTest):
    def wire(self, gradients, parameters):
        return {"training__wire": f"{{gradients: {gradients}, parameters: {parameters}}}"}

    def test_sync_is_the_same_bits_however_it_is_spread(self):
        bits = {}
        for wire in (("fp32", "fp32"), ("bf16", "fp32"), ("fp16", "bf16"), ("bf16", "fp16")):
            found = set()
            for workers, ps, partitions in ((1, 1, 1), (2, 2, 2), (4, 3, 3)):
                state = f"{'-'.join(wire)}-w{workers}p{ps}"
                result = self.run_job(state, training__replicas=4, training__batch_size=16, training__epochs=1,
                                      cluster__workers=workers, cluster__ps=ps, cluster__partitions=partitions,
                                      **self.wire(*wire))
                self.assertEqual(result["state"], "SUCCEEDED")
                found.add((hashlib.sha256(self.export(result["job"], state)).hexdigest(),
                           json.dumps(result["metrics"]["test"])))
            self.assertEqual(len(found), 1, wire)
            bits[wire] = found.pop()
        self.assertEqual(len(set(bits.values())), len(bits), bits)

    def test_all_modes_learn(self):
        for mode in ({"training__mode": "async"}, {"training__mode": "async", "training__push_every": 3},
                     {"training__mode": "bounded", "training__staleness": 1},
                     {"training__replicas": 4, "training__replicas_to_aggregate": 3},
                     {"training__replicas": 4, "training__speculate": "true"}):
            result = self.run_job("-".join(str(v) for v in mode.values()), cluster__workers=2, cluster__ps=2,
                                  training__epochs=4, training__batch_size=16, **mode, **self.wire("bf16", "fp16"))
            self.assertEqual(result["state"], "SUCCEEDED", mode)
            self.assertGreater(result["metrics"]["test"]["accuracy"], 0.6, mode)

    def moved(self, server):
        page = urllib.request.urlopen(f"http://{server.http}/metrics", timeout=120).read().decode()
        return [int(re.search(rf"^gradus_ps_value_bytes_{way}_total (\d+)", page, re.M).group(1))
                for way in ("received", "sent")]

    def test_half_the_bytes(self):
        master, servers, _ = self.start_cluster(ps=1, workers=0)
        self.start("worker", f"--master={master.address}", "--local-sockets=off")  # floats may pass in memory else
        moved = {}
        for wire in ("fp32", "fp16", "bf16"):
            before = self.moved(servers[0])
            done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address,
                          *self.job(training__mode="async", training__evaluate_every="never",
                                    **self.wire(wire, wire)))
            self.assertEqual(done.returncode, 0, done.stderr)
            job = done.stdout.strip()
            self.wait_for("the end", lambda: master.job(job)["state"] == "SUCCEEDED")
            moved[wire] = [after - b for after, b in zip(self.moved(servers[0]), before)]
        for wire in ("fp16", "bf16"):
            self.assertEqual(moved[wire][0] * 2, moved["fp32"][0])
            self.assertLess(moved[wire][1], 0.55 * moved["fp32"][1])  # the last evaluation is exact

    def test_types_are_fixed(self):
        master, _, _ = self.start_cluster()
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(
            training__epochs=ENDLESS, **self.wire("bf16", "bf16")))
        job = done.stdout.strip()
        done = gradus("set", job, "training.wire.gradients=fp32", "--master", master.address)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("fixed when the job was submitted: it decides how values are rounded", done.stderr)
        done = gradus("validate", SOURCE + "/examples/digits.yaml", "--set", "training.wire.gradients=bf17")
        self.assertIn("bf16", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
