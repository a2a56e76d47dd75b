#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Draws the pictures of README.md and results/README.md from the committed rows: reports/gallery.sh [OUT] writes them
# to OUT (default: results) as SVG. LOCKSTEP (default: build/lockstep) is the program. Each line of the table is a
# picture: its name, file of rows, the plot of `lockstep report`, and which rows it shows. Another script draws the last.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-results}
program=${LOCKSTEP:-build/lockstep}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
while read -r name rows plot where; do
    "$program" report --results "results/$rows" ${where:+--where "$where"} --out "$work/$name" >/dev/null 2>"$work/err" ||
        { cat "$work/err" >&2; exit 3; }
    [ -s "$work/$name/$plot.svg" ] || { echo "gallery: $name: no plot $plot from results/$rows" >&2; exit 3; }
    cp "$work/$name/$plot.svg" "$out/$name.svg"
    echo "$out/$name.svg"
done <<'PICTURES'
scaling intel-xeon-emerald-rapids.jsonl throughput-strong batch_global=512,scaling=strong
scaling-peers intel-xeon-emerald-rapids-scaling.jsonl throughput-strong batch_global=512,scaling=strong
growth growth-amd-epyc-zen5.jsonl program-strong
stragglers stragglers-amd-epyc-zen5.jsonl stragglers
training training.jsonl accuracy
gpt-learning gpt-learning.jsonl loss-steps
pipeline pipeline-amd-epyc-zen5.jsonl pipeline-idle
predicted-scaling predicted-scaling.jsonl throughput-weak prediction.engine!=none
PICTURES
python3 reports/choices.py results/choices.jsonl >"$out/choices.svg"
echo "$out/choices.svg"
