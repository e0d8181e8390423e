# SPDX-License-Identifier: Apache-2.0
"""Which files belong to which room, and which tests look at it beside those that are linked with its objects."""

import os
import re

# The cores are proved by the simulator and its mutants (tests/sim/mutants.h); everything else is ours. Two of them are in
# rooms with shells.
CORES = re.compile(r"services/\w+/core/|common/membership/membership_core\.c$|common/trace/recording\.c$")

# Rooms whose unit tests are in the folder of another one.
TESTED_WITH = {"execution": "service", "host": "service", "membership": "service", "program": "libgradus"}

# Tests of whole programs, beside the unit tests: where a shell's work is to be seen from outside alone.
# They last longer, so only those of a few seconds are named.
PROGRAM_TESTS = {
    "checkpoint": ["test_checkpoint_python"],
    "storage": ["test_object_store"],
    "rpc": ["test_rpc_python_client", "test_rpc_python_server"],
    "ps": ["test_ps_python_client", "test_step_allocations"],
    "ps_client": ["test_step_allocations"],
    "wire": ["integration_wire"],
}


def room_of(path):
    """The room of a C file, or None for cores and for what is no room."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] not in ("common", "services") or not path.endswith(".c") or CORES.search(path):
        return None
    return parts[1]


def rooms_of(root):
    """room → its C files, both sorted."""
    rooms = {}
    for top in ("common", "services"):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), root)
                room = room_of(path)
                if room is not None:
                    rooms.setdefault(room, []).append(path)
    return {room: sorted(rooms[room]) for room in sorted(rooms)}
