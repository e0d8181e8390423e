# SPDX-License-Identifier: Apache-2.0
"""Real Gradus processes for integration tests: free ports, bounded time, nothing left running."""

import atexit
import contextlib
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["GRADUS_BIN_DIR"]
SOURCE = os.environ["GRADUS_SOURCE_DIR"]
sys.path.insert(0, SOURCE + "/tests/support")
from job_json import read_job, read_jobs, read_message, read_watched, records_applied  # noqa: E402,F401
DATA = os.environ.get("GRADUS_TEST_DATA", "")
# Runs are remembered, and settings come from the environment: not from that of who starts the tests.
HOME = tempfile.mkdtemp(prefix="gradus-test-home-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["XDG_STATE_HOME"] = HOME
for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GRADUS_S3_ENDPOINT", "GRADUS_MASTER", "GRADUS_STATE_DIR", "GRADUS_RULES_DIR", "GRADUS_CONFIG"):
    os.environ.pop(name, None)
# Nobody is given up for being silent, however long a machine stands still: who is dead is found by its connection, as soon as two
# heartbeats are missing. A test of silence gives its master another time-out. `gradus` has so many seconds for an answer.
os.environ.update(GRADUS_HEARTBEAT_INTERVAL_MS="300", GRADUS_HEARTBEAT_TIMEOUT_MS="60000", GRADUS_TIMEOUT="60s")
# Sanitizers slow everything down; a test that hangs still ends.
TIMEOUT = 600
# What is waited for is there at once, as a rule. A machine that does much else at the same time is given so many times as long
# as a test says: it costs time only where something is broken.
PATIENCE = 4
SLOWER = int(os.environ.get("GRADUS_TEST_SLOWER", "1"))
# How many times as long computations take in clusters started by hand: jobs that go on meanwhile hardly use processors.
SLOW_DOWN = 24 // SLOWER
# A job of so many epochs goes on until the test ends it (ClusterTest.end_job()), however fast the machine is.
ENDLESS = 100000
# Of examples/digits.yaml, a fifth of its parameters: they are moved and updated in every step of every test.
SMALL_MODEL = {"model.layers.1.units": 64, "model.layers.2.units": 32}
# What the sanitizers write; a report fails the test, whatever the exit codes were.
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:")


def children_of(pid):
    """Process ids of all descendants of pid, as far as main threads have started them.

    Not of its other threads: a process whose threads somebody has looked at in /proc ends slowly (common/os/thread.c)."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            for child in f.read().split():
                found.append(int(child))
                found.extend(children_of(int(child)))
    except OSError:
        pass
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def standing_still(pids):
    """Those that are alive."""
    def tell(signal_number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # one that is dying is there for a moment more
                os.kill(pid, signal_number)

    pids = [pid for pid in pids if alive(pid)]
    try:
        tell(signal.SIGSTOP)
        yield
    finally:
        tell(signal.SIGCONT)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return os.path.basename(f.read().split("\0")[0])
    except OSError:
        return ""


def sanitizer_report(text):
    """The report of a sanitizer in the output of a process, cut; "" without one."""
    found = SANITIZER.search(text)
    return text[found.start():found.start() + 6000] if found else ""


def gradus(*args, timeout=TIMEOUT, stdin=None, env=None):
    """@env: more of the environment."""
    done = subprocess.run(
        [os.path.join(BIN, "gradus"), *args],
        capture_output=True, text=True, timeout=timeout, input=stdin, env={**os.environ, **(env or {})},
    )
    report = sanitizer_report(done.stderr)
    if report:
        raise AssertionError(f"gradus {' '.join(args)}\n{report}")
    return done


class Jobs:
    """A client of a master that keeps its connection."""

    protos = None

    def __init__(self, address):
        import grpc  # not all who use this file have it
        if Jobs.protos is None:
            from rpc_python import Protos
            Jobs.protos = Protos(os.environ["GRADUS_DESCRIPTORS"])
        self.error = grpc.RpcError
        self.channel = grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 500)])
        self.call, self.set = (self.channel.unary_unary(
            "/gradus.v1.Jobs/" + method, request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=Jobs.protos["gradus.v1.Job"].FromString) for method in ("Get", "Set"))

    def get(self, name):
        """None: there is no such job."""
        try:
            job = self.call(Jobs.protos["gradus.v1.GetJobRequest"](job=name), timeout=30, wait_for_ready=True)
        except self.error as e:
            if e.code().name == "NOT_FOUND":
                return None
            raise
        state = job.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[job.state].name
        return {"state": state, "reason": job.reason, "steps": job.step, "steps_total": job.steps_total,
                "epochs": job.epoch, "generation": job.generation, "recoveries": job.recoveries, "adoptions": job.adoptions,
                "checkpoint": job.checkpoint, "workers": list(job.workers)}

    def change(self, name, *sets):
        """What `gradus set` asks for; a function that waits until it is in force. The master has it before what is asked next."""
        asked = self.set.future(Jobs.protos["gradus.v1.SetJobRequest"](job=name, sets=sets), timeout=TIMEOUT, wait_for_ready=True)
        self.get(name)
        return asked.result

    def close(self):
        self.channel.close()


class Service:
    """One service process, started and ready."""

    def __init__(self, kind, *args, log, listen="127.0.0.1:0", limits=None, programs=BIN):
        """limits: of open files, soft and hard; programs: their directory."""
        self.jobs = None
        self.log = open(log, "w")
        self.process = subprocess.Popen(
            [os.path.join(programs, f"gradus-{kind}"), "--listen=" + listen, "--http-listen=127.0.0.1:0",
             "--exit-with-parent", *args],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=limits and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)))
        ready, _, _ = select.select([self.process.stdout], [], [], 60 * PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if "ready" not in line:
            self.stop()
            with open(log) as f:
                raise AssertionError(f"gradus-{kind} did not start: {line!r}\n{f.read()}")
        self.address = re.search(r"grpc=(\S+)", line).group(1)
        self.http = re.search(r"http=(\S+)", line).group(1)

    def client(self):
        """Of a master."""
        if self.jobs is None:
            self.jobs = Jobs(self.address)
        return self.jobs

    def job(self, name):
        """Of a master: some fields of `gradus status NAME --json`, for who asks often: without a process."""
        return self.client().get(name)

    def stop(self, how=signal.SIGTERM, timeout=30 * PATIENCE):
        if self.jobs is not None:
            self.jobs.close()
            self.jobs = None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return code


class ClusterTest(unittest.TestCase):
    """A temporary directory, a small data set, and a check that nothing is left running."""

    model = SMALL_MODEL  # keys of every job; {} where the job file is another one

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="gradus-test-")
        done = gradus("generate", "digits", "--out", cls.shared + "/digits", "--train", "2000",
                      "--test", "500")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gradus-test-")
        self.services = []
        self.processes = []

    def tearDown(self):
        for service in reversed(self.services):
            service.stop(signal.SIGKILL)
        for process in self.processes:
            for pid in children_of(process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if process.poll() is None:
                process.kill()
            process.communicate()
        reports = self.sanitizer_reports()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.assertEqual(reports, [], "\n".join(reports))

    def sanitizer_reports(self):
        """From the logs of all services, those of `gradus run` and those started by hand."""
        reports = []
        for directory, _, names in os.walk(self.dir):
            for name in (n for n in names if n.endswith(".log")):
                path = os.path.join(directory, name)
                with open(path, errors="replace") as f:
                    report = sanitizer_report(f.read())
                if report:
                    reports.append(f"{path}\n{report}")
        return reports

    # ---- a job on a cluster of its own ----

    def job(self, **sets):
        base = {"data.dir": self.shared + "/digits", "training.epochs": 2, "cluster.workers": 1,
                "cluster.ps": 1, "training.replicas": 0, "training.checkpoint_within": "1h", **self.model}
        base.update({key.replace("__", "."): value for key, value in sets.items()})
        return [item for key, value in base.items() for item in ("--set", f"{key}={value}")]

    def run_args(self, file, state, *extra, **sets):
        return ["run", file, "--json", "--state-dir", os.path.join(self.dir, state), *self.job(**sets),
                *extra]

    def run_job(self, state="state", file=None, expect=0, **sets):
        done = gradus(*self.run_args(file or SOURCE + "/examples/digits.yaml", state, **sets))
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return read_job(done.stdout) if done.stdout else None

    def start_run(self, state="state", file=None, extra=(), slow_down=None, before=None, **sets):
        """@slow_down: of its workers, so that something can happen to the job while it runs, however fast the machine is and
        however busy. @before: what its process does first of all; otherwise it hears SIGHUP, also where the tests do not."""
        env = {**os.environ, "GRADUS_SLOW_DOWN": str(slow_down)} if slow_down else None
        before = before or (lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        process = subprocess.Popen(
            [os.path.join(BIN, "gradus"), *self.run_args(file or SOURCE + "/examples/digits.yaml", state, *extra, **sets)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=before)
        self.processes.append(process)
        return process

    def wait_for(self, what, condition, timeout=60):
        end = time.monotonic() + PATIENCE * timeout
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"waited {PATIENCE * timeout} s for {what}")

    def in_vain(self, *args, words=()):
        """`gradus` that nobody answers, once it has said all of the words: it does not wait for long, maybe not until it knows why."""
        def said():
            done = gradus(*args, env={"GRADUS_TIMEOUT": "1s"})
            self.assertEqual(done.returncode, 4, done.stderr)
            return done if all(word in " ".join(done.stderr.split()) for word in words) else None
        return self.wait_for(f"{words} of gradus {' '.join(args)}", said)

    def wait_log(self, state, file, text, timeout=60):
        def seen():
            for directory, _, names in os.walk(os.path.join(self.dir, state, "logs")):
                if file in names:
                    with open(os.path.join(directory, file)) as f:
                        if text in f.read():
                            return True
            return False
        self.wait_for(f"{text!r} in {file}", seen, timeout)

    @contextlib.contextmanager
    def jobs_of(self, state):
        """Those of the master of a `gradus run`."""
        address = os.path.join(self.dir, state, "master.address")
        self.wait_for("the master", lambda: os.path.exists(address) and os.path.getsize(address))
        with open(address) as f:
            jobs = Jobs(f.read().strip())
        try:
            yield jobs
        finally:
            jobs.close()

    def wait_run(self, state, steps, job="digits-1"):
        """Until the job of a `gradus run` has made so many steps."""
        with self.jobs_of(state) as jobs:
            self.wait_for(f"{steps} steps", lambda: (
                lambda s: s if s and s["steps"] >= steps else None)(jobs.get(job)))

    def end_job(self, jobs, job, workers, epochs, more=2):
        """A job without an end ends after so many epochs, or after @more when it is there already; how many it has then.

        Its @workers, process ids, stand still meanwhile: it would run away from who stands still between looking and asking."""
        with standing_still(workers):
            epochs = max(epochs, int(jobs.get(job)["epochs"]) + more)
            changed = jobs.change(job, f"training.epochs={epochs}")
        changed()
        return epochs

    def end_run(self, process, state, epochs, job="digits-1"):
        """The same with that of a `gradus run`, and until it is over; what it printed, and its epochs."""
        with self.jobs_of(state) as jobs:
            epochs = self.end_job(jobs, job, self.child(process, "gradus-worker"), epochs)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, err)
        return read_job(out), err, epochs

    def child(self, process, name):
        return [pid for pid in children_of(process.pid) if name_of(pid) == name]

    def assert_gone(self, pids):
        self.wait_for("the processes to end", lambda: not any(alive(p) for p in pids), 30)

    def export(self, job, state="state"):
        out = os.path.join(self.dir, f"{state}-{job}.safetensors")
        done = gradus("export", job, out, "--bare", "--state-dir", os.path.join(self.dir, state))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            return f.read()

    # ---- services by hand ----

    def start(self, kind, *args, **how):
        service = Service(kind, *args, log=os.path.join(self.dir, f"{kind}-{len(self.services)}.log"), **how)
        self.services.append(service)
        return service

    def start_cluster(self, ps=1, workers=1, *master_args, slow_down=SLOW_DOWN):
        state = os.path.join(self.dir, "cluster")
        master = self.start("master", f"--state-dir={state}", *master_args)
        servers = [self.start("ps", f"--master={master.address}", f"--checkpoint-dir={state}/checkpoints")
                   for _ in range(ps)]
        nodes = [self.start("worker", f"--master={master.address}", f"--slow-down={slow_down}") for _ in range(workers)]
        return master, servers, nodes

    def status(self, master, job):
        done = gradus("status", job, "--json", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_job(done.stdout)
