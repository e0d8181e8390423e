# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real cluster: the commands of docs/deployment.md as they stand there, then a job during which
pods are killed, evicted, scaled and replaced by rolling updates, then the same with TLS, with tokens and with checkpoints in
an object store, and over IPv6 where pods have it. Run by script/test-kubernetes."""

import argparse
import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from pods import (NAMESPACE, SOURCE, Steps, check, end, end_processes, events, fail, finish, gradus, kubectl, measured, pods,
                  pods_of, ready_since, refused, run, say, start, started, status, times, wait_for)

sys.path.insert(0, os.path.join(SOURCE, "tests", "documents"))
import documents  # noqa: E402

ACCURACY_MIN = 0.96
EXAMPLE = "/usr/local/share/gradus/examples/digits.yaml"
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


def of_tokens(command):
    return any(word in command.words for word in (" token ", "gradus-tokens", "overlays/production-tokens"))


def of_masters(command):
    """They need an etcd, and are not tried here."""
    return any(word in command.words for word in ("gradus-etcd", "overlays/production-masters"))


def of_tls(command):
    return not of_tokens(command) and not of_masters(command) and any(
        word in command.words for word in ("certificates", "tls/", "digits-tls", "overlays/production", "gradus-store"))


def page_commands():
    """What the page has below its heading "Kubernetes"."""
    with open(os.path.join(SOURCE, PAGE)) as f:
        first = f.read().splitlines().index("## Kubernetes")
    return [c for c in documents.commands(SOURCE, PAGE) if c.line > first]


def follow_page():
    """The commands of the page, in their order."""
    commands = [c for c in page_commands() if not c.words.startswith("docker ")]
    check(len(commands) >= 10, f"{PAGE} has lost its commands")
    begin = time.time()
    for command in commands:
        if FOR_PEOPLE.match(command.words) or of_tls(command) or of_tokens(command) or of_masters(command):
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
    commands = [c for c in page_commands()
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
        answer = json.loads(gradus("list", "--json", wanted=False) or "{}")
        return [j["id"] for j in answer.get("jobs", []) if j["name"] == name]
    found_jobs = wait_for(f"a job {name}", found)
    check(len(found_jobs) == 1, f"{name} was submitted {len(found_jobs)} times")
    return found_jobs[0]


def digest(job):
    """Of the parameters, as the master's checkpoints have them."""
    kubectl("exec", "gradus-master-0", "--", "gradus", "export", job, "/tmp/model.safetensors", "--bare")
    command = ["kubectl", "-n", NAMESPACE, "exec", "gradus-master-0", "--", "sha256sum", "/tmp/model.safetensors"]
    code, out, err = finish(command)
    check(code == 0, f"{command}: {err}")
    return out.split()[0]


# ---- trouble ----


def told(since, event, **fields):
    """When the master's log has this event since then."""
    log = events("gradus-master-0", wanted=False)
    return [at for at, line in log if line["event"] == event and at > since and fields.items() <= line.items()]


def next_step(steps, component, since):
    """The first step after a pod was killed: of a worker, what ends the longest pause; else what follows the job's start
    from its checkpoint."""
    if component == "worker":
        return since + steps.stall(since)
    back = wait_for("the job goes on", lambda: told(since, "job_state", to="RUNNING"))[0]
    return wait_for("a step", lambda: [at for at in steps.moves() if at > back])[0]


def kill(steps, component, prefix=""):
    """One of these pods, with the time of what comes between: the process in its place, its joining."""
    before = {p["metadata"]["uid"] for p in pods_of(component)}
    victim = pods(component)[0]
    at = time.time()
    kubectl("delete", "pod", victim, "--force", "--grace-period=0", wanted=True)
    say(f"killed {victim}")
    step = next_step(steps, component, at)
    measured(f"{prefix}{component} killed → next step", step - at)
    new = wait_for("another in its place", lambda: [
        p["metadata"]["name"] for p in pods_of(component) if p["metadata"]["uid"] not in before])[0]
    process = events(new)[0][0]
    say(f"  of this, until the first line of the process in its place (kubelet, the container): {process - at:.1f} s")
    steps.stall(at)  # all goes on
    joined = told(at, "node_joined")
    if component == "master":
        measured(f"{prefix}master's first line → the last node has joined", joined[-1] - process)
    else:
        say(f"  first line → joined {joined[0] - process:.1f} s")


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


def apply(directory, overlay, what, components=(), settings=None):
    """An overlay as the resource of one's own, with volumes for one node; these of its settings are others."""
    os.makedirs(directory)

    def to(*path):
        return os.path.relpath(os.path.join(SOURCE, "deploy", "kubernetes", *path), os.path.realpath(directory))
    patches = [{"target": {"kind": "PersistentVolumeClaim"},
                "patch": json.dumps([{"op": "replace", "path": "/spec/accessModes", "value": ["ReadWriteOnce"]}])}]
    if settings:
        patches.append({"target": {"kind": "ConfigMap", "name": "gradus"}, "patch": json.dumps(
            [{"op": "add", "path": f"/data/{key}", "value": value} for key, value in settings.items()])})
    with open(os.path.join(directory, "kustomization.yaml"), "w") as f:
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": NAMESPACE,
                   "resources": [to("overlays", overlay)], "components": [to("components", c) for c in components],
                   "patches": patches}, f)
    begin = time.time()
    run(f"kubectl apply -k {directory}")
    wait_whole()
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "deployment/gradus-worker", "--timeout=300s")
    measured(f"{what}: apply → all pods ready", ready_since() - begin)


def page_of(pod, path):
    return ("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/https:{pod}:8080/proxy{path}")


def rights(directory, job):
    """What nodes may not, and people from outside may."""
    print(kubectl("exec", "gradus-master-0", "--", "gradus", "list"), flush=True)
    refused("exec", "gradus-master-0", "--", "gradus", "cancel", job, said="may not call gradus.v1.Jobs/Cancel")
    check(kubectl(*page_of("gradus-master-0", "/readyz")).strip() == "ok", "/readyz does not say ok")
    refused(*page_of("gradus-master-0", "/metrics"), said="certificate")
    forward = start(["kubectl", "-n", NAMESPACE, "port-forward", "service/gradus-master", ":7000"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    port = re.search(r"127.0.0.1:(\d+)", forward.stdout.readline()).group(1)
    run(f"{PROGRAM} nodes --master 127.0.0.1:{port} --tls-cert {directory}/tls/admin.crt "
        f"--tls-key {directory}/tls/admin.key --tls-ca {directory}/tls/ca.crt")
    end(forward)


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


def with_tls(directory, whole):
    """With all that operations.md does (@whole), or as far as a cluster with TLS that tokens come to."""
    run("kubectl apply -f deploy/kubernetes/overlays/production/namespace.yaml")
    follow_page_of_tls(directory, "init|create secret.*ca.crt$", 3)
    apply(directory + "/production", "production", "TLS")
    run("kubectl apply -k deploy/kubernetes/jobs/digits-data")
    kubectl("wait", "--for=condition=complete", "job/digits-data", "--timeout=600s")
    follow_page_of_tls(directory, "jobs/digits-tls", 1)
    kubectl("wait", "--for=condition=complete", "job/digits", "--timeout=900s")
    start_client(tls=True)
    job, steps = begin_long("secret", directory, tls=True)
    rights(directory, job)
    if whole:
        operate(steps)
        renew(directory, steps)
    end_long("secret", job, steps)
    return digest("digits-1")


# ---- tokens, an object store ----


def follow_page_of_tokens(directory):
    """The page's commands for tokens, with files in a directory outside of the tree: {name: its token}. They are shown
    to nobody."""
    commands = [c for c in page_commands() if of_tokens(c) and "overlays/" not in c.words]
    check(len(commands) == 3, f"{PAGE} has {len(commands)} commands for tokens, not 3")
    tokens = {}
    for command in commands:
        text = re.sub(r"(--tokens |tokens=)tokens\b", rf"\1{directory}/tokens", command.text)
        output = run(text, secret=True)
        name = re.search(r"--name (\w+)", text)
        if name:
            tokens[name.group(1)] = re.search(r"^(\S{20,})$", output, re.M).group(1)
    return tokens


def with_token(token, *args):
    """The command of kubectl by which the client's pod runs gradus with this token, which no list of processes shows."""
    words = " ".join(args)
    return ("exec", "-i", "test-client", "--", "bash", "-c",
            f"unset GRADUS_TLS_CERT GRADUS_TLS_KEY; read -r GRADUS_TOKEN; export GRADUS_TOKEN; exec gradus {words}"), token + "\n"


def roles(tokens, job):
    """Who shows a token may do what its role may, and nothing more."""
    command, stdin = with_token(tokens["prometheus"], "status", job)
    check("RUNNING" in kubectl(*command, stdin=stdin), "a viewer does not see the job")
    for name, act, said in (("prometheus", ("cancel", job), "may not call gradus.v1.Jobs/Cancel"), ("nobody", ("list",), "token")):
        command, stdin = with_token(tokens.get(name, "gradus_" + "0" * 40), *act)
        code, out, err = finish(["kubectl", "-n", NAMESPACE, *command], stdin)
        check(code != 0 and said in out + err, f"{act} of {name} is not refused: {out}{err}")
    command, stdin = with_token(tokens["ann"], "submit", EXAMPLE, "--set", "data.dir=/data/digits", "--set", "name=anns")
    kubectl(*command, stdin=stdin)
    command, stdin = with_token(tokens["ann"], "cancel", "anns-1")
    kubectl(*command, stdin=stdin)
    say("tokens: a viewer looks, a submitter submits and cancels, and an unknown one does nothing")


def with_tokens(directory, options):
    """Clients show tokens; checkpoints are in the store of --store, if there is one."""
    tokens = follow_page_of_tokens(directory)
    overlay, settings = "production", None
    if options.store:
        kubectl("create", "secret", "generic", "gradus-store", f"--from-file=credentials={options.store_credentials}")
        overlay = "production-store"
        settings = {"GRADUS_CHECKPOINT_DIR": f"{options.store}/test-{os.getpid()}-{int(time.time())}",
                    "AWS_ENDPOINT_URL": options.store_endpoint}
    what = "tokens and a store" if options.store else "tokens"
    apply(directory + "/tokens-overlay", overlay, what, components=("tokens",), settings=settings)
    job, steps = begin_long("kept", directory, tls=True)
    roles(tokens, job)
    kill(steps, "ps", f"{what}: ")
    wait_whole()
    end_long("kept", job, steps)
    if options.store:
        check(status(job)["checkpoint"].startswith(settings["GRADUS_CHECKPOINT_DIR"]), f"{job} has no checkpoint in the store")
        say(f"the newest checkpoint: {status(job)['checkpoint']}")


# ---- IPv6 ----


def with_ipv6(directory):
    """Every connection of a job is one of IPv6: the bits of the job in peace."""
    run("kubectl apply -f deploy/kubernetes/overlays/dev/namespace.yaml")
    apply(directory + "/ipv6", "dev", "IPv6", components=("ipv6",))
    run("kubectl apply -k deploy/kubernetes/jobs/digits-data")
    kubectl("wait", "--for=condition=complete", "job/digits-data", "--timeout=600s")
    run("kubectl apply -k deploy/kubernetes/jobs/digits")
    kubectl("wait", "--for=condition=complete", "job/digits", "--timeout=900s")
    listed = kubectl("exec", "gradus-master-0", "--", "gradus", "nodes", "--master", "gradus-master:7000")
    print(listed, flush=True)
    workers = [line for line in listed.splitlines() if " WORKER " in line.upper()]
    check(any("[" in line for line in workers), "no worker advertises an address of IPv6")
    return digest("digits-1")


def has_ipv6():
    return any(":" in ip["ip"] for p in pods_of("master") for ip in p["status"].get("podIPs", []))


def bad_job(directory):
    """A job whose file is wrong ends its Job at once, as failed."""
    submit("wrong", directory, lambda text: text.replace("mode: sync", "mode: sink"))
    kubectl("wait", "--for=condition=failed", "job/wrong", "--timeout=120s")
    kubectl("delete", "job/wrong", "configmap/wrong")


def clean_up(volumes):
    for name in ("jobs/digits", "jobs/digits-data", "overlays/dev"):
        finish(["kubectl", "delete", "--ignore-not-found", "--wait=true", "-k", f"deploy/kubernetes/{name}"], timeout=300)
    if volumes:
        finish(["kubectl", "delete", "pv", "--ignore-not-found", "test-gradus-checkpoints", "test-gradus-data",
                "test-state-gradus-master-0"], timeout=300)
        shutil.rmtree(volumes, ignore_errors=True)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--volumes", help="a directory of this machine, which is the cluster's one node")
    parser.add_argument("--store", help="s3://BUCKET/PREFIX")
    parser.add_argument("--store-endpoint", help="its URL, as pods reach it")
    parser.add_argument("--store-credentials", help="a file as the tools of AWS have it")
    parser.add_argument("--only", help="some of: plain, tls, tokens, ipv6")
    parser.add_argument("--keep", action="store_true", help="leave all of it there")
    options = parser.parse_args()
    options.parts = (options.only or "plain,tls,tokens,ipv6").split(",")
    if options.store and not (options.store_endpoint and options.store_credentials):
        parser.error("--store needs --store-endpoint and --store-credentials")
    return options


def plain_part(directory):
    validate()
    follow_page()
    start_client()
    bad_job(directory)
    trouble(directory)
    scale_servers(directory)


def all_parts(directory, options, volumes):
    digests = {}
    run("kubectl apply -f deploy/kubernetes/overlays/dev/namespace.yaml")
    volumes.append(make_volumes(options))
    ipv6 = "ipv6" in options.parts
    if "plain" in options.parts:
        plain_part(directory)
        digests["plain"] = digest("digits-1")
        ipv6 = ipv6 and has_ipv6()
    if "tls" in options.parts or "tokens" in options.parts:
        clean_up(volumes.pop())
        volumes.append(make_volumes(options))
        digests["TLS"] = with_tls(directory, "tls" in options.parts)
        if "tokens" in options.parts:
            with_tokens(directory, options)
    if ipv6:
        clean_up(volumes.pop())
        volumes.append(make_volumes(options))
        digests["IPv6"] = with_ipv6(directory)
    elif "ipv6" in options.parts:
        say("SKIPPED: IPv6; pods of this cluster have none")
    check(len(set(digests.values())) <= 1, f"not the same bits: {digests}")
    say(f"the same bits: {digests}")


def main():
    options = read_options()
    check(os.path.exists(PROGRAM), "there is no build/bin/gradus, which makes the certificates: script/build")
    signal.signal(signal.SIGTERM, lambda *_: fail("ended by SIGTERM"))
    directory = tempfile.mkdtemp(prefix="gradus-kubernetes-")
    volumes = []
    try:
        all_parts(directory, options, volumes)
    finally:
        end_processes()
        shutil.rmtree(directory, ignore_errors=True)
        if not options.keep:
            clean_up(volumes.pop() if volumes else None)
    print("\ntest-kubernetes: passed")
    for what, seconds in times:
        print(f"  {what:70} {seconds:6.1f} s")


if __name__ == "__main__":
    main()
