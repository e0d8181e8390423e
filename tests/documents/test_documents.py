# SPDX-License-Identifier: Apache-2.0
"""Every command that README.md and docs/ show is run as it stands there, in the order of its page, on a machine
that the texts suppose: a fresh tree, a host called master, an empty /var/lib/gradus.

A new command is run, too, without a line here. Only what needs something before it (PREPARATIONS), lasts too long as it
stands (SHORTER) or is run by somebody else (ELSEWHERE) is listed, with the reason.

With GRADUS_CLEAN_CLONE=1 (script/test-documents) the programs are built by the commands themselves, for the pages that
say how; otherwise they are those of GRADUS_BIN_DIR."""

import glob
import gzip
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import documents
import private

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
BIN = os.environ.get("GRADUS_BIN_DIR", "")
CLEAN = os.environ.get("GRADUS_CLEAN_CLONE") == "1"
CLEAN_PAGES = ("README.md", "docs/first-job.md", "docs/simulator.md")
COMMAND_S = 900 if CLEAN else 180
ENDLESS = 100000  # epochs of a job that is over when its page is

# What a text calls job.yaml is a file of the reader's own.
JOB = """name: {name}
data:
  dir: {data}
  train: {{file: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}}
  test: {{file: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz}}
model:
  layers:
    - flatten
    - dense: {{units: 64, activation: relu}}
    - dense: {{units: 10}}
  loss: softmax_cross_entropy
  metrics: [accuracy]
update: {{rule: adam, learning_rate: 0.001}}
training: {{mode: sync, batch_size: 64, replicas: 8, epochs: {epochs}}}
cluster: {{workers: 1, ps: 1}}
"""

# The same with rows under keys.
JOB_OF_TABLES = """name: clicks
data:
  format: libffm
  dir: {data}
  train: {{file: clicks}}
  columns: [{{column: 0..3, as: sparse}}]
model:
  tables:
    - {{name: weights, dim: 1, init: zeros, memory_bytes: 4 MiB}}
    - {{name: factors, dim: 4, memory_bytes: 8 MiB}}
  layers:
    - linear: {{name: first_order, from: 0..3, table: weights, bias: true}}
    - embedding: {{name: vectors, from: 0..3, table: factors}}
    - factorization: {{name: second_order}}
    - add: {{from: [first_order, second_order]}}
  loss: sigmoid_cross_entropy
update: {{rule: adagrad, learning_rate: 0.02}}
training: {{batch_size: 16, epochs: 100000, evaluate_every: never}}
cluster: {{workers: 1, ps: 1}}
"""

# (page, command, who runs it)
BY_CONTAINERS = "script/test-containers, on a docker engine"
BY_CLEAN_CLONE = "script/test-documents, in a clean tree"
BY_KUBERNETES = "script/test-kubernetes, on a cluster"
BY_INSTALL = "it changes the machine; tests/integration/test_install.py has what is installed"
BY_PROGRAMS = "tests/integration/test_programs.py, where there is what the programs need"
ELSEWHERE = [
    ("docs/deployment.md", r"(tar .*)?docker-compose ", BY_CONTAINERS),
    ("deploy/compose.yaml", r".*", BY_CONTAINERS),
    ("docker/Dockerfile", r".*", BY_CONTAINERS),
    ("docs/deployment.md", r"(docker|kubectl) ", BY_KUBERNETES),
    ("docs/deployment.md", r"(script/build$|cd build && cpack |apt install )", "script/test-packages, in a Debian of its own"),
    ("docs/deployment.md", r"(cmake --install|systemd-sysusers|systemctl|gradus nodes$)", BY_INSTALL),
    ("docs/deployment.md", r"build/bin/gradus (nodes|cancel) ", "it needs the port of a cluster, and is in docs/cli.md, too"),
    ("docs/operations.md", r"kubectl ", BY_KUBERNETES),
    ("docs/operations.md", r"gradus checkpoint ", "it needs a job of one's own, and is in docs/cli.md, too"),
    ("docs/operations.md", r"gradus nodes --wait ", "tests/integration/test_standby.py, while servers are started again"),
    ("docs/python.md", r"gradus (run examples/pytorch/|export torch-)", BY_PROGRAMS),
    ("README.md", r"script/test$", "this test is a part of it"),
    ("docs/simulator.md", r"script/sim --mutants$", "the step of script/test for deliberate bugs"),
    ("README.md", r"script/demo$", BY_CLEAN_CLONE),
    ("docs/first-job.md", r"script/build$", BY_CLEAN_CLONE),
    ("docs/simulator.md", r"script/sim |build/sim/bin/sim ", BY_CLEAN_CLONE),
]

# (what lasts too long, what is run instead)
SHORTER = [
    (r"--seeds 1000000000\b", "--seeds 1000"),
    (r"--seeds 100000\b", "--seeds 300"),
    (r"(gradus compare \S+)", r"\1 --set training.epochs=1"),
    (r"(gradus resume digits-1 --set training.epochs=)20", rf"\g<1>{ENDLESS + 1}"),  # it may be past that
]


def elsewhere(command):
    """Who runs this command if not this test, "" when it does."""
    for page, pattern, who in ELSEWHERE:
        if page == command.document and re.match(pattern, command.words) and not (CLEAN and who == BY_CLEAN_CLONE):
            return who
    return ""


def shorter(text):
    for long, short in SHORTER:
        text = re.sub(long, short, text)
    return text


def wait_for(what, condition, timeout=120):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {timeout} s for {what}")


class Page:
    """A tree to run the commands of one page in, and the processes that they started."""

    def __init__(self, document):
        self.document = document
        self.scratch = tempfile.mkdtemp(prefix="gradus-documents-")
        self.tree = os.path.join(self.scratch, "gradus")
        shutil.copytree(SOURCE, self.tree, ignore=lambda directory, names: [
            name for name in names if name in (".git", "__pycache__")
            or directory == SOURCE and name.startswith("build")])
        if not CLEAN:
            os.makedirs(self.tree + "/build")
            os.symlink(BIN, self.tree + "/build/bin")
            os.symlink(os.path.join(os.path.dirname(BIN), "lib"), self.tree + "/build/lib")
        tools = self.scratch + "/tools"
        os.mkdir(tools)
        if shutil.which("less") is None:
            os.symlink(shutil.which("cat"), tools + "/less")
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GRADUS_")}
        # A machine may stand still for a while.
        ours.update(GRADUS_TIMEOUT="60s", GRADUS_HEARTBEAT_INTERVAL_MS="300", GRADUS_HEARTBEAT_TIMEOUT_MS="60000")
        self.environment = dict(ours, HOME=self.scratch, XDG_STATE_HOME=self.scratch + "/state",
                                PATH=f"{self.tree}/build/bin:{os.environ['PATH']}:{tools}")
        self.running = []
        self.cluster = []

    def popen(self, text, log):
        return subprocess.Popen(["bash", "-c", text], cwd=self.tree, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, text, timeout=COMMAND_S):
        """Run a command to its end; its output."""
        with tempfile.TemporaryFile("w+") as log:
            process = self.popen(text, log)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = f"none after {timeout} s"
            log.seek(0)
            output = log.read()
        if code != 0:
            raise AssertionError(f"$ {text}\nexit code {code}\n{output}")
        return output

    def export(self, text):
        """What it sets is there for the commands that follow, as in one shell."""
        for line in self.run(text + "\nenv").splitlines():
            name, _, value = line.partition("=")
            if name.startswith("GRADUS_"):
                self.environment[name] = value

    def start(self, text, until):
        """Start a command and wait until it has printed what `until` matches."""
        process = self.popen(text, subprocess.PIPE)
        self.running.append((process, text))
        output = ""
        end = time.monotonic() + 120
        while not re.search(until, output):
            ready, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
            more = os.read(process.stdout.fileno(), 65536).decode(errors="replace") if ready else ""
            output += more
            if not more:
                raise AssertionError(f"$ {text}\ndid not print {until!r}\n{output}")
        return process

    def finish(self):
        """Whatever is watched has to end well. It has no end before: what the text does to it meanwhile may take any time."""
        for process, text in self.running:
            if " --watch" in text:
                master = re.search(r"--master \S+", text).group()
                epochs = int(float(re.search(r'"epoch":([\d.]+)', self.run(f"build/bin/gradus status job-1 --json {master}")).group(1)))
                self.run(f"build/bin/gradus set job-1 training.epochs={epochs + 20} {master}")
                output, _ = process.communicate(timeout=COMMAND_S)
                if process.returncode != 0:
                    raise AssertionError(f"$ {text}\nexit code {process.returncode}\n{output}")

    def stop(self):
        for process, _ in reversed(self.running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        self.running = []

    def close(self):
        self.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)
        for name in glob.glob("/var/lib/gradus/*") + glob.glob("/data/*"):
            shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)

    # ---- what the texts suppose ----

    def write_job(self, name, epochs):
        """The job.yaml of a user: little data, and a worker or more."""
        if not os.path.exists(self.scratch + "/small"):
            self.run(f"build/bin/gradus generate digits --out {self.scratch}/small --train 2000 --test 500")
        with open(self.tree + "/job.yaml", "w") as f:
            f.write(JOB.format(name=name, data=self.scratch + "/small", epochs=epochs))

    def start_cluster(self, flags=""):
        """A cluster of four workers at the default address, its state in state/, which the demo's is, too."""
        self.stop()
        state = self.tree + "/build/demo/state"
        for known in state, self.scratch + "/state":  # the second one has the jobs of `gradus run`
            shutil.rmtree(known, ignore_errors=True)
        os.makedirs(state)
        if not os.path.lexists(self.tree + "/state"):
            os.symlink(state, self.tree + "/state")
        ready = r" ready grpc="
        self.start(f"build/bin/gradus-master --listen 127.0.0.1:7000 --state-dir state{flags}", ready)
        for _ in range(2):
            self.start("build/bin/gradus-ps --master 127.0.0.1:7000 --checkpoint-dir state/checkpoints", ready)
        for _ in range(4):
            self.start("build/bin/gradus-worker --master 127.0.0.1:7000", ready)

    def submit(self, epochs, flags=""):
        """A new cluster with one job, digits-1, that is running."""
        self.write_job("digits", epochs)
        self.start_cluster(flags)
        self.submit_to_run("job.yaml", "digits-1")

    def submit_to_run(self, file, job):
        self.run(f"build/bin/gradus submit {file}")
        wait_for(f"{job} to run", lambda: re.search(  # a short one may have ended when it is looked at
            r'"state":"(RUNNING|SUCCEEDED)"', self.run(f"build/bin/gradus status {job} --json")))


def job_file(page):
    page.write_job("digits", epochs=2)


def cluster(page):
    page.write_job("digits", epochs=2)
    page.start_cluster()


def running_job(page):
    page.submit(epochs=ENDLESS)


def job_of_somebody(page):
    """A cluster that asks for tokens, and one of an admin, whom everybody is."""
    tokens = page.scratch + "/tokens"
    token = page.run(f"build/bin/gradus token new --role admin --name ann --tokens {tokens}").split()[-1]
    page.environment.update(TOKEN=token, GRADUS_TOKEN=token)
    page.submit(ENDLESS, f" --tokens {tokens} --http-listen 127.0.0.1:8080")


def job_of_a_new_state(page):
    """running_job() behind commands that made state/ of their own."""
    page.stop()
    shutil.rmtree(page.tree + "/state")
    running_job(page)


def cancelled_job(page):
    running_job(page)
    page.run("build/bin/gradus cancel digits-1")
    wait_for("digits-1 to be cancelled", lambda: '"state":"CANCELLED"' in page.run("build/bin/gradus status digits-1 --json"))


def job_of_tables(page):
    draw = random.Random(2)
    with open(page.scratch + "/clicks", "w") as f:
        for _ in range(400):
            f.write(f"{draw.randrange(2)} " + " ".join(f"{k}:{draw.randrange(100)}:1" for k in range(4)) + "\n")
    with open(page.tree + "/clicks.yaml", "w") as f:
        f.write(JOB_OF_TABLES.format(data=page.scratch))
    page.start_cluster()
    page.submit_to_run("clicks.yaml", "clicks-1")


def short_job(page):
    page.submit(epochs=30)


def short_job_of_two_workers(page):
    page.write_job("digits", 30)
    page.start_cluster()
    page.submit_to_run("job.yaml --set cluster.workers=2", "digits-1")


def job_that_has_ended(page):
    short_job(page)
    page.run("build/bin/gradus watch digits-1")


def job_of_the_readme(page):
    page.write_job("job", epochs=ENDLESS)


def second_worker(page):
    """The text has a line for a worker; a range of 2..8 wants two, on another port as they share a host here."""
    worker = next(text for _, text in page.running if "gradus-worker" in text)
    page.start(re.sub(r":7002\b", ":7003", worker), " ready grpc=")


def checkpoint_of_the_text(page):
    """The step that the text names; the job in state/ has ended at another one."""
    job_that_has_ended(page)
    newest = max(glob.glob(page.tree + "/state/checkpoints/digits-1/step-*"))
    os.symlink(newest, page.tree + "/state/checkpoints/digits-1/step-000009380")


def iris(page):
    """iris.csv at /data, drawn, and a checkpoint of a job on it."""
    draw = random.Random(1)
    with open("/data/iris.csv", "w") as f:
        for number in range(150):
            kind = number % 3
            f.write(",".join(f"{draw.gauss(4 + kind, 0.5):.2f}" for _ in range(4)) + f",kind-{kind}\n")
    page.start_cluster()
    page.run("build/bin/gradus submit examples/iris.yaml --set data.dir=/data --set training.epochs=5 --watch")


def flowers_without_kinds(page):
    with open("/data/iris.csv") as f, open(page.tree + "/new.csv", "w") as new:
        new.writelines(line.rsplit(",", 1)[0] + "\n" for line in f)


def worker_program(page):
    """A program of the reader's own, and a job that wants it."""
    shutil.copy(os.path.join(BIN, "..", "tests", "logistic_program"), page.tree + "/my_model")
    with open(page.tree + "/mine.yaml", "w") as out:
        out.write("name: mine\nmodel: {program: mine, metrics: [accuracy]}\nupdate: {rule: sgd, learning_rate: 0.5}\n")


def plugins(page):
    for command in documents.commands(SOURCE, "docs/plugins.md"):
        if re.match(r"mkdir|cc ", command.words):
            page.run(command.text)


def data_files(page):
    """clicks.tsv.gz, and two CSV files with a header line each."""
    with gzip.open(page.tree + "/clicks.tsv.gz", "wt") as f:
        f.write("".join(f"{n % 2}\t{n}\n" for n in range(1000)))
    for part in (1, 2):
        with open(f"{page.tree}/part-{part}.csv", "w") as f:
            f.write("label,number\n" + "".join(f"{n % 2},{n}\n" for n in range(100)))


def criteo_file(page):
    """clicks/ with a file of Criteo's format, drawn."""
    draw = random.Random(3)
    os.mkdir(page.tree + "/clicks")
    with open(page.tree + "/clicks/criteo_1k.tsv", "w") as f:
        for _ in range(300):
            f.write("\t".join([str(draw.randrange(2))] + [str(draw.randrange(50)) for _ in range(13)]
                              + [f"{draw.randrange(99):08x}" for _ in range(26)]) + "\n")


def own_csv(page):
    documents.write_own_csv(SOURCE, page.tree)


# (page, command, what comes before it)
PREPARATIONS = [
    ("README.md", r"build/bin/gradus run churn\.yaml", own_csv),
    ("README.md", r"build/bin/gradus submit job\.yaml", job_of_the_readme),
    ("README.md", r"build/bin/gradus set job-1 ", second_worker),
    ("docs/cli.md", r"gradus (run|compare|validate|plan) job\.yaml", job_file),
    ("docs/cli.md", r"gradus run mine\.yaml", worker_program),
    ("docs/cli.md", r"gradus (submit|nodes|list)", cluster),
    ("docs/cli.md", r"gradus (status|cancel|pause|set|checkpoint|trace|timeline) ", running_job),
    ("docs/cli.md", r"gradus (resume|rm) ", cancelled_job),
    ("docs/cli.md", r"gradus table ", job_of_tables),
    ("docs/cli.md", r"gradus convert ", data_files),
    ("docs/cli.md", r"gradus watch ", short_job),
    ("docs/cli.md", r"gradus logs ", short_job_of_two_workers),
    ("docs/cli.md", r"gradus export digits-1 model\.safetensors", job_that_has_ended),
    ("docs/cli.md", r"gradus export --from state/", checkpoint_of_the_text),
    ("docs/cli.md", r"gradus evaluate state/checkpoints/iris-1", iris),
    ("docs/cli.md", r"gradus predict ", flowers_without_kinds),
    ("docs/cli.md", r"gradus rules --rules-dir=plugins", plugins),
    ("docs/operations.md", r"curl ", job_of_somebody),
    ("docs/onnx.md", r"build/bin/gradus run examples/criteo-deepfm", criteo_file),
    ("docs/serving.md", r"build/bin/gradus-serve --master ", job_of_a_new_state),
    ("docs/plugins.md", r"gradus run job\.yaml", job_file),
    ("docs/client-library.md", r"env GRADUS_MASTER=", cluster),
    ("docs/trace.md", r"gradus (trace|timeline) ", running_job),
]

SERVICE = re.compile(r"(build/bin/)?gradus-(master|ps|worker|serve) ")
# A job of this page goes on while the next commands are run.
MEANWHILE = ("README.md", "submit job.yaml")


def run_command(page, command):
    for document, pattern, prepare in PREPARATIONS:
        if document == page.document and re.match(pattern, command.words):
            prepare(page)
            break
    text = shorter(command.text)
    if command.words.startswith("export "):
        page.export(text)
    elif SERVICE.match(command.words):
        page.start(text, " ready grpc=")
    elif MEANWHILE[0] == page.document and MEANWHILE[1] in command.words:
        page.start(text, r"RUNNING +epoch")
    else:
        for hint in re.findall(r"^Next: (.*)", page.run(text), re.M):  # script/demo ends with one
            page.run(hint)


def make_test(document):
    def test(self):
        page = Page(document)
        self.addCleanup(page.close)
        done = set()
        for command in documents.commands(SOURCE, document):
            if elsewhere(command) or command.text in done:
                continue
            done.add(command.text)
            start = time.monotonic()
            with self.subTest(str(command)):
                run_command(page, command)
                print(f"{time.monotonic() - start:6.1f} s  {command}", flush=True)
        page.finish()
        if document == "docs/simulator.md":
            self.check_scenarios(page)
    return test


class Commands(unittest.TestCase):
    """One test for each page; made below."""

    def check_scenarios(self, page):
        done = subprocess.run(["diff", "-r", SOURCE + "/tests/sim/scenarios", page.tree + "/tests/sim/scenarios"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


class Lists(unittest.TestCase):
    """The lists above have no row too many, and commands are found as a reader finds them."""

    def test_every_row_is_used(self):
        commands = [c for page in documents.documents(SOURCE) for c in documents.commands(SOURCE, page)]
        for page, pattern, _ in ELSEWHERE + PREPARATIONS:
            self.assertTrue([c for c in commands if c.document == page and re.match(pattern, c.words)],
                            f"{page} has no command {pattern!r} any more")
        for long, _ in SHORTER:
            self.assertTrue([c for c in commands if re.search(long, c.text)], f"no command has {long!r} any more")

    def test_pages_with_commands(self):
        for page in ("README.md", "docs/cli.md", "docs/plugins.md", "docs/simulator.md", "docs/trace.md",
                     "deploy/compose.yaml", "docker/Dockerfile"):
            self.assertTrue(documents.commands(SOURCE, page), f"no command is found in {page}")

    def test_blocks(self):
        text = ("Text `script/inline`.\n    no block, the paragraph goes on\n\n    script/one  # remark\n    a | \\\n"
                "        b\n\n    # only a remark\n    script/two\n\n```yaml\nname: x\n```\n```sh\nscript/three\n```\n"
                "```\nUsage: gradus x\n\n  gradus four\n  other\n```\n")
        self.assertEqual([c.words for c in documents.commands_of_text("x.md", text)],
                         ["script/one", "a | b", "script/two", "script/three", "gradus four"])


for name in documents.documents(SOURCE):
    if [c for c in documents.commands(SOURCE, name) if not elsewhere(c)] and (not CLEAN or name in CLEAN_PAGES):
        setattr(Commands, "test_" + re.sub(r"\W", "_", name), make_test(name))

if __name__ == "__main__":
    if not private.enter(os.path.abspath(__file__)):
        print("SKIPPED: commands of the texts: no namespaces can be made here (unshare)", file=sys.stderr)
        Commands = unittest.skip("no namespaces can be made here")(Commands)
    unittest.main(verbosity=2)
