#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a copy of a source file with what hooks.txt says: plant.py FILE COPY; or, as planted.h, the list of bugs:
plant.py planted.h COPY. Without arguments, only checks that each text to replace is there once. Lines of a copy keep
their numbers."""
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).with_name("hooks.txt")
ROOT = TABLE.parents[2]
PAGE = ROOT / "impl/strategies/compositions.md"


def fail(line, why):
    sys.exit(f"{TABLE.relative_to(ROOT)}:{line}: {why}")


def read_table():
    """Bugs and hooks, by name, each with what it is; and the replacements: (line, name, file, old text, new text)."""
    bugs, hooks, replacements, name, file, last = {}, {}, [], None, None, None
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        key, _, text = line.partition(" ")
        if key in ("bug", "hook"):
            name, _, what = text.partition(": ")
            if not re.fullmatch(r"[a-z_0-9]+", name) or not what or name in bugs or name in hooks:
                fail(number, f"{name}: is not a new {key}; give a name of its own, and after a colon what it is")
            (bugs if key == "bug" else hooks)[name], file = what, None
        elif key == "in" and name:
            file = text
        elif key == "-" and file and last == "-":
            replacements[-1][3] += " " + text
        elif key == "-" and file:
            replacements.append([number, name, file, text, ""])
        elif key == "+" and last in ("-", "+"):
            replacements[-1][4] += " " + text.strip()
        elif line and key != "#":
            fail(number, f"{line}: is not a line of this table; its top says what lines it has")
        last = key
    for number, name, _, _, new in replacements:
        if name in bugs and "PLANTED" not in new:
            fail(number, f"{name}: is always there; write PLANTED where the new text decides")
    for name in re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.M):
        if name not in bugs:
            fail(1, f"{name}: {PAGE.name} has a bug that this table does not have; rename it there, or remove it")
    return bugs, replacements


def find(text, replacement):
    """Where the old text is: once, with any spaces where it has one."""
    number, name, file, old, _ = replacement
    places = list(re.finditer(r"\s+".join(map(re.escape, old.split())), text))
    if len(places) != 1:
        fail(number, f"{name}: {file} has this text {len(places)} times, not once; write what stands there now: {old}")
    return places[0]


def plant(file, replacements):
    path = ROOT / file
    if not path.is_file():
        fail(min(r[0] for r in replacements if r[2] == file), f"{file}: does not exist")
    text, copy, end = path.read_text(), "", 0
    for place, r in sorted(((find(text, r), r) for r in replacements if r[2] == file), key=lambda p: p[0].start()):
        if place.start() < end:
            fail(r[0], f"{r[1]}: replaces what another one replaces, too; choose texts that do not overlap")
        new = re.sub(r"\bPLANTED\b", f"ls_hooks_planted(LS_PLANT_{r[1]})", r[4].strip())
        copy += text[end : place.start()] + new + "\n" * place[0].count("\n")
        end = place.end()
    return f'#include "common/base/tests/hooks.h"\n#line 1 "{file}"\n{copy}{text[end:]}'


def main():
    bugs, replacements = read_table()
    copies = {file: plant(file, replacements) for file in {r[2] for r in replacements}}
    entries = [f"    BUG({bug}) /* {what} */ \\\n" for bug, what in bugs.items()]
    copies["planted.h"] = "/* Written by plant.py. */\n#define LS_PLANTED_BUGS(BUG) \\\n" + "".join(entries) + "\n"
    if len(sys.argv) == 3:
        pathlib.Path(sys.argv[2]).write_text(copies[sys.argv[1]])


main()
