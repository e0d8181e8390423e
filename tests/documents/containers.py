# SPDX-License-Identifier: Apache-2.0
"""The container commands of docs/deployment.md on a docker engine, as they stand there, with a worker and a parameter server
killed in between. Run by script/test-containers, which sees to the engine."""

import os
import re
import shutil
import subprocess
import sys
import time

import documents

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
from job_json import read_job  # noqa: E402

PROJECT = os.environ["COMPOSE_PROJECT_NAME"]
PAGE = "docs/deployment.md"
OWN = SOURCE + "/my-data"  # as the page calls it
ACCURACY_MIN = 0.96
SLOWER = int(os.environ.get("GRADUS_TEST_SLOWER", "1"))  # as with the other tests: limits are so many times longer
COMMAND_S = 900 * SLOWER  # building the image on a busy machine
WAIT_S = 120 * SLOWER


def fail(what):
    raise SystemExit(f"containers: FAILED: {what}")


def check(condition, what):
    if not condition:
        fail(what)


def run(command, timeout=COMMAND_S):
    """One command as a shell takes it, shown with what it prints; its output."""
    print(f"\n$ {command}", flush=True)
    start = time.monotonic()
    with subprocess.Popen(["bash", "-c", command], cwd=SOURCE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace") as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            fail(f"not over after {timeout} s: {command}")
    lines = output.splitlines()
    if process.returncode == 0 and len(lines) > 24:
        lines = lines[:4] + [f"… {len(lines) - 24} lines …"] + lines[-20:]
    print("\n".join(lines))
    check(process.returncode == 0, f"exit code {process.returncode}: {command}")
    print(f"-- {time.monotonic() - start:.0f} s", flush=True)
    return output


def quiet(*args):
    """The output of one command, which is there for a check and not from a text."""
    done = subprocess.run(args, cwd=SOURCE, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"{' '.join(args)}: {done.stderr.strip()}")
    return done.stdout.strip()


def wait_for(what, condition):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        value = condition()
        if value:
            print(f"-- {what}", flush=True)
            return value
        time.sleep(0.5)
    return fail(f"waited {WAIT_S} s: {what}")


def containers(service=None):
    service = ["--filter", f"label=com.docker.compose.service={service}"] if service else []
    return quiet("docker", "ps", "-q", "--filter", f"label=com.docker.compose.project={PROJECT}", *service).split()


def gradus(*args):
    """The client, beside the master, with an administrator's certificate: the container's own is a node's."""
    keys = "/var/lib/gradus/certificates/admin"
    return quiet("docker", "exec", "-e", f"GRADUS_TLS_CERT={keys}.crt", "-e", f"GRADUS_TLS_KEY={keys}.key",
                 containers("master")[0], "gradus", *args)


def status(job):
    return read_job(gradus("status", job, "--json"))


def kill_inside(service):
    """kill -9 of the process in one container of a service; until it was restarted."""
    victim = containers(service)[0]
    # The container ends with that process, and may take the shell with it before it says how it went.
    subprocess.run(["docker", "exec", victim, "bash", "-c", f"kill -9 $(pidof gradus-{service})"], capture_output=True, timeout=60, check=False)
    restarted = "{{if gt .RestartCount 0}}{{.State.Health.Status}}{{end}}"
    wait_for(f"{service} {victim} was killed and has been restarted",
             lambda: quiet("docker", "inspect", "-f", restarted, victim) == "healthy")


# ---- what must be true around the commands of the page ----


def after_up():
    for service, count in (("master", 1), ("ps", 2), ("worker", 2)):
        check(len(containers(service)) == count, f"not {count} containers of {service}")


def after_submit(output):
    check(re.search(r"^state +SUCCEEDED", output, re.M), "the job did not succeed")
    if "digits" not in output:
        return
    accuracy = float(re.search(r"^test .*accuracy ([\d.]+)", output, re.M).group(1))
    check(accuracy >= ACCURACY_MIN, f"the accuracy is {accuracy}, not {ACCURACY_MIN}")


def start_job():
    """A job that takes a third worker when there is one, and lasts until it is told to end."""
    job = gradus("submit", "/usr/local/share/gradus/examples/digits.yaml", "--set", "data.dir=/data", "--set",
                 "cluster.workers=2..3", "--set", "training.replicas=6", "--set", "training.epochs=1000").split()[-1]
    wait_for(f"{job} is running on two workers", lambda: status(job)["state"] == "RUNNING"
             and status(job)["steps"] > 0 and len(status(job)["workers"]) == 2)
    return job


def after_scale(job):
    wait_for(f"{job} has the third worker, too", lambda: len(status(job)["workers"]) == 3)

    generation = status(job)["generation"]
    kill_inside("worker")
    wait_for(f"{job} has three workers again, in another generation", lambda: (
        len(status(job)["workers"]) == 3 and status(job)["generation"] > generation))
    kill_inside("ps")
    wait_for(f"{job} has recovered from the loss of a parameter server", lambda: (
        status(job)["recoveries"] >= 1 and status(job)["state"] == "RUNNING" and status(job)["steps"] > 0))

    gradus("set", job, f"training.epochs={int(status(job)['epochs']) + 4}")
    wait_for(f"{job} is over", lambda: status(job)["finished_ms"] > 0)
    end = status(job)
    check(end["state"] == "SUCCEEDED", f"{job} is {end['state']}: {end['reason']}")
    accuracy = end["metrics"]["test"]["accuracy"]
    check(accuracy >= ACCURACY_MIN, f"{job}: the accuracy is {accuracy}, not {ACCURACY_MIN}")


def metrics():
    """The commands of the compose file, which belong together."""
    script = "\n".join(c.text for c in documents.commands(SOURCE, "deploy/compose.yaml"))
    check("/metrics" in script, "deploy/compose.yaml does not say how to reach the metrics")
    check("gradus_worker_steps_total" in run(script), "these are no metrics of a worker")


def after_down():
    check(containers() == [], "containers are left")
    volumes = quiet("docker", "volume", "ls", "-q", "--filter", f"label=com.docker.compose.project={PROJECT}")
    check(volumes == "", f"volumes are left: {volumes}")


def image_alone():
    """The commands at the head of the Dockerfile."""
    commands = documents.commands(SOURCE, "docker/Dockerfile")
    check(len(commands) >= 2, "docker/Dockerfile does not say how to use it")
    for command in commands:
        run(command.text)


def main():
    commands = [c for c in documents.commands(SOURCE, PAGE) if "docker-compose " in c.text]
    kinds = {"up -d --build": 0, "generate digits": 0, " submit ": 0, "tar -C my-data": 0, " predict ": 0, "--scale worker=3": 0, "down -v": 0}
    for command in commands:
        for kind in kinds:
            kinds[kind] += kind in command.words
    check(all(kinds.values()), f"{PAGE} lacks one of {list(kinds)}")

    job = None
    try:
        for command in commands:
            if "--scale worker=3" in command.words:
                job = start_job()
            if "down -v" in command.words:
                metrics()
            if "tar -C my-data" in command.words:
                os.mkdir(OWN)
                documents.write_own_csv(SOURCE, OWN)
            output = run(command.text)
            if "up -d --build" in command.words:
                after_up()
            if " submit " in command.words:
                after_submit(output)
            if " predict " in command.words:
                check(len(re.findall(r"^n-\d+,(yes|no),", output, re.M)) == 20, "not an answer for each record")
            if "--scale worker=3" in command.words:
                after_scale(job)
            if "down -v" in command.words:
                after_down()
        image_alone()
    except BaseException:
        subprocess.run(["docker-compose", "-f", "deploy/compose.yaml", "logs", "--tail=40"], cwd=SOURCE, timeout=60)
        raise
    finally:
        shutil.rmtree(OWN, ignore_errors=True)
        subprocess.run(["docker-compose", "-f", "deploy/compose.yaml", "down", "-v"], cwd=SOURCE, timeout=120,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"\ncontainers: everything is as {PAGE} says")


if __name__ == "__main__":
    sys.exit(main())
