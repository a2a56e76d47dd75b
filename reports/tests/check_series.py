# SPDX-License-Identifier: MIT
"""Holds the data of a picture against the rows: check_series.py DATA.tsv ROWS.jsonl...

Every figure is looked up in the rows again, by another way than series.py's; every strategy that
the rows have must be there.
"""

import json
import sys


def fail(text):
    """Ends with one line."""
    sys.exit(f"FAILED: {text}")


def check_scaling(lines, rows):
    """Each line against the row of 512 samples that has the same median step."""
    names = [line[0] for line in lines]
    for name in ("single", "towers", "mirrored", "independent"):
        if names.count(name) != 1:
            fail(f"scaling: {name} is there {names.count(name)} times")
    for name, *fields in lines:
        for devices, (middle, low, high) in ((1, fields[:3]), (2, fields[3:6])):
            if name == "single" and devices == 2:
                continue
            matches = [
                row for row in rows
                if row["case"]["strategy"] == name and len(row["case"]["devices"]) == devices
                and row["case"]["scaling"] == "strong" and "efficiency" in row["time"]
                and row["case"]["batch_global"] == 512
            ]
            step = matches[-1]["time"]["step_ms"]
            for text, field in ((middle, "median"), (low, "p90"), (high, "p10")):
                if abs(float(text) * step[field] / 512e3 - 1) > 1e-5:
                    fail(f"scaling: {name} on {devices}: {text} is not the row's {field}")
            if not float(low) < float(middle) < float(high):
                fail(f"scaling: {name} on {devices}: {low}, {middle}, {high} do not rise")
        if name != "single":
            expected = matches[-1]["time"]["efficiency"]
            if abs(float(fields[6]) - expected) > 1e-4:
                fail(f"scaling: {name}: efficiency {fields[6]} is not the row's {expected}")


def check_growth(lines, rows):
    """1 to 64 towers of every kind; nodes and bytes are the rows'; a replica's stay as they are."""
    towers = ["1", "2", "4", "8", "16", "32", "64"]
    for name in ("towers", "mirrored", "TensorFlow 1 graph"):
        if [line[1] for line in lines if line[0] == name] != towers:
            fail(f"growth: {name}: not {', '.join(towers)} towers")
    for name, count, nodes, own, size, build in lines:
        same = [
            row for row in rows if len(row["case"]["devices"]) == int(count)
            and row.get("peer", {}).get("what", row["case"]["strategy"]) == name
        ]
        if {int(nodes)} != {row["program"]["nodes"] for row in same}:
            fail(f"growth: {name}, {count}: {nodes} nodes are not the rows'")
        if name == "mirrored" and int(own) > 12:
            fail(f"growth: a replica's program has {own} nodes among {count}")
        if "peer" in same[0]:
            continue
        if {int(size)} != {row["program"]["bytes"] for row in same}:
            fail(f"growth: {name}, {count}: {size} bytes are not the rows'")
        times = sorted(row["time"]["build_ms"] for row in same)
        if abs(float(build) - times[len(times) // 2]) > 1e-6:  # an odd number of seeds
            fail(f"growth: {name}, {count}: {build} ms are not the rows' median")


def main(data, *paths):
    """Which of the two it is, the columns tell."""
    with open(data, encoding="utf-8") as stream:
        lines = [line.rstrip("\n").split("\t") for line in stream]
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            rows += [json.loads(line) for line in stream]
    check = check_growth if "towers" in lines[1] else check_scaling
    check(lines[2:], rows)


main(*sys.argv[1:])
