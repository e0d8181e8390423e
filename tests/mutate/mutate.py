# SPDX-License-Identifier: Apache-2.0
"""Puts small faults into the rooms, one at a time, and says which of them no test finds. See script/mutate --help."""

import argparse
import os
import random
import sys
import time

import faults
import rooms
import workshop

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

ABOUT = """\
Puts small faults into C files outside of the cores, one at a time: a call or an assignment left out, a condition
negated or its check dropped, || for &&, < for <=, == for !=, + for -, a 1 too many or too few, success in place of
an error, true for false. Each is compiled (with warnings as errors; what does not compile or is the same program is
no fault, and another is drawn) and run against the unit tests of its room and of rooms that are linked with it.
Prints what no test found. A test that fails without any fault is left out; when those are more than a few, or a room has
no test left, the trial is void, which is said at the end. Exit code: 1 when a fault was not found, 2 when the trial
is void. Everything happens in a copy of the tree (build/mutate), as it is now, committed or not."""


def arguments():
    parser = argparse.ArgumentParser(prog="script/mutate", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", metavar="R", help="only this room (base, ..., master, ps, worker, cli); may be repeated")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which faults are drawn (default 1)")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="how many faults, as many in each room (default 100)")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M",
                        help="begin no fault after so long; rooms take turns, so each has had its share")
    parser.add_argument("--only", action="append", metavar="ID", help="this fault, as printed; may be repeated")
    parser.add_argument("--file", action="append", metavar="PATH", help="draw from this file alone; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the faults that would be tried first, and try none")
    parser.add_argument("--dir", default=os.path.join(SOURCE, "build", "mutate"), help="where to build (default build/mutate)")
    parser.add_argument("--source", default=SOURCE, help=argparse.SUPPRESS)
    return parser.parse_args()


LEFT_OUT_MAX = 3  # tests that fail without any fault; with more of them, a trial says nothing


def say(*words):
    print(*words, flush=True)


class Draw:
    """An endless supply of faults of one room: first a line is drawn, then one of its faults."""

    def __init__(self, room, files, read, seed):
        self.room = room
        self.random = random.Random(f"{seed} {room}")
        lines = {}
        for path in files:
            for fault in faults.faults_of(path, read(path)):
                lines.setdefault((fault.path, fault.line), []).append(fault)
        self.lines = [lines[key] for key in sorted(lines)]

    def next(self):
        """The next fault; None when there are no more lines."""
        if not self.lines:
            return None
        found = self.lines.pop(self.random.randrange(len(self.lines)))
        kinds = sorted({f.kind for f in found})
        kind = self.random.choice(kinds)
        return self.random.choice([f for f in found if f.kind == kind])


def share(count, names):
    """How many faults each room gets: as many as every other, the first ones one more."""
    return {name: count // len(names) + (i < count % len(names)) for i, name in enumerate(names)}


def in_turn(shares):
    """The rooms as often as their shares say, one after the other: whoever stops early has seen something of each."""
    for i in range(max(shares.values(), default=0)):
        yield from (room for room, count in shares.items() if count > i)


def fault_of_id(text, read):
    path = text.split(":")[0]
    try:
        found = [f for f in faults.faults_of(path, read(path)) if f.id == text]
    except OSError:
        found = []
    if not found:
        sys.exit(f"mutate: there is no fault {text} in the tree as it is")
    return found[0]


def judge(shop, fault, tally, survivors):
    """Try one fault; False when it is none."""
    start = time.monotonic()
    by = shop.try_fault(fault)
    if by is None:
        return False
    room = rooms.room_of(fault.path)
    tally.setdefault(room, [0, 0])
    tally[room][0] += by != ""
    tally[room][1] += 1
    if by == "":
        survivors.append(fault)
    say(f"{'found by ' + by if by else 'NOT FOUND':40} {time.monotonic() - start:5.0f} s  {fault.id}  {fault.show()}")
    return True


def report(tally, survivors):
    say("")
    say(f"{'room':12} {'found':>6} {'of':>4}")
    for room, (found, total) in sorted(tally.items()):
        say(f"{room:12} {found:6} {total:4} {100 * found // total:4} %")
    say(f"{'all':12} {sum(f for f, _ in tally.values()):6} {sum(t for _, t in tally.values()):4}")
    if survivors:
        say("\nnot found; each is tried again with script/mutate --only ID")
    for fault in survivors:
        say(f"  {fault.id}\n      {fault.show()}")


def why_void(left_out, bare):
    """Why a trial says nothing about the tests, or None. Of `bare` rooms, no test was left."""
    reasons = [f"no test of room {room} is left" for room in bare]
    if len(left_out) > LEFT_OUT_MAX:
        reasons.append(f"{len(left_out)} tests fail here without any fault and were left out: {', '.join(sorted(left_out))}")
    return "; ".join(reasons) or None


def chosen_rooms(args, all_rooms):
    if args.file:
        files = [os.path.relpath(os.path.abspath(p), args.source) if os.path.isabs(p) else p for p in args.file]
        unknown = [p for p in files if rooms.room_of(p) is None or p not in all_rooms[rooms.room_of(p)]]
        if unknown:
            sys.exit(f"mutate: {unknown[0]} is no C file of a room outside of the cores")
        return {r: [p for p in files if rooms.room_of(p) == r] for r in sorted({rooms.room_of(p) for p in files})}
    unknown = [r for r in args.room or () if r not in all_rooms]
    if unknown:
        sys.exit(f"mutate: no room {unknown[0]}; there are {', '.join(all_rooms)}")
    return {r: all_rooms[r] for r in args.room} if args.room else all_rooms


def main():
    args = arguments()
    shop = workshop.Workshop(args.source, os.path.realpath(args.dir), say)
    shop.copy_tree()
    mine = chosen_rooms(args, rooms.rooms_of(shop.tree))
    shares = share(args.count, list(mine))
    tally, survivors = {}, []
    end = time.monotonic() + 60 * args.minutes
    only = [fault_of_id(text, shop.read) for text in args.only or ()]
    if args.list:
        for room, files in mine.items():
            draw = Draw(room, files, shop.read, args.seed)
            for fault in (draw.next() for _ in range(shares[room])):
                if fault is not None:
                    say(f"{fault.id}  {fault.show()}")
        return 0
    shop.prepare()
    if only:
        for fault in only:
            if not judge(shop, fault, tally, survivors):
                say(f"{fault.id}: does not compile, or is the same program")
    else:
        draws = {room: Draw(room, files, shop.read, args.seed) for room, files in mine.items()}
        for room in in_turn(shares):
            if time.monotonic() > end:
                say(f"stopped after {args.minutes} minutes")
                break
            while (fault := draws[room].next()) is not None and not judge(shop, fault, tally, survivors):
                pass
    report(tally, survivors)
    void = why_void(shop.left_out, [room for room in sorted(tally) if not shop.has_tests(room)])
    if void:
        say(f"\nVOID, the numbers above say nothing: {void}")
        return 2
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
