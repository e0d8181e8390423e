# SPDX-License-Identifier: Apache-2.0
"""Server-sent events of the master's HTTP port: what changes is told, once, to whoever may look, and nobody holds the master up."""

import http.client
import json
import os
import queue
import signal
import threading
import unittest

from cluster import ENDLESS, gradus
from test_page import PageTest

READERS_MAX = 32  # events.h


class Stream:
    """Reads events of a path on a thread of its own."""

    def __init__(self, test, master, path="events", **headers):
        self.test, self.seen, self.events = test, [], queue.Queue()
        self.connection = http.client.HTTPConnection(master.http, timeout=240)
        self.connection.request("GET", "/api/v1/" + path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.answer = self.connection.getresponse()
        self.thread = threading.Thread(target=self.read, daemon=True)
        if self.answer.status == 200:
            self.thread.start()
        test.addCleanup(self.close)

    def read(self):
        event, data = "message", []
        try:
            for line in self.answer:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    event = value
                elif key == "data":
                    data.append(value)
                elif key == "id":
                    self.events.put(("id", value))
                elif key == "" and data:
                    self.events.put((event, json.loads("\n".join(data))))
                    event, data = "message", []
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass
        self.events.put(("end", None))

    def wait(self, what, condition):
        """The first event from here on of which condition(type, data) is true."""
        while True:
            try:
                event = self.events.get(timeout=240)
            except queue.Empty:
                self.test.fail(f"no {what} among {self.seen[-20:]}")
            self.seen.append(event)
            if condition(*event):
                return event[1]
            if event[0] == "end":
                self.test.fail(f"the stream ended before {what}: {self.seen[-20:]}")

    def close(self):
        self.answer.close()
        self.connection.close()


class Events(PageTest):
    def test_what_is_told(self):
        master, _, _ = self.start_cluster(1, 1)
        self.wait_for("two nodes", lambda: len(self.api(master, "nodes")["nodes"]) == 2)
        stream = Stream(self, master)
        self.assertEqual(stream.answer.getheader("Content-Type"), "text/event-stream")
        self.assertEqual(stream.wait("start", lambda kind, data: kind == "start"), {})
        job = self.submit(master, training__epochs=ENDLESS)
        told = stream.wait("a job that runs", lambda kind, data: kind == "job" and data["state"] == "RUNNING")
        self.assertEqual(told["id"], job)
        listed = set(next(j for j in self.api(master, "jobs")["jobs"]))
        self.assertEqual(set(told) | {"times"}, listed | {"times"})  # there are none before the first step
        first = stream.wait("progress", lambda kind, data: kind == "progress" and data["id"] == job)
        stream.wait("more", lambda kind, data: kind == "progress" and int(data["step"]) > int(first["step"]))
        line = stream.wait("a line", lambda kind, data: kind == "log")
        self.assertEqual((set(line), line["level"]), ({"timeMs", "level", "event", "text"}, "INFO"))
        self.assertTrue(any(kind == "node" and data["jobs"] == [job] for kind, data in stream.seen), stream.seen)
        second = self.start("worker", f"--master={master.address}")
        node = stream.wait("a node", lambda kind, data: kind == "node" and data["id"] == "worker-2")
        self.assertEqual(node["alive"], True)
        self.assertEqual(set(node), set(self.api(master, "nodes")["nodes"][0]))
        second.stop()
        self.assertEqual(stream.wait("an end", lambda kind, data: kind == "node-left"), {"node": "worker-2"})
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)
        stream.wait("its end", lambda kind, data: kind == "job" and data["state"] == "CANCELLED")
        self.assertEqual(gradus("rm", job, "--master", master.address).returncode, 0)
        self.assertEqual(stream.wait("its removal", lambda kind, data: kind == "job-removed"), {"job": job})
        master.stop()  # does not wait for readers
        stream.wait("the end", lambda kind, data: kind == "end")

    def test_who_comes_back_is_told_what_was_missed(self):
        master, _, _ = self.start_cluster(1, 1)
        stream = Stream(self, master)
        Stream(self, master)  # somebody stays
        last = stream.wait("an id", lambda kind, data: kind == "id")  # it may hear more before it is closed
        job = self.submit(master, training__epochs=2)
        stream.close()
        self.wait_for("its end", lambda: master.job(job)["state"] == "SUCCEEDED")
        again = Stream(self, master, Last_Event_ID=last)
        told = again.wait("the job", lambda kind, data: kind == "job" and data["id"] == job)
        self.assertEqual(told["state"], "SUCCEEDED")
        again.wait("an id", lambda kind, data: kind == "id")
        kinds = [kind for kind, data in again.seen if kind in ("start", "job")]
        self.assertEqual(kinds, ["job"])  # once, as it is now
        self.assertIn("job_submitted", [data["event"] for kind, data in again.seen if kind == "log"])
        for strange in ("1-2-3", "x" * 1000, ""):
            other = Stream(self, master, Last_Event_ID=strange)
            other.wait("start", lambda kind, data: kind == "start")

    def test_of_one_job(self):
        master, _, _ = self.start_cluster(1, 1)
        ended = self.submit(master, training__epochs=1)
        self.wait_for("its end", lambda: master.job(ended)["state"] == "SUCCEEDED")
        job = self.submit(master, training__epochs=ENDLESS)
        stream = Stream(self, master, f"jobs/{job}/events")
        stream.wait("start", lambda kind, data: kind == "start")
        self.submit(master, training__epochs=1)  # waits for nodes
        stream.wait("progress", lambda kind, data: kind == "progress")
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)
        stream.wait("its end", lambda kind, data: kind == "job" and data["state"] == "CANCELLED")
        stream.wait("a line", lambda kind, data: kind == "log" or any(k == "log" for k, d in stream.seen))
        self.assertEqual({data["id"] for kind, data in stream.seen if kind in ("job", "progress")}, {job})
        for kind, data in stream.seen:
            self.assertTrue(kind != "log" or f"job={job}" in data["text"].split(), data)
        self.assertEqual(self.get(master, "/api/v1/jobs/none-1/events")[::2], (404, '{"error":"no job none-1"}\n'))
        old = Stream(self, master, f"jobs/{ended}/events")
        old.wait("start", lambda kind, data: kind == "start")

    def test_who_may_listen(self):
        tokens = os.path.join(self.dir, "tokens")
        done = gradus("token", "new", "--role", "viewer", "--name", "ann", "--tokens", tokens)
        master = self.start("master", f"--state-dir={self.dir}/state", f"--tokens={tokens}")
        for path in ("events", "jobs/a-1/events"):
            self.assertEqual(self.get(master, "/api/v1/" + path)[0], 401)
            self.assertEqual(self.get(master, "/api/v1/" + path, "POST", data=b"")[0], 401)
        stream = Stream(self, master, Authorization="Bearer " + done.stdout.strip())
        stream.wait("start", lambda kind, data: kind == "start")
        open_one = self.start("master", f"--state-dir={self.dir}/open")
        self.assertEqual(self.get(open_one, "/api/v1/events", headers={"Host": "evil.example"})[0], 403)
        self.assertEqual(self.get(open_one, "/api/v1/events", "POST", data=b"")[0], 405)

    def test_there_is_room_for_so_many(self):
        master, _, _ = self.start_cluster(1, 1)
        self.submit(master, training__epochs=ENDLESS)
        streams = [Stream(self, master) for _ in range(READERS_MAX)]
        for stream in streams:
            stream.wait("start", lambda kind, data: kind == "start")
        status, _, text = self.get(master, "/api/v1/events")
        self.assertEqual(status, 429, text)
        self.assertIn("32 readers", json.loads(text)["error"])
        self.assertEqual(self.get(master, "/api/v1/jobs")[0], 200)
        for stream in streams[:READERS_MAX // 2]:
            stream.close()

        def let_in():
            stream = Stream(self, master)
            return stream.answer.status == 200 and stream
        self.wait_for("room", let_in).wait("progress", lambda kind, data: kind == "progress")
        master.stop(signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
