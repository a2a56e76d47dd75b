#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws steps of pipelines by stages as SVG: HEADING|--json TITLE=TRACE.json.. >steps.svg. A trace is one of `lockstep
trace --out` or of `lockstep predict --trace`; of its steps the one of median time is drawn. FILE.jsonl: what --json
printed of several traces. A box is a pass over a micro-batch, whose number it has. Leaves out messages and updates; stages
with more than one device each."""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, HEAD = 960, 18, 62, 58, 24
COLOURS = {"forward": "#4477aa", "backward": "#ccbb44", "data pass": "#66ccee", "weight pass": "#228833", "idle": "#e4e4e4"}


def passes_of(slices):
    """A list a stage of [kind, micro-batch, begin, end, time at work]: slices of one pass, one after the other, are one box."""
    lanes, split = {}, any("pass" in e["args"] for e in slices)
    for e in sorted(slices, key=lambda e: (e["tid"], e["ts"])):
        number, boxes = e["args"]["microbatch"], lanes.setdefault((e["pid"], e["tid"]), [])
        backward = "weight pass" if "pass" in e["args"] else "data pass" if split else "backward"
        kind = backward if e["cat"] == "backward" else "forward"
        if kind == "forward" and boxes and boxes[-1][0] != kind and boxes[-1][1] == number:
            kind = boxes[-1][0]  # losses that a backward pass adds up
        if not boxes or boxes[-1][:2] != [kind, number]:
            boxes.append([kind, number, e["ts"], 0, 0])
        boxes[-1][3] = e["ts"] + e["dur"]
        boxes[-1][4] += e["dur"]
    begin = min(boxes[0][2] for boxes in lanes.values())
    return [[box[:2] + [round(t, 3) for t in (box[2] - begin, box[3] - begin, box[4])] for box in boxes]
            for _, boxes in sorted(lanes.items())]


def end_of(lanes):
    return max(boxes[-1][3] for boxes in lanes)


def read(argument):
    """Panels (title, lanes) of an argument. Time begins with the first pass."""
    if argument.endswith(".jsonl"):
        return [(p["title"], p["lanes"]) for p in map(json.loads, open(argument, encoding="utf-8"))]
    title, _, path = argument.rpartition("=")
    steps = {}
    for e in json.load(open(path, encoding="utf-8"))["traceEvents"]:
        if e.get("cat") in ("compute", "backward") and e["args"].get("microbatch", -1) >= 0 and e["dur"]:
            steps.setdefault(e["args"]["step"], []).append(e)
    if not steps:
        sys.exit(f"{path}: no micro-batches; trace a pipeline")
    return [(title, sorted(map(passes_of, steps.values()), key=end_of)[len(steps) // 2])]


def paler(colour, share):
    return "#" + "".join(f"{round(255 - (255 - int(colour[i:i + 2], 16)) * (1 - share)):02x}" for i in (1, 3, 5))


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y}"{more}>{words}</text>'


def draw_stage(boxes, y, scale):
    """Of a micro-batch's V forward passes on a stage the k-th is chunk k, of its backward passes chunk V - 1 - k."""
    seen, last = {}, [box[:2] for box in boxes if box[0] in ("backward", "data pass")]
    chunks = last.count(last[0])
    for kind, number, begin, end, _ in boxes:
        k = seen[kind, number] = seen.get((kind, number), -1) + 1
        chunk = min(k, chunks - 1) if kind == "forward" else max(chunks - 1 - k, 0)
        share = 0.6 * chunk / max(chunks - 1, 1)
        width = (end - begin) * scale
        yield (f'<rect x="{LEFT + begin * scale:.2f}" y="{y}" width="{max(width - 0.6, 0.2):.2f}" height="{HEIGHT - 2}" '
               f'fill="{paler(COLOURS[kind], share)}"/>')
        if width > 6 * len(str(number)) + 2:
            white = share < 0.3 and kind in ("forward", "weight pass")
            yield text(LEFT + (begin + end) * scale / 2, y + 12, number, ' fill="white"' if white else "")


def draw(heading, panels):
    scale, y = (WIDTH - LEFT - 10) / max(end_of(lanes) for _, lanes in panels), TOP
    out = [text(LEFT, 18, heading, ' font-size="14"')]
    kinds = {box[0] for _, lanes in panels for boxes in lanes for box in boxes} | {"idle"}
    for i, name in enumerate(name for name in COLOURS if name in kinds):
        out += [f'<rect x="{LEFT + 100 * i}" y="30" width="12" height="12" fill="{COLOURS[name]}"/>', text(LEFT + 100 * i + 17, 40, name)]
    out.append(text(WIDTH - 10, 40, "numbers: micro-batches; paler: later chunks", ' text-anchor="end"'))
    for title, lanes in panels:
        end = end_of(lanes)
        idle = 1 - sum(box[4] for boxes in lanes for box in boxes) / end / len(lanes)
        out.append(text(LEFT, y + 14, f"{title}: {end / 1000:.4g} ms, idle {100 * idle:.0f}%", ' font-weight="bold"'))
        y += HEAD - 4
        for stage, boxes in enumerate(lanes):
            out += [text(8, y + 12, f"stage {stage}"),
                    f'<rect x="{LEFT}" y="{y}" width="{end * scale:.2f}" height="{HEIGHT - 2}" fill="{COLOURS["idle"]}"/>',
                    '<g text-anchor="middle">', *draw_stage(boxes, y, scale), "</g>"]
            y += HEIGHT
        y += 6
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" role="img" font-family="sans-serif" '
                      'font-size="11">', f"<title>{heading}</title>", '<rect width="100%" height="100%" fill="white"/>', *out, "</svg>"])


def main():
    heading, *arguments = sys.argv[1:]
    panels = [panel for argument in arguments for panel in read(argument)]
    if heading != "--json":
        print(draw(heading, panels))
    else:
        print("\n".join(json.dumps({"title": title, "lanes": lanes}) for title, lanes in panels))


main()
