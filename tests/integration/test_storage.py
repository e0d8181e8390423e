# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, gone or damaged: a job waits and says for what, and nothing of it is lost."""

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

from cluster import BIN, ENDLESS, gradus
from faults import FINAL, SLOWER, Digits, FaultTest, main


class SmallDisk:
    """A file system of its own of so many bytes; who may not mount one skips the test."""

    def __init__(self, test, path, size):
        self.path = path
        os.makedirs(path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "gradus-test", path],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"a file system cannot be mounted here: {done.stderr.strip()}")
        test.addCleanup(lambda: subprocess.run(["umount", "-l", path], check=False))

    def fill(self):
        """Leave no byte free."""
        with open(self.path + "/filler", "wb", buffering=0) as f:
            for size in (65536, 4096, 512):
                try:
                    while True:
                        f.write(bytes(size))
                except OSError:
                    pass

    def make_room(self):
        os.unlink(self.path + "/filler")


class StorageTest(Digits, FaultTest):
    job_keys = {"training__checkpoint_every": "20 steps"}

    def health(self):
        try:
            with urllib.request.urlopen(f"http://{self.master.http}/healthz", timeout=120) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def wait_health(self, code):
        self.wait_for(f"health {code}", lambda: self.health()[0] == code)

    def wait_reason(self, job, *words, state="RUNNING", timeout=60):
        def seen():
            status = self.now(job)
            self.assertNotIn(status["state"], FINAL, status["reason"])
            return status if status["state"] == state and all(w in status["reason"] for w in words) else None
        return self.wait_for(f"{state}: {words}", seen, timeout)

    def wait_steps(self, job, more):
        before = self.now(job)["steps"]
        return self.wait_for(f"{more} more steps", lambda: self.now(job)["steps"] >= before + more)


class StateTest(StorageTest):
    """The master's own state: its disk is full, rows are damaged."""

    def small_cluster(self):
        self.state_dir = self.dir + "/cluster"
        disk = SmallDisk(self, self.state_dir, "600k")
        checkpoints = self.dir + "/checkpoints"
        self.master_args = (f"--state-dir={self.state_dir}", f"--checkpoint-dir={checkpoints}")
        self.master = self.start("master", *self.master_args)
        self.servers = [self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={checkpoints}")]
        self.workers = [self.start_worker() for _ in range(2)]
        return disk

    def test_a_full_disk_keeps_nobody_from_training(self):
        disk = self.small_cluster()
        job = self.start_job(cluster__workers=2, cluster__ps=1, **self.job_keys)
        self.wait_steps(job, 50)
        self.wait_health(200)
        disk.fill()
        status = self.wait_reason(job, "its state cannot be stored, which is tried again")
        self.wait_health(503)
        self.assertIn("the state of jobs cannot be stored", self.health()[1])
        self.wait_steps(job, 60)
        refused = gradus("submit", self.file, "--master", self.master.address, *self.sets())
        self.assertEqual(refused.returncode, 1)
        self.assertIn("cannot be stored, so it is not taken", refused.stderr)
        self.assertNotIn("cannot be reached", refused.stderr)
        # A generation that is not stored is not used: what is left of the job stands still, and waits.
        self.workers[1].stop(signal.SIGKILL)
        self.wait_for("the worker to be missed", lambda: len(self.now(job)["workers"]) == 1)
        stands = self.now(job)["steps"]
        disk.make_room()
        self.wait_for("the reason to go", lambda: self.now(job)["reason"] == "")
        self.wait_for("steps", lambda: self.now(job)["steps"] > stands + 30)
        self.wait_health(200)
        self.assertGreater(self.now(job)["generation"], status["generation"])
        gradus("cancel", job, "--now", "--master", self.master.address)
        self.wait_for("the end", lambda: self.now(job)["state"] == "CANCELLED")

    def test_a_run_on_a_full_disk_says_so(self):
        disk = SmallDisk(self, self.dir + "/run", "600k")
        os.makedirs(disk.path + "/logs")
        disk.fill()
        done = gradus(*self.run_args(self.file, "run"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("No space left on device", json.loads(done.stdout)["errors"][0]["message"])

    def test_an_end_is_final(self):
        disk = self.small_cluster()
        job = self.start_job(cluster__workers=2, cluster__ps=1, **self.job_keys)
        self.wait_steps(job, 50)
        disk.fill()
        self.wait_reason(job, "cannot be stored")
        gradus("cancel", job, "--now", "--master", self.master.address)
        self.wait_reason(job, "is CANCELLED as soon as that is stored")
        self.master.stop(signal.SIGKILL)  # nobody was told that it is over, and it is not
        disk.make_room()
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
        self.wait_for("it to run again", lambda: self.now(job)["state"] == "RUNNING")
        gradus("cancel", job, "--now", "--master", self.master.address)
        self.wait_for("the end", lambda: self.now(job)["state"] == "CANCELLED")
        self.replace_master()
        self.assertEqual(self.now(job)["state"], "CANCELLED")

    def test_a_master_starts_on_a_full_disk(self):
        disk = self.small_cluster()
        job = self.start_job(cluster__workers=2, cluster__ps=1, **self.job_keys)
        self.wait_steps(job, 50)
        for how in (signal.SIGKILL, signal.SIGTERM):  # files beside the database stay there, or do not
            self.master.stop(how)
            disk.fill()
            self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
            self.assertIn("address_not_written", self.log_of(self.master))
            self.assertEqual("store_opened_alone" in self.log_of(self.master), how == signal.SIGTERM)
            second = subprocess.run([BIN + "/gradus-master", *self.master_args, "--listen=127.0.0.1:0",
                                     "--http-listen=127.0.0.1:0"], capture_output=True, text=True, timeout=120)
            self.assertNotEqual(second.returncode, 0)
            self.assertIn("is in use by gradus-master with process id", second.stderr)
            self.wait_reason(job, "its state cannot be stored", state=self.now(job)["state"])
            self.wait_health(503)
            disk.make_room()
            self.wait_steps(job, 50)
            self.wait_for("the address", lambda: os.path.exists(self.state_dir + "/master.address"))
            with open(self.state_dir + "/master.address") as f:
                self.assertEqual(f.read().strip(), self.master.address)
            self.wait_health(200)
        gradus("cancel", job, "--now", "--master", self.master.address)
        self.wait_for("the end", lambda: self.now(job)["state"] == "CANCELLED")

    def test_a_new_directory_without_room_is_refused(self):
        self.state_dir = self.dir + "/cluster"
        SmallDisk(self, self.state_dir, "600k").fill()
        done = subprocess.run([BIN + "/gradus-master", f"--state-dir={self.state_dir}", "--listen=127.0.0.1:0",
                               "--http-listen=127.0.0.1:0"], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("database or disk is full", done.stderr)

    def test_a_damaged_row_is_set_aside(self):
        self.cluster(workers=0, ps=0)
        jobs = [self.submit() for _ in range(3)]
        self.master.stop(signal.SIGKILL)
        with sqlite3.connect(self.state_dir + "/master.db") as db:
            db.execute("UPDATE job SET job = substr(job, 1, 40) || x'ff' || substr(job, 42) WHERE id = ?", (jobs[1],))
        db.close()
        self.master = self.start("master", *self.master_args)
        for job in (jobs[0], jobs[2]):
            self.assertEqual(self.now(job)["state"], "PENDING")
        log = self.log_of(self.master)
        self.assertRegex(log, f"row_set_aside.*job={jobs[1]}.*checksum")
        done = gradus("status", jobs[1], "--master", self.master.address)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"the row of job {jobs[1]} is damaged", done.stderr)
        page = urllib.request.urlopen(f"http://{self.master.http}/metrics", timeout=120).read().decode()
        self.assertIn("gradus_master_rows_unreadable 1", page)
        self.assertEqual(self.submit(), "digits-4")  # its number is not used again

    def test_a_damaged_page_is_the_operators(self):
        """The master changes nothing, and says what to type, which brings the other jobs back."""
        self.cluster(workers=0, ps=0)
        jobs = [self.submit() for _ in range(6)]
        self.assertEqual(self.master.stop(), 0)
        path = self.state_dir + "/master.db"
        with open(path, "r+b") as f:
            pages = [f.read(4096) for _ in range(os.path.getsize(path) // 4096)]
            of_jobs = {i: [job for job in jobs if job.encode() in page] for i, page in enumerate(pages)
                       if page[0] == 13 and b"training" in page}  # 13: with rows, sqlite.org/fileformat2.html 1.6
            page, lost = list(of_jobs.items())[1]
            f.seek(page * 4096)
            f.write(b"\xff" * 64)
        with open(path, "rb") as f:
            damaged = f.read()
        self.assertIn(len(lost), (1, 2))
        done = subprocess.run([BIN + "/gradus-master", f"--state-dir={self.state_dir}", "--listen=127.0.0.1:0",
                               "--http-listen=127.0.0.1:0"], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{path} is damaged, and was not changed", done.stderr)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), damaged)
        typed = re.search("can still be read: (cd [^\"]*)", done.stderr).group(1)
        if shutil.which("sqlite3") is None:
            self.skipTest("there is no sqlite3 to type it to")
        subprocess.run(typed, shell=True, check=True, timeout=120)
        with open(self.state_dir + "/damaged/master.db", "rb") as f:
            self.assertEqual(f.read(), damaged)
        self.master = self.start("master", *self.master_args)
        for job in set(jobs) - set(lost):
            self.assertEqual(self.now(job)["state"], "PENDING")
        for job in lost:
            self.assertEqual(gradus("status", job, "--master", self.master.address).returncode, 5)

    def test_old_jobs_that_wait_are_not_forgotten(self):
        self.cluster(workers=0, ps=0)
        waits = self.submit()
        for _ in range(4):
            gradus("cancel", self.submit(), "--now", "--master", self.master.address)
        self.master.stop(signal.SIGKILL)
        self.master_args += ("--jobs-max=1", "--finished-max=1")
        self.master = self.start("master", *self.master_args)
        self.assertEqual(self.now(waits)["state"], "PENDING")
        listed = gradus("list", "--master", self.master.address).stdout
        self.assertIn(waits + " ", listed)


class CheckpointsTest(StorageTest):
    """The disk of checkpoints: full, gone, damaged, shared with another master, or not shared at all."""

    epochs = 4
    job_keys = {"training__checkpoint_every": "100 steps", "cluster__workers": 2, "cluster__ps": 2}
    # The same with shards that need more than the room that is left on a full disk.
    larger = {**job_keys, "training__checkpoint_every": "never", "model__layers__1__units": 128}

    def path(self, *parts):
        return os.path.join(self.dir, "cluster/checkpoints", *parts)

    def steps_of(self, job):
        return sorted(n for n in os.listdir(self.path(job)) if n.startswith("step-"))

    def wait_checkpoints(self, job, number):
        """Until so many are complete; the newest."""
        def there():
            done = [n for n in self.steps_of(job) if os.path.exists(self.path(job, n, "manifest.json"))]
            return done[-1] if len(done) >= number else None
        return self.wait_for(f"{number} checkpoints", there)

    def wait_written(self, job):
        """Of a job that is held: until its newest checkpoint is complete and known."""
        def written():
            now = self.now(job)
            name = f"step-{now['steps'] // 100 * 100:09d}"
            return name if now["checkpoint"].endswith(name) else None
        return self.wait_for("the newest checkpoint", written)

    def test_a_full_disk_at_the_end(self):
        self.state_dir = self.dir + "/cluster"
        disk = SmallDisk(self, self.state_dir, "12m")
        self.cluster(workers=2)
        job = self.start_job(**self.larger)
        self.wait_done(job, 0.3)
        os.sync()
        disk.fill()
        with open(disk.path + "/filler", "r+b") as f:
            f.truncate(os.path.getsize(disk.path + "/filler") - 300000)  # for the row, not for a checkpoint
        self.give_end(job)
        status = self.wait_reason(job, "checkpoint at step", "No space left", "its shards are kept", timeout=90)
        self.assertEqual(status["steps"], status["steps_total"])
        self.assertEqual(self.steps_of(job), [])  # what failed is gone, and its room is there again
        disk.make_room()
        done = self.wait_end(job)
        self.assertEqual(done["reason"], "")
        self.assertEqual(len(self.steps_of(job)), 1)

    def test_who_cancels_does_not_wait_for_room(self):
        self.state_dir = self.dir + "/cluster"
        disk = SmallDisk(self, self.state_dir, "12m")
        self.cluster(workers=2)
        job = self.start_job(**self.larger)
        self.wait_done(job, 0.2)
        disk.fill()
        with open(disk.path + "/filler", "r+b") as f:
            f.truncate(os.path.getsize(disk.path + "/filler") - 300000)
        gradus("cancel", job, "--master", self.master.address)
        status = self.wait_for("the end", lambda: (
            lambda s: s if s["state"] == "CANCELLED" else None)(self.now(job)), 30)
        self.assertIn("No space left", status["reason"])
        self.assertIn("there is no checkpoint", status["reason"])

    def test_checkpoints_that_vanish_are_waited_for(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_checkpoints(job, 1)
        with self.held():
            self.wait_written(job)
            os.rename(self.path(job), self.path("elsewhere"))
            self.servers[0].stop(signal.SIGKILL)
        self.servers[0] = self.start_ps()
        self.wait_reason(job, "none of its checkpoints can be read, and it had", state="RECOVERING")
        os.rename(self.path("elsewhere"), self.path(job))
        self.wait_end(job)
        self.assertNotIn("job_resumes job=%s step=0" % job, self.log_of(self.master))

    def test_a_disk_that_is_not_mounted(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_checkpoints(job, 1)
        self.wait_for("the row", lambda: self.now(job)["checkpoint"])
        self.master.stop(signal.SIGKILL)
        self.servers[0].stop(signal.SIGKILL)  # so the job has to go back
        os.rename(self.path(), self.dir + "/unmounted")
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
        self.servers[0] = self.start_ps()
        self.wait_reason(job, "is its disk mounted?", state="RECOVERING")
        self.assertFalse(os.path.exists(self.path()))  # nobody makes it
        self.wait_health(503)
        self.assertIn("is its disk mounted?", self.health()[1])
        refused = gradus("submit", self.file, "--master", self.master.address, *self.sets())
        self.assertIn("is its disk mounted?", refused.stderr)
        os.rename(self.dir + "/unmounted", self.path())
        self.wait_end(job)
        self.wait_health(200)

    def test_a_flipped_bit_costs_a_checkpoint(self):
        self.cluster(workers=2)
        job = self.start_job(**{**self.job_keys, "training__checkpoints_keep": 0})
        self.wait_checkpoints(job, 3)
        with self.held():
            newest = self.wait_written(job)
            name = next(n for n in sorted(os.listdir(self.path(job, newest))) if n.startswith("shard-1"))
            with open(self.path(job, newest, name), "r+b") as f:
                f.seek(-1000, os.SEEK_END)
                byte = f.read(1)
                f.seek(-1000, os.SEEK_END)
                f.write(bytes([byte[0] ^ 1]))
            self.servers[0].stop(signal.SIGKILL)
            self.servers[0] = self.start_ps()
        self.wait_end(job)
        log = self.log_of(self.master)
        self.assertRegex(log, f"checkpoint_damaged .*{newest}.*checksum")
        self.assertNotRegex(log, f"job_resumes job={job} step=0 ")

    def test_two_masters_with_one_directory(self):
        shared = self.dir + "/shared"
        keys = self.job_keys
        clusters, jobs = [], []
        for name in ("a", "b"):
            master = self.start("master", f"--state-dir={self.dir}/{name}", f"--checkpoint-dir={shared}")
            servers = [self.start("ps", f"--master={master.address}", f"--checkpoint-dir={shared}")
                       for _ in range(2)]
            workers = [self.start("worker", f"--master={master.address}", f"--slow-down={self.slow_down}")
                       for _ in range(2)]
            clusters.append((master, servers, workers))
        for seed, (master, _, _) in enumerate(clusters):
            done = gradus("submit", self.file, "--master", master.address, *self.sets(
                training__seed=seed + 1, training__epochs=ENDLESS, **keys))
            self.assertEqual(done.returncode, 0, done.stderr)
            jobs.append(done.stdout.strip())
        self.assertEqual(sorted(jobs), ["digits-1", "digits-2"])
        for (master, servers, _), job in zip(clusters, jobs):
            self.wait_for("a checkpoint", lambda: master.job(job)["checkpoint"])
            servers[0].stop(signal.SIGKILL)
            servers[0] = self.start("ps", f"--master={master.address}", f"--checkpoint-dir={shared}")
        models = []
        for seed, ((master, _, workers), job) in enumerate(zip(clusters, jobs)):
            epochs = self.end_job(master.client(), job, [w.process.pid for w in workers], self.epochs)
            self.wait_for("the end", lambda: master.job(job)["state"] == "SUCCEEDED", 120 * SLOWER)
            out = f"{self.dir}/{job}.safetensors"
            done = gradus("export", job, out, "--bare", "--master", master.address)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, "rb") as f:
                models.append(f.read())
            alone = self.quiet(f"alone-{job}", training__seed=seed + 1, training__replicas=2, training__epochs=epochs)
            self.assertEqual(models[-1], self.export(alone["job"], f"alone-{job}"))
        self.assertNotEqual(models[0], models[1])

    def test_a_server_that_sees_another_directory_says_so(self):
        self.cluster(workers=1, ps=1)
        self.servers[0].stop()
        other = self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.dir}/other")
        job = self.start_job(cluster__workers=1, cluster__ps=1, training__checkpoint_every="never")
        self.wait_reason(job, "could not write a checkpoint", "must see the same files")
        asked = gradus("checkpoint", job, "--master", self.master.address)
        self.assertIn("must see the same files", asked.stderr)
        self.wait_reason(job, "checkpoint at step", "must see the same files")
        self.assertEqual(self.steps_of(job), [])
        self.assertEqual(other.process.poll(), None)
        gradus("cancel", job, "--now", "--master", self.master.address)


if __name__ == "__main__":
    main()
