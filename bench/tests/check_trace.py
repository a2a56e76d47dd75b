#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks trace files against bench/timing.md. Prints a line for each error; exit status 1 if there is one. Use:
check_trace.py FILE [MESSAGES], where MESSAGES is the number per step (traffic.messages_sent of a row).
"""
import collections
import json
import sys

TOLERANCE = 0.01  # of the step, for sums against the file's own totals
PARTS = {"compute": "compute_ms", "backward": "compute_ms", "communication": "comm_exposed_ms", "wait": "wait_ms",
         "copy": "copy_ms", "optimizer": "optimizer_ms"}


def need(condition, text):
    if not condition:
        sys.exit(f"check_trace: {sys.argv[1]}: {text}")


def ns(microseconds):
    return round(microseconds * 1000)


def read(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    slices, flows = collections.defaultdict(list), collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            need(e["cat"] in PARTS, f"category {e['cat']}")
            need({"layer", "bytes", "flops"} <= set(e["args"]), f"args of {e['name']}")
            slices[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e))
        elif e["ph"] in "sf":
            flows[e["id"]].append(e)
        else:
            need(e["ph"] == "M", f"phase {e['ph']}")
    return trace, slices, flows


def check_slices(slices):
    for lane, items in slices.items():
        items.sort(key=lambda item: item[:2])
        for before, after in zip(items, items[1:]):
            need(before[1] <= after[0], f"{lane}: {before[2]} and {after[2]} overlap")


def check_flows(slices, flows, messages, steps):
    for number, ends in flows.items():
        need(sorted(e["ph"] for e in ends) == ["f", "s"], f"flow {number} has not one end of each kind")
        start, end = sorted(ends, key=lambda e: e["ph"] != "s")
        need(start["args"]["bytes"] == end["args"]["bytes"] > 0, f"flow {number}: bytes")
        for e in ends:
            at = ns(e["ts"])
            need(any(b <= at < t for b, t, _ in slices[e["pid"], e["tid"]]), f"flow {number} is in no slice")
        need(ns(start["ts"]) <= ns(end["ts"]) + 1000 * clock_error(), f"flow {number} comes before it goes")
    if messages is not None:
        need(len(flows) == messages * steps, f"{len(flows)} messages, and {messages} in each of {steps} steps")


def clock_error():
    return 2 * max(c["error_us"] for c in other["clocks"])


def check_waterfall(slices, step):
    sums, steps = collections.Counter(), other["steps"]
    queues = [(q["pid"], q["tid"]) for q in other["main_queues"]]
    need(queues and len(set(queues)) == len(queues), "main queues")
    for queue in queues:
        left = step * steps * 1e6
        for begin, end, e in slices[queue]:
            sums[PARTS[e["cat"]]] += end - begin
            left -= end - begin
        sums["harness_ms"] += left
    for name in set(sums) | set(other["waterfall"]):
        mine, said = sums[name] / steps / len(queues) / 1e6, other["waterfall"].get(name, 0)
        need(abs(mine - said) <= TOLERANCE * step, f"{name} is {said} ms, and the slices say {mine}")
    whole = sum(other["waterfall"].values())
    need(abs(whole - step) <= TOLERANCE * step, f"the parts are {whole} ms of a step of {step}")


def check_path(slices, step):
    path = sorted((b, t) for items in slices.values() for b, t, e in items if e["args"].get("critical"))
    said = other["critical_path"]
    need(path, "nothing is critical")
    shared = sum(max(0, a[1] - b[0]) for a, b in zip(path, path[1:]))
    need(shared <= 2 * 1000 * clock_error() * len(path), f"slices of the critical path overlap by {shared} ns")
    length = sum(t - b for b, t in path) / other["steps"] / 1e6
    need(length <= step * (1 + TOLERANCE), f"the critical path works {length} ms of a step of {step}")
    parts = sum(v for k, v in said.items() if k != "length_ms")
    need(abs(parts - said["length_ms"]) <= TOLERANCE * step, f"its parts are {parts} ms of {said['length_ms']}")
    need(said["length_ms"] <= step * (1 + 1e-6), "it is longer than the step")
    if other["case"].get("ps_mode", "sync") == "sync" and not other["case"].get("ps_backup_workers"):
        need(said["length_ms"] >= step * (1 - TOLERANCE), f"it is {said['length_ms']} ms of a step of {step}")


trace, slices, flows = read(sys.argv[1])
other = trace["otherData"]
check_slices(slices)
check_flows(slices, flows, int(sys.argv[2]) if len(sys.argv) > 2 else None, other["steps"])
check_waterfall(slices, other["step_ms"])
check_path(slices, other["step_ms"])
