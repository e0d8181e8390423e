# SPDX-License-Identifier: Apache-2.0
"""A machine of one's own for as long as this process lives: network, processes, and the files that commands of the
texts suppose or leave behind. What is not named here is the machine's own."""

import fcntl
import os
import socket
import struct
import subprocess
import sys

ROOT = "/mnt"  # the new root; hidden in these namespaces alone
NAMES = ("master",)  # hosts that the texts name


def unshare_command():
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]


def enter(script):
    """Begin this program again inside; returns only inside, or with False where no namespaces are to be had."""
    if os.environ.get("GRADUS_PRIVATE_MACHINE") == "yes":
        make_root()
        raise_loopback()
        return True
    if subprocess.run([*unshare_command(), "true"], capture_output=True).returncode != 0:
        return False
    environment = dict(os.environ, GRADUS_PRIVATE_MACHINE="yes")
    os.execvpe("unshare", [*unshare_command(), sys.executable, "-B", script, *sys.argv[1:]], environment)


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def show(source, target):
    """Everything at source appears at target, links as links."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        open(target, "w").close()
    mount("--rbind", source, target)


def show_all(directory, private):
    """The same for what is in a directory, but for the names in private."""
    for name in os.listdir(directory):
        if name not in private:
            show(os.path.join(directory, name), ROOT + os.path.join(directory, name))


def make_root():
    mount("-t", "tmpfs", "tmpfs", ROOT)
    show_all("/", ("mnt", "var", "data"))
    os.makedirs(ROOT + "/var/lib")
    show_all("/var", ("lib",))
    show_all("/var/lib", ("gradus",))
    os.mkdir(ROOT + "/var/lib/gradus")
    os.mkdir(ROOT + "/data")
    os.mkdir(ROOT + "/mnt")
    hosts = ROOT + "/mnt/hosts"
    with open(hosts, "w") as f:
        f.write("127.0.0.1 localhost " + " ".join((*NAMES, socket.gethostname())) + "\n")
    mount("--bind", hosts, ROOT + "/etc/hosts")
    os.chroot(ROOT)
    os.chdir("/")


def raise_loopback():
    up = struct.pack("16sH14x", b"lo", 1)  # struct ifreq with IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, up)  # SIOCSIFFLAGS
