# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real cluster: the commands of docs/deployment.md as they stand there, then a job during which
pods are killed, evicted, scaled and replaced by rolling updates. Run by script/test-kubernetes."""

import argparse
import calendar
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "documents"))
import documents  # noqa: E402

NAMESPACE = "gradus"
ACCURACY_MIN = 0.96
COMMAND_S = 1200
WAIT_S = 300
PAGE = "docs/deployment.md"
# Of the page, what is for people: it ends when they end it.
FOR_PEOPLE = re.compile(r"kubectl .*(port-forward|logs -f)|build/bin/gradus nodes ")
CLIENT = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "test-client", "labels": {"app.kubernetes.io/component": "client",
                                                   "app.kubernetes.io/name": "gradus"}},
    "spec": {"serviceAccountName": "gradus", "automountServiceAccountToken": False, "enableServiceLinks": False,
             "terminationGracePeriodSeconds": 0,
             "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001,
                                 "seccompProfile": {"type": "RuntimeDefault"}},
             "containers": [{"name": "client", "image": "gradus:latest", "imagePullPolicy": "IfNotPresent",
                             "command": ["sleep", "infinity"],
                             "env": [{"name": "GRADUS_MASTER", "value": "gradus-master:7000"}],
                             "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                 "capabilities": {"drop": ["ALL"]}}}]}}
# Printed by the client's pod: what the job is at, several times a second.
FOLLOW = """while :; do echo "$(date +%s.%N) $(timeout 5 gradus status {job} --json 2>/dev/null | tr -d ' \\n' |
grep -oE '"(state|steps)":("[A-Z]*"|[0-9]*)' | head -2 | tr '\\n' ' ')"; sleep 0.2; done"""
times = []


def fail(what):
    raise SystemExit(f"test-kubernetes: FAILED: {what}")


def check(condition, what):
    if not condition:
        fail(what)


def say(what):
    print(f"-- {time.strftime('%H:%M:%S')} {what}", flush=True)


def measured(what, seconds):
    times.append((what, seconds))
    say(f"{what}: {seconds:.1f} s")


def run(command, timeout=COMMAND_S):
    """One command as a shell takes it, shown with what it prints; its output."""
    print(f"\n$ {command}", flush=True)
    done = subprocess.run(["bash", "-c", command], cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=timeout)
    lines = done.stdout.splitlines()
    print("\n".join(lines if len(lines) <= 30 else lines[:4] + [f"… {len(lines) - 24} lines …"] + lines[-20:]), flush=True)
    check(done.returncode == 0, f"exit code {done.returncode}: {command}")
    return done.stdout


def kubectl(*args, wanted=True, stdin=None, timeout=COMMAND_S):
    done = subprocess.run(["kubectl", "-n", NAMESPACE, *args], capture_output=True, text=True, input=stdin, timeout=timeout)
    if wanted and done.returncode != 0:
        fail(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout if done.returncode == 0 else None


def wait_for(what, condition, timeout=WAIT_S):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.3)
    return fail(f"waited {timeout} s: {what}")


def gradus(*args, wanted=True):
    return kubectl("exec", "test-client", "--", "gradus", *args, wanted=wanted)


def status(job):
    """What the master says of the job; {} while there is none."""
    text = gradus("status", job, "--json", wanted=False)
    return json.loads(text) if text else {}


def pods(component):
    listed = json.loads(kubectl("get", "pods", "-o", "json", "-l", f"app.kubernetes.io/component={component}"))
    return sorted(p["metadata"]["name"] for p in listed["items"]
                  if "deletionTimestamp" not in p["metadata"] and p["status"]["phase"] == "Running")


def ready_since():
    """When the last pod became ready; in whole seconds, as the API server writes it."""
    listed = json.loads(kubectl("get", "pods", "-o", "json", "-l", "app.kubernetes.io/component in (master,ps,worker)"))
    ready = [c["lastTransitionTime"] for p in listed["items"] for c in p["status"]["conditions"]
             if (c["type"], c["status"]) == ("Ready", "True")]
    check(len(ready) == len(listed["items"]), "a pod is not ready")
    return max(calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")) for at in ready)


class Steps(threading.Thread):
    """The steps of a job over time, as a pod beside it sees them."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.points = []  # (time, state, steps); steps None: the master does not answer
        self.process = subprocess.Popen(
            ["kubectl", "-n", NAMESPACE, "exec", "test-client", "--", "bash", "-c", FOLLOW.format(job=job)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.start()

    def run(self):
        for line in self.process.stdout:
            steps = re.search(r'"steps":(\d+)', line)
            state = re.search(r'"state":"(\w+)"', line)
            self.points.append((float(line.split()[0]), state.group(1) if state else "", int(steps.group(1)) if steps else None))

    def moves(self):
        """The times at which the number of steps was another one than before."""
        seen = [(at, steps) for at, _, steps in list(self.points) if steps is not None]
        return [at for (at, steps), (_, before) in zip(seen[1:], seen) if steps != before]

    def stall(self, since, settled=8):
        """From an event to the end of the longest time without a step in what follows it."""
        def over():
            after = [since] + [at for at in self.moves() if at > since]
            return after if len(after) > 3 and after[-1] - since > settled else None
        after = wait_for("steps go on", over)
        longest = max(range(1, len(after)), key=lambda i: after[i] - after[i - 1])
        return after[longest] - since

    def stop(self):
        self.process.kill()
        self.process.wait()


# ---- the cluster ----


def make_volumes(directory):
    """For a cluster without a storage class whose one node is this machine: a directory for each claim."""
    for claim, mode in (("gradus-checkpoints", "ReadWriteOnce"), ("gradus-data", "ReadWriteOnce"),
                        ("state-gradus-master-0", "ReadWriteOnce")):
        path = os.path.join(directory, claim)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
        kubectl("apply", "-f", "-", stdin=json.dumps({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"test-{claim}"},
            "spec": {"capacity": {"storage": "10Gi"}, "accessModes": [mode], "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"namespace": NAMESPACE, "name": claim}, "hostPath": {"path": path}}}))


def start_client():
    kubectl("apply", "-f", "-", stdin=json.dumps(CLIENT))
    kubectl("wait", "--for=condition=ready", "pod/test-client", "--timeout=120s")


def validate():
    """What the server says of every overlay whose kinds it knows, unknown fields included."""
    for overlay in ("overlays/dev", "overlays/production", "jobs/digits-data", "jobs/digits", "jobs/digits-tls"):
        run(f"kubectl apply --dry-run=server --validate=strict -k deploy/kubernetes/{overlay} >/dev/null")


def follow_page():
    """The commands of the page, in their order."""
    commands = [c for c in documents.commands(SOURCE, PAGE) if not c.words.startswith("docker ")]
    check(len(commands) >= 10, f"{PAGE} has lost its commands")
    begin = time.time()
    for command in commands:
        if FOR_PEOPLE.match(command.words) or "certificates" in command.words or "tls/" in command.words:
            continue
        output = run(command.text)
        if "overlays/dev" in command.words and " apply " in command.words:
            begin = time.time()
        elif "rollout status deployment" in command.words and begin:
            measured("apply → all pods ready", ready_since() - begin)
            begin = None
        elif re.search(r" logs job/digits$", command.words):
            check(re.search(r"^state +SUCCEEDED", output, re.M), "the job did not succeed")
            accuracy = float(re.search(r"^test .*accuracy ([\d.]+)", output, re.M).group(1))
            check(accuracy >= ACCURACY_MIN, f"the accuracy is {accuracy}, not {ACCURACY_MIN}")


def make_secrets(directory):
    """The page's commands for TLS, with the certificates outside of the tree."""
    program = os.path.join(SOURCE, "build", "bin", "gradus")
    commands = [c for c in documents.commands(SOURCE, PAGE) if "certificates" in c.words or "tls/" in c.words]
    check(len(commands) == 3, f"{PAGE} does not say how to make the Secrets")
    if not os.path.exists(program):
        say("no Secrets for TLS are made: build/bin/gradus is not built")
        return
    for command in commands:
        text = command.text.replace("init tls", f"init {directory}/tls").replace("=tls/", f"={directory}/tls/")
        run(text)


def submit(name, directory, change):
    """A Job as jobs/digits, of another name and another file; until it has its first step."""
    shutil.copytree(os.path.join(SOURCE, "deploy", "kubernetes", "jobs", "digits"), directory)
    for file in os.listdir(directory):
        with open(os.path.join(directory, file)) as f:
            text = f.read()
        with open(os.path.join(directory, file), "w") as f:
            f.write(re.sub(r"name: digits$", f"name: {name}", change(text) if file == "job.yaml" else text, flags=re.M))
    begin = time.time()
    run(f"kubectl apply -k {directory}")
    return begin


def the_job(name):
    def found():
        jobs = json.loads(gradus("list", "--json", wanted=False) or "[]")
        return [j["job"] for j in jobs if j["name"] == name]
    found_jobs = wait_for(f"a job {name}", found)
    check(len(found_jobs) == 1, f"{name} was submitted {len(found_jobs)} times")
    return found_jobs[0]


def digest(job):
    """Of the parameters, as the master's checkpoints have them."""
    kubectl("exec", "gradus-master-0", "--", "gradus", "export", job, "/tmp/model.safetensors")
    text = subprocess.run(["kubectl", "-n", NAMESPACE, "exec", "gradus-master-0", "--", "cat", "/tmp/model.safetensors"],
                          capture_output=True, check=True).stdout
    return hashlib.sha256(text).hexdigest()


# ---- trouble ----


def kill(steps, component):
    victim = pods(component)[0]
    at = time.time()
    kubectl("delete", "pod", victim, "--force", "--grace-period=0", wanted=True)
    say(f"killed {victim}")
    measured(f"{component} killed → next step", steps.stall(at))


def wait_whole():
    for kind, name in (("statefulset", "gradus-master"), ("statefulset", "gradus-ps"), ("deployment", "gradus-worker")):
        kubectl("rollout", "status", f"{kind}/{name}", "--timeout=300s")


def wait_workers(job, count):
    def there():
        now = status(job)
        return now.get("state") == "RUNNING" and len(now["workers"]) == count
    wait_for(f"{job} has {count} workers", there)


def scale(job, count):
    at = time.time()
    kubectl("scale", "deployment/gradus-worker", f"--replicas={count}")
    wait_workers(job, count)
    measured(f"scale to {count} workers → used", time.time() - at)


def restart(steps, kind, name):
    at = time.time()
    kubectl("rollout", "restart", f"{kind}/{name}")
    kubectl("rollout", "status", f"{kind}/{name}", "--timeout=300s")
    measured(f"rollout restart {name}", time.time() - at)
    steps.stall(time.time(), settled=4)


def evict(pod):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    return kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "-f", "-",
                   stdin=json.dumps(body), wanted=False) is not None


def drain(steps):
    """What `kubectl drain` does to a node with one pod of each role, and that budgets hold it back."""
    at = time.time()
    check(evict("gradus-ps-0"), "gradus-ps-0 is not evicted")
    check(not evict("gradus-ps-1"), "both servers are evicted at once")
    check(evict(pods("worker")[0]), "no worker is evicted")
    check(evict("gradus-master-0"), "the master is not evicted")
    measured("master, server and worker evicted → next step", steps.stall(at))
    wait_whole()


def trouble(directory):
    begin = submit("long", directory + "/long", lambda text: text.replace("epochs: 6", "epochs: 100000"))
    job = the_job("long")
    steps = Steps(job)
    wait_for("the first step", steps.moves)
    measured("apply of a job → first step", steps.moves()[0] - begin)
    wait_workers(job, 2)
    for component in ("worker", "ps", "master"):
        kill(steps, component)
        wait_whole()
    for count in (4, 1, 2):
        scale(job, count)
    follower = pods("client")
    follower = next(p for p in follower if p.startswith("long-"))
    kubectl("delete", "pod", follower, "--force", "--grace-period=0")
    for kind, name in (("deployment", "gradus-worker"), ("statefulset", "gradus-ps"), ("statefulset", "gradus-master")):
        restart(steps, kind, name)
    drain(steps)
    check(the_job("long") == job, f"{job} is another one")
    epochs = int(status(job)["epochs"]) + 2
    gradus("set", job, f"training.epochs={epochs}")
    kubectl("wait", "--for=condition=complete", "job/long", "--timeout=900s")
    steps.stop()
    end = status(job)
    check(end["state"] == "SUCCEEDED", f"{job} is {end['state']}: {end['reason']}")
    accuracy = end["metrics"]["test"]["accuracy"]
    say(f"{job}: {epochs} epochs, accuracy {accuracy}, {end['recoveries']} recoveries")
    check(accuracy >= ACCURACY_MIN, f"{job}: the accuracy is {accuracy}, not {ACCURACY_MIN}")
    submit("calm", directory + "/calm", lambda text: text.replace("epochs: 6", f"epochs: {epochs}"))
    kubectl("wait", "--for=condition=complete", "job/calm", "--timeout=900s")
    first, second = digest(job), digest(the_job("calm"))
    check(first == second, f"other bits than without trouble: {first} {second}")
    say(f"the same bits as without trouble: {first}")


def bad_job(directory):
    """A job whose file is wrong ends its Job at once, as failed."""
    submit("wrong", directory + "/wrong", lambda text: text.replace("mode: sync", "mode: sink"))
    kubectl("wait", "--for=condition=failed", "job/wrong", "--timeout=120s")
    kubectl("delete", "job/wrong", "configmap/wrong")


def clean_up(volumes):
    for name in ("jobs/digits", "jobs/digits-data", "overlays/dev"):
        subprocess.run(["kubectl", "delete", "--ignore-not-found", "--wait=true", "-k", f"deploy/kubernetes/{name}"],
                       cwd=SOURCE, capture_output=True, timeout=300)
    if volumes:
        subprocess.run(["kubectl", "delete", "pv", "--ignore-not-found", "test-gradus-checkpoints", "test-gradus-data",
                        "test-state-gradus-master-0"], capture_output=True, timeout=300)
        shutil.rmtree(volumes, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--volumes", help="a directory of this machine, which is the cluster's one node")
    parser.add_argument("--keep", action="store_true", help="leave all of it there")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="gradus-kubernetes-")
    volumes = None
    if options.volumes:  # a fresh one each time: a master goes on with the jobs that it finds
        os.makedirs(options.volumes, exist_ok=True)
        volumes = tempfile.mkdtemp(prefix="volumes-", dir=options.volumes)
        os.chmod(volumes, 0o755)
    try:
        run("kubectl apply -f deploy/kubernetes/overlays/dev/namespace.yaml")
        if volumes:
            make_volumes(volumes)
        validate()
        follow_page()
        make_secrets(directory)
        start_client()
        bad_job(directory)
        trouble(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if not options.keep:
            clean_up(volumes)
    print("\ntest-kubernetes: passed")
    for what, seconds in times:
        print(f"  {what:56} {seconds:6.1f} s")


if __name__ == "__main__":
    main()
