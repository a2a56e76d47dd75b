#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a trace of virtual steps, and plays a graph in GOAL: virtual_files.py TRACE GOAL LATENCY_NS NS_PER_BYTE.

A message takes latency and bytes, a device has a port each way, first come, first served; it starts when both its ends
are ready. Prints what it found, as an object of JSON.
"""
import heapq, json, re, sys
from collections import defaultdict

events = json.load(open(sys.argv[1]))["traceEvents"]
lanes, flows = defaultdict(list), defaultdict(set)
for e in events:
    if e["ph"] == "X":
        lanes[e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    elif e["ph"] in "sf":
        flows[e["id"]].add(e["ph"])
slices = [sorted(lane) for lane in lanes.values()]
overlaps = sum(b[0] < a[1] - 1e-3 for lane in slices for a, b in zip(lane, lane[1:]))

latency, per_byte = float(sys.argv[3]), float(sys.argv[4])
calcs, messages, needs = {}, defaultdict(dict), []
rank, counts = 0, {"send": 0, "recv": 0}
name_of = {}
for line in open(sys.argv[2]):
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
        counts[words[1]] += 1

# Both ends of a message are one activity.
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
print(json.dumps({"overlaps": overlaps, "flows": len(flows), "sends": counts["send"], "receives": counts["recv"],
                  "unmatched": sum(ends != {"s", "f"} for ends in flows.values()),
                  "trace_ms": max(b for lane in slices for _, b in lane) / 1e3, "goal_ms": last / 1e6}))
