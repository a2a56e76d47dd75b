#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the tables of results/README.md from the committed rows.

results_tables.py [--check]: a table stands between `<!-- table: NAME FILE.. -->` and `<!-- end -->`. Each is made anew
from the files, which lie in results/. With --check nothing is written, and a table that differs ends with status 1.
Names are the functions of TABLES.
"""
import math
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/peers"))

import rounds as book  # noqa: E402
import tables  # noqa: E402

README = ROOT / "results/README.md"
PLACE = re.compile(r"(<!-- table: (\S+) ([^>]*?) -->\n).*?(<!-- end -->)", re.S)
GPU_PEERS = {"torch-cuda": "PyTorch", "torch-graph-cuda": "PyTorch, one graph", "jax-cuda": "JAX"}


def rows_of(name):
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in (ROOT / "results" / name).read_text(encoding="utf-8").splitlines()]


def rounds_of(name):
    """The turns of a file of rounds."""
    return book.Rounds(ROOT / "results" / name)


def without_empty(text):
    """A table without the columns that have no cell, and without the number of rounds, which the page states."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    kept = [i for i in range(len(cells[0])) if cells[0][i] != "rounds" and any(row[i] for row in cells[2:])]
    return tables.markdown([cells[0][i] for i in kept], [[row[i] for i in kept] for row in cells[2:]])


def one_core(name):
    """Lockstep and each framework's fastest variant on one core, with the floor."""
    return without_empty(tables.summary(rounds_of(name)))


def bf16(name):
    """Lockstep in both precisions on one core, and the peers in bf16."""
    return without_empty(tables.narrow(rounds_of(name)))


def two_cores(name):
    """Strategies and peers on two cores."""
    return tables.pairs_table(rounds_of(name))


def placed(name):
    """Threads next to processes."""
    return tables.processes_table(rounds_of(name)).split("\n\n")[0]


def gpu(name, alone):
    """Lockstep and its peers in turns on a GPU, and Lockstep's later rows, measured alone. Where a peer took several
    turns, the last counts: it is from the run in which Lockstep took part."""
    turns = rounds_of(name)
    later = {(row["case"]["model"], row["case"]["batch_global"]): row["time"]["step_ms"]["median"]
             for row in rows_of(alone)
             if row["case"]["strategy"] == "single" and row["case"]["math"] == "float32" and not row.get("label")}
    cases = dict.fromkeys([key[1:3] for key in turns.keys("gpu")] + list(later))
    peers = [peer for peer in GPU_PEERS if any(key[3] == peer for key in turns.keys("gpu"))]
    lines = []
    for case in cases:
        own, *others = (turns.figure(("gpu", *case, who, 1)) for who in ("lockstep", *peers))
        alone_ms = later.get(case, float("nan"))
        fastest = min((value for value in others if value == value), default=float("nan"))
        lines.append([f"`{case[0]}`", str(case[1]), *map(tables.milliseconds, (own, *others)),
                      tables.quotient(fastest / own), tables.milliseconds(alone_ms),
                      tables.quotient(fastest / alone_ms)])
    return tables.markdown(["model", "batch", "Lockstep", *(GPU_PEERS[p] for p in peers), "fastest peer / Lockstep",
                            "later, alone", "ratio"], lines)


def logical(name):
    """One global batch on 1 to 8 logical devices of a GPU: ms."""
    found = {(row["case"]["strategy"], len(row["case"]["devices"])): row["time"]["step_ms"]["median"]
             for row in rows_of(name) if row.get("label") == "logical" and row["case"]["strategy"] != "single"}
    counts = sorted({devices for _, devices in found})
    lines = [[f"`{strategy}`", *(tables.milliseconds(found[strategy, n]) for n in counts)]
             for strategy in sorted({strategy for strategy, _ in found})]
    return tables.markdown(["devices", *map(str, counts)], lines)


def idle(name):
    """A pipeline's idle share, measured, and by the closed form of the measured passes."""
    found = {(row["case"]["pipeline_schedule"], row["case"]["pipeline_microbatches"]): row["pipeline"]
             for row in rows_of(name)}
    schedules = list(dict.fromkeys(schedule for schedule, _ in found))
    lines = [[str(count), *(f"{found[schedule, count]['bubble']:.3f} / {found[schedule, count]['bubble_formula']:.3f}"
                            for schedule in schedules)] for count in sorted({count for _, count in found})]
    return tables.markdown(["micro-batches", *schedules], lines)


def published(name):
    """Errors of predicted figures by set, of the rows that fitted nothing."""
    sets = {}
    for row in rows_of(name):
        if row["role"] == "test":
            sets.setdefault(row["id"].split("-")[0], []).append(100 * (row["predicted"] / row["published"] - 1))
    sets["all"] = [error for errors in sets.values() for error in errors]
    lines = [[name, str(len(errors)), f"{statistics.mean(map(abs, errors)):.1f}", f"{max(errors, key=abs):+.1f}"]
             for name, errors in sets.items()]
    return tables.markdown(["set", "figures", "mean error, %", "largest"], lines)


def predicted(name):
    """Measured steps, and the error of their predictions, by devices."""
    found = {}
    for row in rows_of(name):
        case, kind = row["case"], "predicted" if "prediction" in row else "measured"
        key = (case["strategy"], case.get("allreduce", ""), len(case["devices"]))
        found.setdefault(key, {})[kind] = row["time"]["step_ms"]["median"]
    both = {key: pair for key, pair in found.items() if len(pair) == 2}
    counts = sorted({key[2] for key in both})
    lines = []
    for key in dict.fromkeys(key[:2] for key in both):
        cells = [f"{tables.milliseconds(both[key + (n,)]['measured'])} "
                 f"({100 * (both[key + (n,)]['predicted'] / both[key + (n,)]['measured'] - 1):+.1f}%)" for n in counts]
        lines.append([" ".join(f"`{word}`" for word in key if word), *cells])
    return tables.markdown(["devices", *map(str, counts)], lines)


def kind_of(row):
    """Whether devices share cores, and then, whether the step is busy."""
    return row["shared"], row["shared"] and row["busy"]


def error_of(rows, kind, machine):
    """Half the width, in logarithms, that the program gives a kind of case without a machine (validated.c)."""
    errors = sorted(abs(math.log(row["measured_ms"] / row["predicted_ms"])) for row in rows
                    if kind_of(row) == kind and row["machine"] != machine)
    at = 0.9 * (len(errors) - 1)
    low = errors[int(at)]
    return low + (at - int(at)) * (errors[math.ceil(at)] - low)


def validated(name):
    """Errors of predictions by machine, and how many intervals hold that only know the other machines."""
    rows = rows_of(name)
    lines = []
    for machine in dict.fromkeys(row["machine"] for row in rows):
        own = [row for row in rows if row["machine"] == machine]
        errors = [100 * (row["predicted_ms"] / row["measured_ms"] - 1) for row in own]
        widths = {kind: error_of(rows, kind, machine) for kind in {kind_of(row) for row in own}}
        held = [abs(math.log(row["measured_ms"] / row["predicted_ms"])) <= widths[kind_of(row)]
                for row in own]
        alone, shared = ([100 * math.expm1(width) for (is_shared, _), width in widths.items() if is_shared == which]
                         for which in (False, True))
        lines.append([machine, str(len(own)), f"{statistics.median(map(abs, errors)):.1f}",
                      f"{max(errors, key=abs):+.1f}", f"{100 * statistics.mean(held):.0f}",
                      *(f"{min(each):.0f} to {max(each):.0f}" if each else "-" for each in (alone, shared))])
    return tables.markdown(["machine", "cases", "median error, %", "largest", "intervals held, %",
                            "half width, own cores, %", "shared cores, %"], lines)


TABLES = {function.__name__.replace("_", "-"): function
          for function in (one_core, bf16, two_cores, placed, gpu, logical, idle, published, predicted,
                           validated)}


def main():
    """Renews the tables, or compares them."""
    text = README.read_text(encoding="utf-8")
    made = PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]](*m[3].split())}\n{m[4]}", text)
    if made == text:
        return
    if "--check" not in sys.argv[1:]:
        README.write_text(made, encoding="utf-8")
        return
    for number, (line, new) in enumerate(zip(text.splitlines(), made.splitlines()), 1):
        if line != new:
            sys.exit(f"{README.name}:{number}: the rows give \"{new}\", not \"{line}\"; run ci/results-tables.sh")
    sys.exit(f"{README.name}: a table has fewer lines than its rows give; run ci/results-tables.sh")


main()
