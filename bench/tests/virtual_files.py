#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a trace of virtual steps, and plays their graph in GOAL and of Chakra's traces:
virtual_files.py TRACE GOAL CHAKRA LATENCY_NS NS_PER_BYTE.

A message takes latency and bytes, a device has a port each way, first come, first served; it starts when both its ends
are ready. Prints what it found, as an object of JSON.
"""
import heapq, json, re, sys
from collections import defaultdict
from pathlib import Path

events = json.load(open(sys.argv[1]))["traceEvents"]
lanes, flows = defaultdict(list), defaultdict(set)
for e in events:
    if e["ph"] == "X":
        lanes[e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    elif e["ph"] in "sf":
        flows[e["id"]].add(e["ph"])
slices = [sorted(lane) for lane in lanes.values()]
overlaps = sum(b[0] < a[1] - 1e-3 for lane in slices for a, b in zip(lane, lane[1:]))

latency, per_byte = float(sys.argv[4]), float(sys.argv[5])


def play(calcs, messages, needs, name_of):
    """When the last of all ends, in ms. Both ends of a message are one activity."""
    after, waits = defaultdict(list), defaultdict(int)
    for before, then in needs:
        a, b = name_of.get(before, before), name_of.get(then, then)
        after[a].append(b)
        waits[b] += 1
    ready = [(0.0, 0, str(x), x) for x in list(calcs) + list(messages) if not waits[x]]
    heapq.heapify(ready)
    out, into, last = defaultdict(float), defaultdict(float), 0.0
    while ready:
        now, ended, _, x = heapq.heappop(ready)
        if not ended:
            if x in calcs:
                end = now + calcs[x]
            else:
                m = messages[x]
                end = max(now, out[m["send"]], into[m["recv"]]) + m["bytes"] * per_byte
                out[m["send"]] = into[m["recv"]] = end
                end += latency
            heapq.heappush(ready, (end, 1, str(x), x))
            continue
        last = max(last, now)
        for y in after[x]:
            waits[y] -= 1
            if not waits[y]:
                heapq.heappush(ready, (now, 0, str(y), y))
    assert not any(waits.values()), "some never end"
    return last / 1e6


def read_goal(path):
    calcs, messages, needs, name_of = {}, defaultdict(dict), [], {}
    rank = 0
    for line in open(path):
        words = line.split()
        if line.startswith("rank"):
            rank = int(words[1])
        elif " requires " in line:
            needs.append(((rank, words[2]), (rank, words[0])))
        elif re.match(r"\w+: calc", line):
            calcs[(rank, words[0][:-1])] = float(words[2])
        elif re.match(r"\w+: (send|recv)", line):
            tag = int(words[6])
            messages[tag].update({words[1]: rank, "bytes": float(words[2][:-1])})
            name_of[(rank, words[0][:-1])] = tag
    return calcs, messages, needs, name_of


# Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto): names of fields that traces of steps have.
METADATA, NODE = {1: "version"}, {1: "id", 2: "name", 3: "type", 5: "data_deps", 7: "duration_micros", 10: "attr"}
ATTRIBUTE = {1: "name", 7: "int32_val", 9: "int64_val", 27: "bool_val"}
TYPES = {"is_cpu_op": "bool_val", "comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val",
         "comm_size": "int64_val"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data, names):
    """(name, number or bytes) of each field of a message of protocol buffers; an unknown one fails."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert key & 7 == 0, f"wire type {key & 7}"
        yield names[key >> 3], value


def read_chakra(folder):
    calcs, messages, needs, name_of = {}, defaultdict(dict), [], {}
    files = list(Path(folder).glob("steps.*.et"))
    for rank in range(len(files)):
        data = (Path(folder) / f"steps.{rank}.et").read_bytes()
        size, at = varint(data, 0)
        assert dict(fields(data[at:at + size], METADATA)) == {"version": b"0.0.4"}
        at += size
        ids, waited = set(), set()
        while at < len(data):
            size, at = varint(data, at)
            node, deps, attributes = {}, [], {}
            for name, value in fields(data[at:at + size], NODE):
                if name == "data_deps":
                    i = 0
                    while isinstance(value, bytes) and i < len(value):
                        dep, i = varint(value, i)
                        deps.append(dep)
                    deps += [] if isinstance(value, bytes) else [value]
                elif name == "attr":
                    attribute = dict(fields(value, ATTRIBUTE))
                    key = attribute["name"].decode()
                    attributes[key] = attribute[TYPES[key]]
                else:
                    node[name] = value
            at += size
            me = (rank, node["id"])
            assert node["id"] not in ids
            ids.add(node["id"])
            waited |= set(deps)
            needs += [((rank, dep), me) for dep in deps]
            if node["type"] == 4:
                calcs[me] = 1e3 * node["duration_micros"]
                continue
            end = {5: "send", 6: "recv"}[node["type"]]
            assert attributes[{"send": "comm_src", "recv": "comm_dst"}[end]] == rank and not attributes["is_cpu_op"]
            tag = attributes["comm_tag"]
            messages[tag].update({end: rank, "bytes": attributes["comm_size"],
                                  f"{end}_to": (attributes["comm_src"], attributes["comm_dst"])})
            name_of[me] = tag
        assert waited <= ids, "waits for a node that is not there"
    assert all(m["send_to"] == m["recv_to"] for m in messages.values())
    return calcs, messages, needs, name_of


goal, chakra = read_goal(sys.argv[2]), read_chakra(sys.argv[3])
ends = [sum(end in m for m in goal[1].values()) for end in ("send", "recv")]
print(json.dumps({"overlaps": overlaps, "flows": len(flows), "sends": ends[0], "receives": ends[1],
                  "unmatched": sum(ends != {"s", "f"} for ends in flows.values()),
                  "trace_ms": max(b for lane in slices for _, b in lane) / 1e3, "goal_ms": play(*goal),
                  "chakra_ms": play(*chakra), "chakra_messages": len(chakra[1])}))
