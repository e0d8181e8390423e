# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real cluster: the commands of docs/deployment.md as they stand there, then a job during which
pods are killed, evicted, scaled and replaced by rolling updates, then the same with TLS. Run by script/test-kubernetes."""

import argparse
import calendar
import copy
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
OPERATIONS = "docs/operations.md"
PROGRAM = os.path.join(SOURCE, "build", "bin", "gradus")
# A rolling update leaves jobs so long with the new server before it takes the next one (readinessProbe of ps.yaml).
PAUSE_S = 9
# Of the page, what is for people: it ends when they end it.
FOR_PEOPLE = re.compile(r"kubectl .*(port-forward|logs -f)|build/bin/gradus (nodes|cancel) ")
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
# What the client's pod has more where the cluster has TLS.
TLS_FILES = {"GRADUS_TLS_CERT": "tls.crt", "GRADUS_TLS_KEY": "tls.key", "GRADUS_TLS_CA": "ca.crt"}
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


def started(pod):
    """When the container of a pod was started."""
    state = json.loads(kubectl("get", "pod", pod, "-o", "json"))["status"]["containerStatuses"][0]["state"]
    return calendar.timegm(time.strptime(state["running"]["startedAt"], "%Y-%m-%dT%H:%M:%SZ"))


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


def make_volumes(options):
    """For a cluster without a storage class whose one node is this machine: a directory for each claim. They are new
    each time: a master goes on with the jobs that it finds."""
    if not options.volumes:
        return None
    os.makedirs(options.volumes, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="volumes-", dir=options.volumes)
    os.chmod(directory, 0o755)
    for claim in ("gradus-checkpoints", "gradus-data", "state-gradus-master-0"):
        path = os.path.join(directory, claim)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
        kubectl("apply", "-f", "-", stdin=json.dumps({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"test-{claim}"},
            "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
                     "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": path},
                     "claimRef": {"namespace": NAMESPACE, "name": claim}}}))
    return directory


def start_client(tls=False):
    pod = copy.deepcopy(CLIENT)
    if tls:  # a submitter: a certificate of nodes submits nothing
        pod["spec"]["securityContext"]["fsGroup"] = 10001
        pod["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "gradus-client", "defaultMode": 0o440}}]
        container = pod["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "tls", "mountPath": "/etc/gradus/tls", "readOnly": True}]
        container["env"] += [{"name": k, "value": f"/etc/gradus/tls/{v}"} for k, v in TLS_FILES.items()]
        container["env"].append({"name": "GRADUS_TLS_NAME", "value": "node.gradus"})
    kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    kubectl("wait", "--for=condition=ready", "pod/test-client", "--timeout=120s")


def validate():
    """What the server says of every overlay whose kinds it knows, unknown fields included."""
    for overlay in ("overlays/dev", "overlays/production", "jobs/digits-data", "jobs/digits", "jobs/digits-tls"):
        run(f"kubectl apply --dry-run=server --validate=strict -k deploy/kubernetes/{overlay} >/dev/null")


def of_tls(command):
    return any(word in command.words for word in ("certificates", "tls/", "digits-tls", "overlays/production", "gradus-store"))


def follow_page():
    """The commands of the page, in their order."""
    commands = [c for c in documents.commands(SOURCE, PAGE) if not c.words.startswith(("docker ", "docker-compose "))]
    check(len(commands) >= 10, f"{PAGE} has lost its commands")
    begin = time.time()
    for command in commands:
        if FOR_PEOPLE.match(command.words) or of_tls(command):
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


def follow_page_of_tls(directory, words, count):
    """The page's commands for certificates with these words, in a directory outside of the tree."""
    commands = [c for c in documents.commands(SOURCE, PAGE)
                if of_tls(c) and not FOR_PEOPLE.match(c.words) and re.search(words, c.words)]
    check(len(commands) == count, f"{PAGE} has {len(commands)} commands with {words}, not {count}")
    for command in commands:
        run(re.sub(r"(=| )tls(?=/| |$)", rf"\1{directory}/tls", command.text))


def submit(name, directory, change, tls=False):
    """A Job as jobs/digits, of another name and another file; when it was applied."""
    path = os.path.join(directory, name)
    shutil.copytree(os.path.join(SOURCE, "deploy", "kubernetes", "jobs", "digits"), path)
    for file in os.listdir(path):
        with open(os.path.join(path, file)) as f:
            text = f.read()
        if file == "kustomization.yaml" and tls:
            component = os.path.join(SOURCE, "deploy", "kubernetes", "components", "tls")
            text += f"components:\n  - {os.path.relpath(component, os.path.realpath(path))}\n"
        with open(os.path.join(path, file), "w") as f:
            f.write(re.sub(r"name: digits$", f"name: {name}", change(text) if file == "job.yaml" else text, flags=re.M))
    begin = time.time()
    run(f"kubectl apply -k {path}")
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
    kubectl("exec", "gradus-master-0", "--", "gradus", "export", job, "/tmp/model.safetensors", "--bare")
    text = subprocess.run(["kubectl", "-n", NAMESPACE, "exec", "gradus-master-0", "--", "cat", "/tmp/model.safetensors"],
                          capture_output=True, check=True).stdout
    return hashlib.sha256(text).hexdigest()


# ---- trouble ----


def kill(steps, component, prefix=""):
    victim = pods(component)[0]
    at = time.time()
    kubectl("delete", "pod", victim, "--force", "--grace-period=0", wanted=True)
    say(f"killed {victim}")
    measured(f"{prefix}{component} killed → next step", steps.stall(at))


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
    if name == "gradus-ps":
        pause = started("gradus-ps-0") - started("gradus-ps-1")
        check(pause >= PAUSE_S, f"{pause} s from the start of one server to that of the next")
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


def begin_long(name, directory, tls=False, servers=2):
    """A job that does not end by itself, when it steps: (its id, its steps)."""
    begin = submit(name, directory, lambda text: re.sub("ps: 2", f"ps: {servers}", text.replace("epochs: 6", "epochs: 100000")),
                   tls)
    job = the_job(name)
    steps = Steps(job)
    wait_for("the first step", steps.moves)
    measured(f"apply of a job ({name}) → first step", steps.moves()[0] - begin)
    return job, steps


def end_long(name, job, steps):
    """It ends two epochs later, in order; how many it had."""
    check(the_job(name) == job, f"{job} is another one")
    epochs = int(status(job)["epochs"]) + 2
    gradus("set", job, f"training.epochs={epochs}")
    kubectl("wait", "--for=condition=complete", f"job/{name}", "--timeout=900s")
    steps.stop()
    end = status(job)
    check(end["state"] == "SUCCEEDED", f"{job} is {end['state']}: {end['reason']}")
    accuracy = end["metrics"]["test"]["accuracy"]
    say(f"{job}: {epochs} epochs, accuracy {accuracy}, {end['recoveries']} recoveries")
    check(accuracy >= ACCURACY_MIN, f"{job}: the accuracy is {accuracy}, not {ACCURACY_MIN}")
    return epochs


def same_bits(directory, job, epochs):
    """As a job that nothing happens to."""
    submit("calm", directory, lambda text: text.replace("epochs: 6", f"epochs: {epochs}"))
    kubectl("wait", "--for=condition=complete", "job/calm", "--timeout=900s")
    first, second = digest(job), digest(the_job("calm"))
    check(first == second, f"other bits than without trouble: {first} {second}")
    say(f"the same bits as without trouble: {first}")


def trouble(directory):
    kubectl("scale", "deployment/gradus-worker", "--replicas=2")  # the page has left three
    job, steps = begin_long("long", directory)
    wait_workers(job, 2)
    for component in ("worker", "ps", "master"):
        kill(steps, component)
        wait_whole()
    for count in (4, 1, 2):
        scale(job, count)
    follower = next(p for p in pods("client") if p.startswith("long-"))
    kubectl("delete", "pod", follower, "--force", "--grace-period=0")
    for kind, name in (("deployment", "gradus-worker"), ("statefulset", "gradus-ps"), ("statefulset", "gradus-master")):
        restart(steps, kind, name)
    drain(steps)
    same_bits(directory, job, end_long("long", job, steps))


def scale_servers(directory):
    """More servers are for jobs that begin later; a job that loses one waits for as many as it began with."""
    kubectl("scale", "statefulset/gradus-ps", "--replicas=3")
    job, steps = begin_long("wide", directory, servers=3)
    check(len(status(job)["ps"]) == 3, f"{job} does not use three servers")
    kubectl("scale", "statefulset/gradus-ps", "--replicas=2")
    wait_for("the job lacks a server", lambda: "waits for 1 more parameter server" in status(job).get("reason", ""))
    at = time.time()
    kubectl("scale", "statefulset/gradus-ps", "--replicas=3")
    measured("scale from 2 to the 3 servers of a job → next step", steps.stall(at))
    end_long("wide", job, steps)


# ---- TLS ----


def apply_production(directory):
    """overlays/production as the resource of an overlay of one's own, with volumes for one node."""
    os.makedirs(directory)
    base = os.path.relpath(os.path.join(SOURCE, "deploy", "kubernetes", "overlays", "production"), os.path.realpath(directory))
    with open(os.path.join(directory, "kustomization.yaml"), "w") as f:
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [base],
                   "patches": [{"target": {"kind": "PersistentVolumeClaim"}, "patch": json.dumps(
                       [{"op": "replace", "path": "/spec/accessModes", "value": ["ReadWriteOnce"]}])}]}, f)
    begin = time.time()
    run(f"kubectl apply -k {directory}")
    wait_whole()
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "deployment/gradus-worker", "--timeout=300s")
    measured("TLS: apply → all pods ready", ready_since() - begin)


def refused(*command, said):
    done = subprocess.run(["kubectl", "-n", NAMESPACE, *command], capture_output=True, text=True, timeout=60)
    check(done.returncode != 0 and said in done.stdout + done.stderr, f"{command} is not refused: {done.stdout}{done.stderr}")


def page_of(pod, path):
    return ("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/https:{pod}:8080/proxy{path}")


def rights(directory, job):
    """What nodes may not, and people from outside may."""
    print(kubectl("exec", "gradus-master-0", "--", "gradus", "list"), flush=True)
    refused("exec", "gradus-master-0", "--", "gradus", "cancel", job, said="may not call gradus.v1.Jobs/Cancel")
    check(kubectl(*page_of("gradus-master-0", "/readyz")).strip() == "ok", "/readyz does not say ok")
    refused(*page_of("gradus-master-0", "/metrics"), said="certificate")
    forward = subprocess.Popen(["kubectl", "-n", NAMESPACE, "port-forward", "service/gradus-master", ":7000"],
                               stdout=subprocess.PIPE, text=True)
    try:
        port = re.search(r"127.0.0.1:(\d+)", forward.stdout.readline()).group(1)
        run(f"{PROGRAM} nodes --master 127.0.0.1:{port} --tls-cert {directory}/tls/admin.crt "
            f"--tls-key {directory}/tls/admin.key --tls-ca {directory}/tls/ca.crt")
    finally:
        forward.terminate()
        forward.wait()


def operate(steps):
    """The commands of the other page: a look, and a master that is away for as long as its volume is copied."""
    for command in documents.commands(SOURCE, OPERATIONS):
        if command.words.startswith("kubectl ") and "gradus-store" not in command.words:
            at = time.time()
            run(command.text)
    wait_whole()
    measured("TLS: scale of the master from 0 to 1 → next step", steps.stall(at))


def renew(directory, steps):
    """New certificates, which the pods take without a restart; then connections of all kinds are made anew."""
    at = time.time()
    follow_page_of_tls(directory, "renew|replace", 3)
    with open(os.path.join(directory, "tls", "node.crt")) as f:
        new = f.read()
    services = [p for component in ("master", "ps", "worker") for p in pods(component)]
    wait_for("the pods have the new certificates", lambda: all(
        kubectl("exec", p, "--", "cat", "/etc/gradus/tls/tls.crt", wanted=False) == new for p in services))
    measured("TLS: Secret replaced → files of all pods", time.time() - at)
    time.sleep(2)  # services read them each second
    for component in ("worker", "ps", "master"):
        kill(steps, component, "TLS: ")
        wait_whole()


def with_tls(directory):
    run("kubectl apply -f deploy/kubernetes/overlays/production/namespace.yaml")
    follow_page_of_tls(directory, "init|create secret.*ca.crt$", 3)
    apply_production(directory + "/production")
    run("kubectl apply -k deploy/kubernetes/jobs/digits-data")
    kubectl("wait", "--for=condition=complete", "job/digits-data", "--timeout=600s")
    follow_page_of_tls(directory, "jobs/digits-tls", 1)
    kubectl("wait", "--for=condition=complete", "job/digits", "--timeout=900s")
    start_client(tls=True)
    job, steps = begin_long("secret", directory, tls=True)
    rights(directory, job)
    operate(steps)
    renew(directory, steps)
    end_long("secret", job, steps)
    return digest("digits-1")


def bad_job(directory):
    """A job whose file is wrong ends its Job at once, as failed."""
    submit("wrong", directory, lambda text: text.replace("mode: sync", "mode: sink"))
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
    check(os.path.exists(PROGRAM), "there is no build/bin/gradus, which makes the certificates: script/build")
    directory = tempfile.mkdtemp(prefix="gradus-kubernetes-")
    volumes = None
    try:
        run("kubectl apply -f deploy/kubernetes/overlays/dev/namespace.yaml")
        volumes = make_volumes(options)
        validate()
        follow_page()
        start_client()
        bad_job(directory)
        trouble(directory)
        scale_servers(directory)
        plain = digest("digits-1")
        clean_up(volumes)
        volumes = make_volumes(options)
        check(with_tls(directory) == plain, "other bits with TLS than without")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if not options.keep:
            clean_up(volumes)
    print("\ntest-kubernetes: passed")
    for what, seconds in times:
        print(f"  {what:56} {seconds:6.1f} s")


if __name__ == "__main__":
    main()
