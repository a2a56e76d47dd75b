# SPDX-License-Identifier: MIT
"""The file of a comparison, and the one statistic that everything in it goes by.

A turn is one participant's part of one round: warm-up, then BLOCKS blocks of a number of steps that
is the same for everyone. A block's figure is its time over its steps, with one wait at its end: the
mean step. A participant's figure is the median over all blocks of all its rounds. Nothing else is
compared with anything.

The file has one JSON object a line. A session that measures writes a line `machine` first, then
each turn as soon as it ended, so that one cut off goes on where it was. Turns are known by KEY and
`round`; `blocks_ms` are the blocks, `error` stands in their place where a participant failed.
"""

import json
import math
import os
import pathlib
import platform
import statistics

BLOCKS = 5  # of a turn
OUT_OF_REACH = 2  # times the fastest peer of round 1: not run again
KEY = ("part", "model", "batch", "name", "cores")
# what must not change between sessions that share a file
SAME = ("cpu", "lockstep", "isa")
# vendor, family, model in /proc/cpuinfo
PROCESSORS = {
    ("GenuineIntel", 6, 143): "intel-xeon-sapphire-rapids",
    ("GenuineIntel", 6, 207): "intel-xeon-emerald-rapids",
    ("AuthenticAMD", 25, 17): "amd-epyc-zen4",
    ("AuthenticAMD", 26, 2): "amd-epyc-zen5",
    ("AuthenticAMD", 26, 17): "amd-epyc-zen5",
}


class FileError(Exception):
    """The file cannot be used; the text says why and what would work."""


def cpu_fields():
    """The first processor of /proc/cpuinfo."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def processor():
    """A name for files: this machine's processor."""
    fields = cpu_fields()
    try:
        key = (fields["vendor_id"], int(fields["cpu family"]), int(fields["model"]))
    except (KeyError, ValueError):
        return platform.machine()
    return PROCESSORS.get(key, "-".join(map(str, key)).lower())


def cpu_text():
    """The processor as rows name it, with what tells it from others of that name."""
    fields = cpu_fields()
    name = fields.get("model name", platform.machine())
    parts = [f"{word} {fields[word]}" for word in ("cpu family", "model", "stepping") if word in fields]
    return f"{name} ({', '.join(parts)})" if parts else name


class Rounds:
    """The turns of one file."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.machines, self.turns = [], {}
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            if not line.endswith("\n"):  # the session ended within it
                os.truncate(self.path, len(text.encode()) - len(line.encode()))
                break
            try:
                self.take_in(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise FileError(f"{path}:{number}: not a line of rounds; name another file") from None

    def take_in(self, line):
        """One line of the file."""
        if "machine" in line:
            self.machines.append(line["machine"])
        else:
            self.turns.setdefault(tuple(line[name] for name in KEY), {})[line["round"]] = line

    def append(self, line):
        """Keeps a line, on disk before anything else happens."""
        self.take_in(line)
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def begin(self, machine):
        """A session that measures; machine is what it measures with."""
        for before in self.machines:
            for name in SAME:
                if before.get(name) != machine.get(name):
                    raise FileError(
                        f"{self.path}: {name}: holds rounds of {before.get(name)}, and this is "
                        f"{machine.get(name)}; name another file"
                    )
            for peer, info in machine["peers"].items():
                if before["peers"].get(peer, info) != info:
                    raise FileError(f"{self.path}: {peer}: holds rounds of {before['peers'][peer]}, "
                                    f"and this is {info}; name another file")
        self.append({"machine": machine})

    def add(self, key, turn, blocks, **more):
        """A turn that has ended."""
        self.append({**dict(zip(KEY, key)), "round": turn, "blocks_ms": blocks, **more})

    def fail(self, key, turn, why):
        """A turn that a participant could not take."""
        self.append({**dict(zip(KEY, key)), "round": turn, "error": why})

    def has(self, key, turn):
        """Whether the turn has been taken, or an earlier one failed."""
        turns = self.turns.get(key, {})
        return turn in turns or any("error" in line for line in turns.values())

    def failed(self):
        """[(key, why)] of those who failed."""
        return [(key, line["error"]) for key, turns in self.turns.items()
                for line in turns.values() if "error" in line]

    def rounds(self, key):
        """How many rounds have figures."""
        return sum("blocks_ms" in line for line in self.turns.get(key, {}).values())

    def blocks(self, key):
        """All blocks of all rounds, in ms a step."""
        turns = self.turns.get(key, {}).values()
        return [ms for line in turns for ms in line.get("blocks_ms", ())]

    def figure(self, key):
        """The statistic, in ms a step; NaN where there is none."""
        return figure(self.blocks(key))

    def keys(self, part):
        """The keys of a part, in the order of the file."""
        return [key for key in self.turns if key[0] == part]


def figure(blocks):
    """The median over the blocks."""
    return statistics.median(blocks) if blocks else math.nan


def distribution(blocks):
    """step_ms of a row, of blocks."""
    tenths = statistics.quantiles(blocks, n=10, method="inclusive")
    return {
        "median": figure(blocks), "mean": statistics.mean(blocks),
        "p10": tenths[0], "p90": tenths[-1], "n": len(blocks),
    }
