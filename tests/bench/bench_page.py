#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a master with 500 nodes and 200 jobs: what the first view takes, what a viewer costs the master, and how long the browser
stands still.

Usage: bench_page.py BIN_DIR [--workers 450] [--servers 50] [--jobs 100] [--queue 100] [--split-ms 2000] [--runs 5] [--seconds 6]
                     [--screenshots DIR]

The nodes are those of bench_master: one process that talks as they do, and computes nothing; --jobs run and --queue wait. The first view
is the page with its jobs, or nodes, as a browser asks for them. A viewer is a reader of /api/v1/events; its cost is the difference of
turns with and without one, or many. Chromium, where it is installed, shows jobs, nodes and a job for --seconds each while all of that changes, and
the live picture of 64 workers, made up, five times.
Prints, never asserts."""

import argparse
import base64
import gzip
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]
import bench_master  # noqa: E402
import machine  # noqa: E402
import transfers  # noqa: E402

WIDTHS = (1280, 768, 375)


def fetch(address, path):
    """(bytes on the wire, text) of an answer as a browser takes it."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    packed = answer.getheader("Content-Encoding") == "gzip"
    connection.close()
    return len(body), (gzip.decompress(body) if packed else body).decode()


def first_view(address, page, runs):
    sizes, times = [], []
    for _ in range(runs * 4):
        began = time.monotonic()
        sizes.append(fetch(address, "/")[0] + fetch(address, "/api/v1/" + page)[0])
        times.append((time.monotonic() - began) * 1000)
    return max(sizes), statistics.median(times), max(times)


class Viewer:
    """Reads all events."""

    def __init__(self, address, path="events"):
        self.bytes, self.connection = 0, http.client.HTTPConnection(address, timeout=60)
        self.connection.request("GET", "/api/v1/" + path)
        self.answer = self.connection.getresponse()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            while part := self.answer.read1(65536):
                self.bytes += len(part)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass

    def close(self):
        self.connection.sock.shutdown(2)
        self.thread.join()
        self.connection.close()


def thread_seconds(pid):
    """(of the thread that serves HTTP, of all others)"""
    spent = [0.0, 0.0]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
            http_thread = f.read().strip() == "http"
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
            spent[0 if http_thread else 1] += int(f.read().split()[0]) * 1e-9
    return spent


def cpu(master, load, seconds):
    """Of both kinds of threads, in processors."""
    load.begin("measure", seconds)
    began, before = time.monotonic(), thread_seconds(master.pid)
    load.end()
    return [(now - then) / (time.monotonic() - began) for now, then in zip(thread_seconds(master.pid), before)]


def cost(args, master, load, viewers):
    alone, more, rates = [], [], []
    for _ in range(args.runs):
        alone.append(cpu(master, load, args.seconds))
        all_viewers = [Viewer(master.said["http"]) for _ in range(viewers)]
        seen = cpu(master, load, args.seconds)
        more.append([a - b for a, b in zip(seen, alone[-1])])
        rates.append(sum(v.bytes for v in all_viewers) / args.seconds / viewers)
        for v in all_viewers:
            v.close()
    http_more, others_more = [100 * statistics.median(column) / viewers for column in zip(*more)]
    print(f"the master without a viewer: {100 * statistics.median(sum(a) for a in alone):.1f} % of a processor; each of {viewers} viewers adds "
          f"{http_more:.2f} % to the thread of HTTP, {others_more:.2f} % to the others; {statistics.median(rates) / 1000:.0f} kB/s")


class Host:
    """What the driver of the tests wants of a test."""

    def __init__(self, folder):
        self.dir, self.ends = folder, []

    def addCleanup(self, end, *args):
        self.ends.append(lambda: end(*args))

    def wait_for(self, what, condition):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise RuntimeError(f"no {what}")


WATCH = """window.tasks = [];
new PerformanceObserver(l => tasks.push(...l.getEntries().map(e => e.duration))).observe({type: 'longtask', buffered: true});
window.frames_ms = []; let before = 0;
const frame = t => { if (before) frames_ms.push(t - before); before = t; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
window.draws = []; const drawn = replace; replace = n => { const t = performance.now(); drawn(n); void document.body.offsetHeight; draws.push(performance.now() - t); };"""
READ = "return {tasks, frames: frames_ms, draws, rows: document.querySelectorAll('tbody tr').length}"


def show(args, load, driver, address, view, host):
    load.begin("measure", args.seconds + 1)
    driver.open("about:blank")
    driver.open(f"http://{address}/#/{view}")
    host.wait_for("the view", lambda: driver.run("return document.querySelectorAll('tbody tr').length > 0 || document.querySelector('.tile') !== null"))
    first = driver.run("return performance.getEntriesByName('view')[0].startTime")
    driver.run(WATCH)
    load.end()
    seen = driver.run(READ)
    if args.screenshots:
        for width in WIDTHS:
            driver.call("/window/rect", {"width": width, "height": 1000})
            time.sleep(0.3)
            with open(os.path.join(args.screenshots, f"{view.split('/')[0]}{'-one' if '/' in view else ''}-{width}.png"), "wb") as f:
                f.write(base64.b64decode(driver.call("/screenshot")))
        driver.call("/window/rect", {"width": 1280, "height": 1000})
    long_tasks = seen["tasks"]
    print(f"{view.split('/')[0] + ('/JOB' if '/' in view else ''):<10} {seen['rows']:>6} {first:>12.0f} {len(seen['draws']):>7} "
          f"{max(seen['draws'] or [0]):>14.1f} {max(seen['frames'] or [0]):>14.1f} {len(long_tasks):>8} {max(long_tasks or [0]):>8.0f}")


def live(driver):
    """The picture of 64 workers, as it comes again and again."""
    import test_page_live
    driver.run(f"window.texts = [8, 9, 10, 11, 12].map(steps => JSON.stringify(new Function({json.dumps(test_page_live.MAKE)})(64, steps)))")
    time.sleep(1)
    driver.run(WATCH)
    driver.run("const show = i => { takeLive(live, JSON.parse(texts[i])); live.on = true; if (i + 1 < texts.length) setTimeout(show, 2000, i + 1); }; setTimeout(show, 0, 0)")
    time.sleep(11)
    seen = driver.run(READ)
    print(f"{'live of 64':<10} {'':>6} {'':>12} {5:>7} {'':>14} {max(seen['frames'] or [0]):>14.1f} {len(seen['tasks']):>8} "
          f"{max(seen['tasks'] or [0]):>8.0f}")


def browse(args, master, load, folder):
    os.environ.setdefault("GRADUS_BIN_DIR", args.bin_dir)
    os.environ.setdefault("GRADUS_SOURCE_DIR", os.path.join(HERE, "..", ".."))
    import test_page
    if not test_page.BROWSER or not test_page.DRIVER:
        print("no chromium and chromedriver: nothing is shown")
        return
    host = Host(folder)
    address = master.said["http"]
    try:
        driver = test_page.Driver(host)
        driver.call("/window/rect", {"width": 1280, "height": 1000})
        jobs = json.loads(fetch(address, "/api/v1/jobs")[1])["jobs"]
        running = next(j["id"] for j in jobs if j["state"] == "RUNNING")
        print(f"{'view':<10} {'rows':>6} {'there in ms':>12} {'draws':>7} {'longest, ms':>14} {'frame, ms':>14} {'> 50 ms':>8} {'longest':>8}")
        for view in ("jobs", "nodes", "jobs/" + running):
            show(args, load, driver, address, view, host)
        live(driver)
    finally:
        for end in reversed(host.ends):
            end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--workers", type=int, default=450)
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--queue", type=int, default=100)
    parser.add_argument("--split-ms", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--screenshots", metavar="DIR", help="PNG of each view, 1280, 768 and 375 pixels wide")
    args = parser.parse_args()
    print(machine.describe())
    with tempfile.TemporaryDirectory(prefix="gradus-bench-") as folder:
        master = bench_master.Master(args.bin_dir, folder)
        try:
            load = transfers.Program(os.path.join(args.bin_dir, "bench_master"), master.said["grpc"], os.path.join(folder, "checkpoints"),
                                     args.workers, args.servers, args.jobs, 0, args.split_ms, args.queue)
            load.begin("measure", 5)
            load.end()
            for page in ("jobs", "nodes"):
                size, median, worst = first_view(master.said["http"], page, args.runs)
                print(f"first view of {page}: {size / 1000:.1f} kB, {median:.1f} ms, at worst {worst:.1f} ms; "
                      f"{len(fetch(master.said['http'], '/api/v1/' + page)[1]) / 1000:.0f} kB of JSON")
            for viewers in (1, 16):
                cost(args, master, load, viewers)
            browse(args, master, load, folder)
            load.close()
        finally:
            master.close()


if __name__ == "__main__":
    main()
