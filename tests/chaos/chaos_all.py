# SPDX-License-Identifier: Apache-2.0
"""Everything at once: rounds of a cluster to which random things happen, in quick succession and at the same time. After each round
there is calm, in which every process that was not told to end is there, every command has ended, and every job ends well: its
records once, and in sync with the bits of one worker and one server without any trouble."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from chaos_cluster import FINAL, Trouble, check_records, export_digest, say
from cluster import BIN, ENDLESS, SMALL_MODEL, SOURCE, gradus, read_job, read_message, records_applied, sanitizer_report
from etcd import PROGRAM as ETCD, Etcd, HeldPort
from test_tables import JOB as CLICKS, click_lines

RECORDS = 2000
SERVERS, WORKERS = 3, 4
# What decides the bits of a job, beside its data, with the protocols that only some of it needs: rounds of sums, values in 16 bits.
MORE = ({}, {}, {"update.clip_norm": 0.5}, {"update.rule": "momentum", "update.learning_rate": 0.01},
        {"training.wire": "{gradients: bf16, parameters: fp16}"})
KINDS = ("digits sync", "clicks sync", "digits async", "clicks async", "digits bounded", "clicks bounded")


class Node:
    """A process of the cluster; not one of its threads waits for it to be ready."""

    def __init__(self, role, name, directory, number, *args):
        self.role, self.name = role, name
        self.log = f"{directory}/{number:04d}-{name}.log"
        self.told_to_end = False
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, f"gradus-{role}"), "--http-listen=127.0.0.1:0", "--exit-with-parent", *args],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def tell(self, number):
        self.told_to_end = self.told_to_end or number in (signal.SIGTERM, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self):
        self.tell(signal.SIGKILL)
        self.process.wait()

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()


class Command:
    """A `gradus` that may take long."""

    def __init__(self, directory, number, *args):
        self.words = " ".join(args)
        self.err = f"{directory}/{number:04d}-{args[0]}.err"
        with open(self.err, "w") as err:
            self.process = subprocess.Popen([os.path.join(BIN, "gradus"), *args], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=err)


class Round:
    def __init__(self, options, number):
        self.options, self.number = options, number
        self.random = random.Random(f"{options.seed}-{number}")
        self.dir = tempfile.mkdtemp(prefix=f"round-{number}-", dir=options.dir)
        self.count = 0
        self.nodes, self.ending, self.commands, self.standing, self.later = [], [], [], [], []
        self.jobs = {}  # id: its kind, and which of MORE
        self.silence = self.random.choice((60000, 60000, 2000))
        self.etcd = Etcd() if ETCD and self.random.random() < 0.4 else None
        self.ports = [HeldPort() for _ in range(2 if self.etcd else 1)]
        self.masters = ",".join(port.address for port in self.ports)

    # ---- processes ----

    def start(self, role, name, *args):
        self.count += 1
        node = Node(role, name, self.dir, self.count, *args)
        self.nodes.append(node)
        return node

    def start_master(self, i):
        store = (f"--store={self.etcd.url()}", "--lead-lease=2s", f"--checkpoint-dir={self.dir}/checkpoints") if self.etcd else (
            f"--checkpoint-dir={self.dir}/checkpoints",)
        self.start("master", f"master-{i}", f"--listen={self.ports[i].address}", f"--state-dir={self.dir}/state-{i}",
                   f"--heartbeat-timeout-ms={self.silence}", *store)

    def start_ps(self, name):
        self.start("ps", name, f"--master={self.masters}", "--listen=127.0.0.1:0", f"--name={name}",
                   f"--checkpoint-dir={self.dir}/checkpoints", "--drain-timeout-ms=10000")

    def start_worker(self, name):
        self.start("worker", name, f"--master={self.masters}", "--listen=127.0.0.1:0", f"--name={name}",
                   f"--slow-down={self.options.slow_down}")

    def start_again(self, node, name):
        {"ps": self.start_ps, "worker": self.start_worker}[node.role](name)

    def of(self, role):
        return [node for node in self.nodes if node.role == role]

    def forget(self, node):
        self.nodes.remove(node)

    def new_name(self, node, same):
        self.count += 1
        return node.name if same else f"{node.role}-{self.count}"

    def look(self):
        """At what is due, and for processes that have ended by themselves."""
        now = time.monotonic()
        for at, node in [s for s in self.standing if s[0] <= now]:
            node.tell(signal.SIGCONT)
            self.standing.remove((at, node))
        for at, what in [x for x in self.later if x[0] <= now]:
            self.later.remove((at, what))
            what()
        for node in [n for n in self.nodes if n.process.poll() is not None]:
            self.forget(node)
            text = node.text()
            if node.role == "master" and node.process.returncode == 1 and "event=lead_lost" in text:
                say(f"  {node.name} has lost the lead")
                self.start_master(int(node.name[-1]))
            else:
                raise Trouble(f"{node.name} has ended by itself, with code {node.process.returncode}: {text[-600:]}")

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.02)

    # ---- commands ----

    def call(self, *args):
        """A command that is done at once, or not at all for now; what is due is done meanwhile."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen([os.path.join(BIN, "gradus"), *args, "--master", self.masters], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err)
            while process.poll() is None:
                self.look()
                time.sleep(0.02)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(args, process.returncode, out.read(), err.read())

    def begin(self, *args):
        self.count += 1
        self.commands.append(Command(self.dir, self.count, *args, "--master", self.masters))

    def until(self, what, condition, patience=None):
        """@condition: something true, in the end, or why not."""
        end, why = time.monotonic() + (patience or self.options.patience), None
        while time.monotonic() < end:
            self.look()
            found, why = condition()
            if found:
                return found
            time.sleep(0.2)
        raise Trouble(f"waited {self.options.patience:.0f} s for {what}: {why}")

    def insist(self, *args):
        """A command that is done in the end, whatever keeps it."""
        def done():
            d = self.call(*args)
            if d.returncode == 2:
                raise Trouble(f"{' '.join(args)}: {d.stderr}")
            return (d if d.returncode == 0 else None), (d.stderr.strip() or f"code {d.returncode}")
        return self.until(" ".join(args), done).stdout

    def status(self, job):
        return read_job(self.insist("status", job, "--json"))

    # ---- what happens ----

    def worker_killed(self):
        self.replace(self.random.choice(self.of("worker")), signal.SIGKILL)

    def worker_ends(self):
        self.replace(self.random.choice(self.of("worker")), signal.SIGTERM)

    def server_killed(self):
        self.replace(self.random.choice(self.of("ps")), signal.SIGKILL)

    def server_ends(self):
        self.replace(self.random.choice(self.of("ps")), signal.SIGTERM)

    def replace(self, node, how):
        name = self.new_name(node, how == signal.SIGKILL and self.random.random() < 0.5)
        self.forget(node)
        if how == signal.SIGKILL:
            node.kill()
        else:
            node.tell(how)
            self.ending.append(node)
        self.start_again(node, name)
        say(f"  {node.name} {'killed' if how == signal.SIGKILL else 'told to end'}; {name} started")

    def master_killed(self):
        self.replace_master(signal.SIGKILL)

    def master_ends(self):
        self.replace_master(signal.SIGTERM)

    def replace_master(self, how):
        node = self.random.choice(self.of("master"))
        away = self.random.choice((0, 0, 0.5, 3))
        self.forget(node)
        node.tell(signal.SIGCONT)
        node.tell(how)
        self.ended(node)
        say(f"  {node.name} {'killed' if how == signal.SIGKILL else 'ended'}; away for {away} s")
        self.later.append((time.monotonic() + away, lambda: self.start_master(int(node.name[-1]))))

    def ended(self, node):
        """Who was told to end ends, and well; or at once, when it had not even begun."""
        try:
            code = node.process.wait(self.options.patience)
        except subprocess.TimeoutExpired:
            node.tell(signal.SIGABRT)
            raise Trouble(f"{node.name} was told to end and does not: {node.text()[-600:]}") from None
        text = node.text()
        forced = code == 128 + signal.SIGTERM and "event=exit_forced" in text  # a machine that does much else at the same time
        if forced:
            say(f"  {node.name} took too long to end")
        before = code == -signal.SIGTERM and text == ""
        if not (code in (0, -signal.SIGKILL) or forced or before or "event=lead_lost" in text):
            raise Trouble(f"{node.name} was told to end, and ended with code {code}: {text[-600:]}")

    def one_stands_still(self):
        nodes = self.random.sample(self.nodes, self.random.choice((1, 1, 2, len(self.nodes) // 2)))
        seconds = self.random.choice((0.05, 0.3, 1, 4))
        for node in nodes:
            node.tell(signal.SIGSTOP)
            self.standing.append((time.monotonic() + seconds, node))
        say(f"  {', '.join(n.name for n in nodes)} stood still for {seconds} s")

    def node_drained(self):
        node = self.random.choice(self.of("ps") + self.of("worker"))
        self.begin("drain", node.name)
        back = self.random.choice((0.1, 2, 6))
        self.later.append((time.monotonic() + back, lambda: self.begin("drain", node.name, "--undo")))
        say(f"  {node.name} drained, for {back} s")

    def job_changes(self):
        job = self.random.choice(list(self.jobs))
        keys = [f"cluster.ps={self.random.randint(1, SERVERS)}", f"cluster.workers=1..{self.random.randint(1, 3)}",
                f"cluster.standby={self.random.choice(('none', 'follower'))}"]
        key = self.random.choice(keys)
        self.begin("set", job, key)
        say(f"  {job}: {key}")

    def checkpoint_asked(self):
        job = self.random.choice(list(self.jobs))
        self.begin("checkpoint", job)
        say(f"  {job}: a checkpoint is asked for")

    def job_pauses(self):
        job = self.random.choice(list(self.jobs))
        self.begin("pause", job)
        self.later.append((time.monotonic() + self.random.choice((0.1, 1, 4)), lambda: self.begin("resume", job)))
        say(f"  {job} paused")

    def store_killed(self):
        if self.etcd:
            self.etcd.kill()
            away = self.random.choice((0, 1, 5))
            self.later.append((time.monotonic() + away, self.etcd.start))
            say(f"  the store killed, away for {away} s")

    def trouble(self):
        happens = {self.worker_killed: 4, self.worker_ends: 1, self.server_killed: 2, self.server_ends: 1, self.master_killed: 2,
                   self.master_ends: 2, self.one_stands_still: 3, self.node_drained: 1, self.job_changes: 2,
                   self.checkpoint_asked: 1, self.job_pauses: 1, self.store_killed: 1}
        only = self.options.only.split(",") if self.options.only else ()
        happens = {what: often for what, often in happens.items() if not only or what.__name__ in only}
        end = time.monotonic() + self.options.round_s
        while time.monotonic() < end:
            self.look()
            what = self.random.choices(list(happens), list(happens.values()))[0]
            if what not in (self.master_killed, self.master_ends) or self.of("master"):
                what()
            self.rest(self.random.choice((0, 0.03, 0.1, 0.3, 1, 3)))

    # ---- the round ----

    def submit(self, kind, number):
        model, mode = kind.split()
        draw = self.random
        keys = {"name": f"{model}{number}", "data.dir": f"{self.options.dir}/{model}", "training.mode": mode, "training.epochs": ENDLESS,
                "training.batch_size": 16, "training.evaluate_every": draw.choice(("never", 10, 37)),
                "training.checkpoint_every": draw.choice((20, 50, "1 epoch")), "training.checkpoint_within": "1h",
                "cluster.workers": "1..2", "cluster.ps": 2, "cluster.partitions": 2,
                "cluster.standby": draw.choice(("none", "follower"))}
        keys.update(SMALL_MODEL if model == "digits" else {})
        keys.update({"training.replicas": 4} if mode == "sync" else {})
        more = draw.randrange(len(MORE))
        keys.update(MORE[more])
        if mode == "sync":
            keys["training.speculate"] = draw.choice(("false", "false", "true"))
        else:
            keys.update(draw.choice(({}, {"training.overlap": "true"}, {"training.push_every": 3}, {"training.staleness_policy": "max_staleness"},
                                     {"training.staleness_policy": "scale_lr"})))
        if model == "clicks":
            keys["training.checkpoint_full_every"] = draw.choice((1, 3))
        out = self.insist("submit", file_of(self.options, model), *sets(keys))
        job = out.strip().splitlines()[0].split()[-1]
        self.jobs[job] = kind, more
        usual = "name", "data", "model", "training.mode", "training.epochs", "training.batch_size", "training.checkpoint_within"
        say(f"  {job}: {kind}; " + " ".join(f"{key}={value}" for key, value in keys.items() if not key.startswith(usual)))

    def calm(self):
        for _, node in self.standing:
            node.tell(signal.SIGCONT)
        self.standing = []
        while self.later:
            self.rest(0.1)
        for command in self.commands:
            if command.words.startswith("drain "):  # waits until the node is empty, which it may never be
                command.process.terminate()
        for node in self.ending:
            self.ended(node)
        self.ending = []
        alive = {node.name for node in self.nodes}
        for node in read_message(self.insist("nodes", "--json"))["nodes"]:
            if node.get("draining") and node["id"] in alive:
                self.insist("drain", node["id"], "--undo")
        for command in self.commands:
            self.until(command.words, lambda c=command: (c.process.poll() is not None, "it does not end"))

    def ends(self, job):
        def running():
            status = self.status(job)
            if status["state"] == "PAUSED":
                self.call("resume", job)
            if status["state"] in FINAL:
                raise Trouble(f"{job} has ended {status['state']}: {status['reason']}")
            return (status if status["state"] == "RUNNING" else None), f"{status['state']}: {status['reason']}"

        status = self.until(f"{job} to run", running)
        self.insist("set", job, f"training.epochs={int(status['epochs']) + 3}")
        seen = {}

        def ended():
            status = self.status(job)
            seen[status["reason"]] = True
            return (status if status["state"] in FINAL else None), f"{status['state']} at step {status['steps']} of {status['steps_total']}: {list(seen)[-6:]}"

        status = self.until(f"{job} to end", ended)
        if status["state"] != "SUCCEEDED" or status["steps"] != status["steps_total"]:
            raise Trouble(f"{job} ended {status['state']} at step {status['steps']} of {status['steps_total']}: {status['reason']}")
        self.check(job, status)

    def check(self, job, status):
        (kind, more), epochs = self.jobs[job], int(status["epochs"])
        check_records(status, RECORDS, epochs)
        if "sync" == kind.split()[1]:
            digest = export_digest(f"{self.dir}/{job}.safetensors", "--from", status["checkpoint"])
            if digest != reference(self.options, kind, more, epochs):
                raise Trouble(f"{job}, {kind}, has other bits after {epochs} epochs than one worker and one server without any trouble")
        else:
            for shard in status["shards"]:
                if records_applied(shard["ledger"]) != RECORDS * epochs:
                    raise Trouble(f"{job}: a shard's ledger is {shard['ledger']} after {epochs} epochs")
        say(f"  {job} SUCCEEDED: {status['steps']} steps, {epochs} epochs, generation {status['generation']}, {status['recoveries']} recoveries, "
            f"{status['adoptions']} adoptions, {status['takeovers']} takeovers")

    def clean(self):
        """No server keeps a shard of a job that has ended, and nobody's memory was misused."""
        for job in self.jobs:
            self.insist("rm", job, "--checkpoints")

        def empty():
            full = [n["id"] for n in read_message(self.insist("nodes", "--json"))["nodes"] if n["alive"] and n.get("jobs")]
            return not full, f"{full} still have jobs"
        self.until("all nodes to be empty", empty)
        for role in "worker", "ps", "master":
            for node in self.of(role):
                node.tell(signal.SIGTERM)
                self.ended(node)
                self.forget(node)

    def run(self):
        say(f"round {self.number}: {'two masters and etcd' if self.etcd else 'one master'}, silence {self.silence} ms")
        try:
            for i in range(len(self.ports)):
                self.start_master(i)
            for i in range(SERVERS):
                self.start_ps(f"ps-{i}")
            for i in range(WORKERS):
                self.start_worker(f"worker-{i}")
            for i, kind in enumerate(self.random.sample(KINDS, 2)):
                self.submit(kind, i)
            self.trouble()
            say("  calm")
            self.calm()
            for job in self.jobs:
                self.ends(job)
            self.clean()
            for name in os.listdir(self.dir):
                if name.endswith(".log"):
                    with open(os.path.join(self.dir, name), errors="replace") as f:
                        report = sanitizer_report(f.read())
                    if report:
                        raise Trouble(f"{name}: {report}")
            shutil.rmtree(self.dir)
        finally:
            self.close()

    def close(self):
        for node in self.nodes + self.ending:
            node.kill()
        for command in self.commands:
            command.process.kill()
            command.process.wait()
        if self.etcd:
            self.etcd.close()
        for port in self.ports:
            port.close()


# ---- the quiet run ----


def sets(keys):
    return [item for key, value in keys.items() for item in ("--set", f"{key}={value}")]


def file_of(options, model):
    return SOURCE + "/examples/digits.yaml" if model == "digits" else options.dir + "/clicks/clicks.yaml"


def make_data(options):
    done = gradus("generate", "digits", "--out", options.dir + "/digits", "--train", str(RECORDS), "--test", "500")
    if done.returncode != 0:
        raise Trouble(done.stderr)
    os.makedirs(options.dir + "/clicks", exist_ok=True)
    for name, text in (("clicks.yaml", CLICKS), ("train", "".join(click_lines(RECORDS, 1))), ("test", "".join(click_lines(400, 2)))):
        with open(f"{options.dir}/clicks/{name}", "w") as f:
            f.write(text)


REFERENCES = {}  # by kind, more and epochs


def reference(options, kind, more, epochs):
    if (kind, more, epochs) not in REFERENCES:
        model = kind.split()[0]
        keys = {"data.dir": f"{options.dir}/{model}", "training.epochs": epochs, "training.batch_size": 16, "training.replicas": 4,
                "training.evaluate_every": "never", "training.checkpoint_within": "1h", "cluster.workers": 1, "cluster.ps": 1,
                **(SMALL_MODEL if model == "digits" else {}), **MORE[more]}
        with tempfile.TemporaryDirectory(dir=options.dir) as state:
            done = gradus("run", file_of(options, model), "--json", "--state-dir", state, *sets(keys))
            if done.returncode != 0:
                raise Trouble(f"the quiet run: {done.stderr}")
            REFERENCES[kind, more, epochs] = export_digest(f"{state}/out.safetensors", read_job(done.stdout)["job"], "--state-dir", state)
    return REFERENCES[kind, more, epochs]


def everything(options):
    make_data(options)
    begin, number, failed = time.monotonic(), options.first, 0
    while number == options.first or time.monotonic() < begin + options.minutes * 60:
        try:
            Round(options, number).run()
        except Trouble as trouble:
            failed += 1
            say(f"FAILED: --seed {options.seed} --first {number}: {trouble}; the logs are below {options.dir}")
        number += 1
    say(f"{number - options.first} rounds in {time.monotonic() - begin:.0f} s")
    return failed
