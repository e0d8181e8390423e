# SPDX-License-Identifier: Apache-2.0
"""A cluster whose nodes have links of their own: each in a network namespace, all on one bridge, each end of each
link with a rate. For one machine; needs root, unshare, ip and tc (tbf).

The process that calls enter() is in the bridge's namespace from then on: whatever is made there ends with it."""

import os
import re
import select
import subprocess
import sys
import tempfile
import urllib.request

NETWORK = "10.77"
BURST = "20kb"  # what a link carries at once after a pause: little beside a message
PACKETS = "16000"  # bytes that a sender hands to the link at once; above the burst they would be cut first
CONGESTION = "reno"  # no bandwidth is guessed: that of others is wrong for a while after each pause
QUEUE = "8mb"  # nothing is lost: what many send to one waits, as where switches hold senders back


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def why_not():
    """Why there can be no such network here, or None."""
    if os.environ.get("GRADUS_LINKS") == "inside":
        return None
    if os.getuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && tc qdisc add dev lo root "
                            f"tbf rate 1gbit burst {BURST} limit {QUEUE}"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces with limited rates: {tried.stderr.strip()}"


def enter(script):
    """Begin the program again as the owner of a network; returns inside of it."""
    if os.environ.get("GRADUS_LINKS") == "inside":
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.0.1/16", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        return
    environment = dict(os.environ, GRADUS_LINKS="inside")
    os.execvpe("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
                           sys.executable, "-B", script, *sys.argv[1:]], environment)


class Cluster:
    """A master without a limit, and workers and servers that have one each (bits in a second, each way; 0: none)."""

    def __init__(self, bin_dir, work, workers, servers, bits):
        self.bin_dir, self.work = bin_dir, work
        self.state = tempfile.mkdtemp(dir=work)
        self.names, self.processes, self.logs = [], [], []
        self.master = self.start("gradus-master", 1, None, f"--state-dir={self.state}")["grpc"]
        common = ["--master=" + self.master, "--local-sockets=off"]
        self.servers = [self.start("gradus-ps", 100 + i, bits, *common, f"--checkpoint-dir={self.state}/checkpoints")
                        for i in range(servers)]
        self.workers = [self.start("gradus-worker", 200 + i, bits, *common) for i in range(workers)]

    def start(self, program, number, bits, *more):
        host = f"{NETWORK}.0.{number}"
        inside = []
        if bits is not None:
            self.link(f"n{number}", host, bits)
            inside = ["ip", "netns", "exec", f"n{number}"]
        log = open(f"{self.state}/{program}-{number}.log", "w")
        self.logs.append(log)
        process = subprocess.Popen([*inside, os.path.join(self.bin_dir, program), f"--listen={host}:0",
                                    f"--http-listen={host}:0", "--insecure", "--grace-ms=100ms", *more],
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        ready, _, _ = select.select([process.stdout], [], [], 30)
        line = process.stdout.readline() if ready else ""
        found = re.search(r"grpc=(\S+) http=(\S+)", line)
        if not found:
            with open(log.name) as f:
                raise SystemExit(f"{program} did not start: {line}{f.read()}")
        return {"grpc": found.group(1), "http": found.group(2), "pid": process.pid}

    def link(self, name, host, bits):
        run("ip", "netns", "add", name)
        self.names.append(name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", name, "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", f"{host}/16", "dev", "eth0")
        for device in (["-n", name, "link", "set", "eth0"], ["link", "set", name]):
            run("ip", *device, "gso_max_size", PACKETS, "gso_max_segs", "11")
        run("ip", "netns", "exec", name, "sysctl", "-w", f"net.ipv4.tcp_congestion_control={CONGESTION}")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        if bits > 0:
            limit = ["root", "tbf", "rate", f"{bits}bit", "burst", BURST, "limit", QUEUE]
            run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", *limit)
            run("tc", "qdisc", "add", "dev", name, *limit)

    def gradus(self, *args, check=True):
        done = subprocess.run([os.path.join(self.bin_dir, "gradus"), *args, f"--master={self.master}"],
                              capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise SystemExit(f"gradus {' '.join(args)}: {done.stderr}")
        return done.stdout

    def metrics(self, node):
        """{"name{labels}": value}."""
        with urllib.request.urlopen(f"http://{node['http']}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for log in self.logs:
            log.close()
        for name in self.names:
            run("ip", "link", "del", name)
            run("ip", "netns", "del", name)
