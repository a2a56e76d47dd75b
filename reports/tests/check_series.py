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


def check_stragglers(lines, rows):
    """Every mode at every delay; figures are the medians of the rows', slopes those of lines drawn
    through the first and the last delay, nearly."""
    ends = {}
    for name, delay, middle, low, high, step in (line for line in lines if line != [""]):
        mode = name.split(" (")[0]
        asked = {"sync": ("sync", 0), "sync, 1 backup": ("sync", 1), "ssp 4": ("ssp", None),
                 "async": ("async", None)}[mode]
        inject = None if delay == "0" else f"delay=3:{delay}ms"
        same = [row for row in rows if row["case"].get("inject") == inject
                and (row["case"]["ps_mode"], row["case"].get("ps_backup_workers")) == asked]
        medians = sorted(row["time"]["step_ms"]["median"] for row in same)
        if len(same) % 2 != 1 or abs(float(step) - medians[len(same) // 2]) > 1e-6:
            fail(f"stragglers: {mode}, {delay} ms: {step} ms is not the rows' median")
        seconds = sorted(row["train"].get("seconds_to_target", -1) for row in same)
        expected = [seconds[len(same) // 2], seconds[0], seconds[-1]]
        if seconds[0] < 0:
            expected = ["-"] * 3
        elif any(abs(float(a) - b) > 1e-6 for a, b in zip((middle, low, high), expected)):
            fail(f"stragglers: {mode}, {delay} ms: {middle}, {low}, {high} are not the rows'")
        ends.setdefault(mode, [float(name.split()[-1][:-1])]).append((float(delay), float(step)))
    if {len(points) for points in ends.values()} != {5} or len(ends) != 4:
        fail("stragglers: not four modes at four delays")
    for mode, (slope, (x0, y0), *_, (x1, y1)) in ends.items():
        if abs(slope - (y1 - y0) / (x1 - x0)) > 0.1:
            fail(f"stragglers: {mode}: slope {slope} is not that of its ends")


def check_training(lines, rows):
    """Each line against its rows, of which there are as many as its model has seeds; it learns."""
    for name, steps, *figures in lines:
        same = sorted(
            row["train"]["accuracy"] for row in rows
            if (row["case"]["model"], row["case"]["steps"]) == (name, int(steps))
        )
        expected = [same[len(same) // 2], same[0], same[-1]]  # an odd number of seeds
        if any(abs(float(text) - value) > 1e-6 for text, value in zip(figures, expected)):
            fail(f"training: {name}, {steps}: {figures} are not the rows' {expected}")
    for model in {row["case"]["model"] for row in rows}:
        wanted = len({row["case"]["steps"] for row in rows if row["case"]["model"] == model})
        values = [float(line[2]) for line in lines if line[0] == model]
        if len(values) != wanted or max(values[1:]) <= values[0]:
            fail(f"training: {model}: {len(values)} points of {wanted}, or it learns nothing")


def check_pipeline(lines, rows):
    """Both schedules; shares and bytes are the rows'; GPipe holds the same, 1F1B less and less."""
    for name, microbatches, *figures in lines:
        (row,) = [
            row for row in rows if row["case"]["pipeline_schedule"] == name
            and row["case"]["pipeline_microbatches"] == int(microbatches)
        ]
        m, p = int(microbatches), len(row["case"]["devices"])
        first = row["memory"]["devices"][0]
        expected = [
            row["pipeline"]["bubble"], row["pipeline"]["bubble_formula"], (p - 1) / (m + p - 1),
            first["activations"], first["formula"]["activations"],
        ]
        if any(abs(float(text) - value) > 1e-6 for text, value in zip(figures, expected)):
            fail(f"pipeline: {name}, {microbatches}: {figures} are not the rows' {expected}")
    held = {name: [int(line[5]) for line in lines if line[0] == name] for name in ("gpipe", "1f1b")}
    if len(set(held["gpipe"])) != 1 or sorted(held["1f1b"], reverse=True) != held["1f1b"]:
        fail(f"pipeline: activations are {held}")


def main(data, *paths):
    """Which of them it is, the columns tell."""
    with open(data, encoding="utf-8") as stream:
        lines = [line.rstrip("\n").split("\t") for line in stream]
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            rows += [json.loads(line) for line in stream]
    checks = {
        "towers": check_growth, "delay_ms": check_stragglers, "accuracy": check_training,
        "bubble": check_pipeline,
    }
    found = [check for column, check in checks.items() if column in lines[1]]
    (found[0] if found else check_scaling)(lines[2:], rows)


main(*sys.argv[1:])
