#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws which layout `advise` chooses, by size of the model and number of devices, as SVG: CHOICES.jsonl >choices.svg.
The file is of ci/choices.sh. A cell has the layout, the predicted step with half its interval, where it has one, and
the memory of the fullest device. Leaves out all but the first choice."""
import json
import sys

TITLE = "What advise ranks first, by parameters of gpt and devices"
WIDTH, HEIGHT, LEFT, TOP = 150, 66, 60, 58
COLOURS = {"replicas": "#dde7f3", "zero": "#cfe8d5", "tensor-parallel": "#fbe3c4", "pipeline": "#f0d5e6", "none": "#eeeeee"}


def lines_of(row):
    """The kind of layout, and the lines of a cell."""
    if "step_ms" not in row:
        return "none", ["does not fit"]
    case, n = row["case"], row["devices"]
    inner, replicas = case.get("hybrid_inner"), case.get("hybrid_replicas", 1)
    stages = case.get("hybrid_stages", 1)
    kind = inner or case["strategy"]
    if n == 1:
        name, kind = "one device", "none"
    elif inner == "zero":
        name = f"{replicas} groups of {n // replicas}, ZeRO {case['zero_stage']}"
    elif inner:
        name = f"{replicas} x {n // replicas} {inner}" if stages == 1 else f"{replicas} x {stages} x {n // replicas // stages}"
    else:
        name = f"ZeRO {case['zero_stage']}" if kind == "zero" else kind
    pieces = case.get("gradient_accumulation_steps", 1)
    extra = [f"{pieces} pieces"] if pieces > 1 else []
    extra += [f"recompute {case['recompute']}"] if case.get("recompute", "none") != "none" else []
    half = (row["ci95"][1] - row["ci95"][0]) / 2 / row["samples_per_s"]
    time = f"{row['step_ms']:.3g} ms" if row["step_ms"] < 1e3 else f"{row['step_ms'] / 1e3:.3g} s"
    return (kind if kind in COLOURS else "replicas"), [
        name, ", ".join(extra), time + (f" ±{100 * half:.0f}%" if half > 0.0005 else ""), f"{row['memory'] / 1e9:.3g} GB"]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    sizes = sorted({r["size"] for r in rows}, key=lambda s: float(s[:-1]) * {"M": 1, "B": 1000}[s[-1]])
    counts = sorted({r["devices"] for r in rows})
    width, height = LEFT + WIDTH * len(counts) + 10, TOP + HEIGHT * len(sizes) + 38
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="11">',
           f"<title>{TITLE}</title>",
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="14">{TITLE}</text>',
           *(f'<text x="{LEFT}" y="{height - 22 + 14 * i}">{line}</text>'
             for i, line in enumerate(rows[0]["what"].split("; ")))]
    for x, n in enumerate(counts):
        out.append(f'<text x="{LEFT + WIDTH * x + WIDTH / 2}" y="{TOP - 8}" text-anchor="middle">{n} '
                   f'device{"s" if n > 1 else ""}</text>')
    for y, size in enumerate(sizes):
        out.append(f'<text x="{LEFT - 8}" y="{TOP + HEIGHT * y + 36}" text-anchor="end" font-weight="bold">{size}</text>')
    for row in rows:
        x, y = LEFT + WIDTH * counts.index(row["devices"]), TOP + HEIGHT * sizes.index(row["size"])
        kind, lines = lines_of(row)
        out.append(f'<rect x="{x}" y="{y}" width="{WIDTH - 3}" height="{HEIGHT - 3}" fill="{COLOURS[kind]}"/>')
        for i, line in enumerate(lines):
            out.append(f'<text x="{x + 6}" y="{y + 15 + 14 * i}"{" font-weight=" + chr(34) + "bold" + chr(34) if not i else ""}>'
                       f'{line}</text>')
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main()
