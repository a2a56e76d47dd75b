#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a step of a pipeline by stages as SVG: TRACE.json [STEP] >step.svg. The trace is one of `lockstep trace --out`,
or of `lockstep predict --trace`. A box is a pass over a micro-batch, whose number it has; weight passes are those that
a schedule has apart. Leaves out messages and updates; stages with more than one device each."""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP = 960, 30, 70, 26
COLOURS = {"forward": "#4477aa", "backward": "#66ccee", "weights": "#228833"}


def passes_of(events, step):
    """{lane: [[kind, micro-batch, begin, end], ..]}: slices of one pass, one after the other, are one box."""
    lanes = {}
    for e in sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (e["tid"], e["ts"])):
        args = e["args"]
        if e["cat"] not in ("compute", "backward") or args.get("microbatch", -1) < 0 or args["step"] != step or not e["dur"]:
            continue
        kind = args.get("pass", "forward" if e["cat"] == "compute" else "backward")
        boxes = lanes.setdefault((e["pid"], e["tid"]), [])
        if kind == "forward" and boxes and boxes[-1][0] != kind and boxes[-1][1] == args["microbatch"]:
            kind = boxes[-1][0]  # losses that a backward pass adds up
        if boxes and boxes[-1][:2] == [kind, args["microbatch"]]:
            boxes[-1][3] = e["ts"] + e["dur"]
        else:
            boxes.append([kind, args["microbatch"], e["ts"], e["ts"] + e["dur"]])
    return lanes


def draw(lanes, step):
    begin = min(boxes[0][2] for boxes in lanes.values())
    end = max(boxes[-1][3] for boxes in lanes.values())
    scale = (WIDTH - LEFT - 10) / (end - begin)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + HEIGHT * len(lanes) + 24}" role="img" '
           f'aria-label="step {step} of a pipeline by stages" font-family="sans-serif" font-size="11">',
           f'<rect width="100%" height="100%" fill="white"/>']
    for i, (name, colour) in enumerate(COLOURS.items()):
        out += [f'<rect x="{LEFT + 110 * i}" y="6" width="12" height="12" fill="{colour}"/>',
                f'<text x="{LEFT + 110 * i + 17}" y="16">{name}</text>']
    for stage, (_, boxes) in enumerate(sorted(lanes.items())):
        y = TOP + HEIGHT * stage
        out.append(f'<text x="8" y="{y + 18}">stage {stage}</text>')
        for kind, number, first, last in boxes:
            x, width = LEFT + (first - begin) * scale, (last - first) * scale
            out.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{HEIGHT - 4}" fill="{COLOURS[kind]}" '
                       'stroke="white" stroke-width="0.5"/>')
            if width > 9:
                dark = kind == "backward"
                out.append(f'<text x="{x + width / 2:.2f}" y="{y + 17}" text-anchor="middle" '
                           f'fill="{"black" if dark else "white"}">{number}</text>')
    y = TOP + HEIGHT * len(lanes) + 14
    out += [f'<text x="{LEFT}" y="{y}">0</text>',
            f'<text x="{WIDTH - 10}" y="{y}" text-anchor="end">{(end - begin) / 1000:.4g} ms</text>', "</svg>"]
    return "\n".join(out)


def main():
    events = json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"]
    step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    lanes = passes_of(events, step)
    if not lanes:
        sys.exit(f"{sys.argv[1]}: step {step} has no micro-batches; trace a pipeline")
    print(draw(lanes, step))


main()
