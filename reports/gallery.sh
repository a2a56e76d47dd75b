#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Draws the pictures of README.md and results/README.md from the committed rows: reports/gallery.sh [OUT] writes them
# to OUT (default: results) as SVG. LOCKSTEP (default: build/lockstep) is the program. Each line of the table is a
# picture: its name, file of rows, the plot of `lockstep report`, and which rows it shows. Other scripts draw the last
# ones: of schedules, `predict` plays a model of equal stages, whose passes take 1 ms each.
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
    [ -s "$work/$name/$plot.svg" ] || { echo "reports/gallery.sh: $name: results/$rows has no rows for the plot '$plot'; correct this line of PICTURES in the script" >&2; exit 3; }
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
{
    echo "{name: equal, batch: 8, source: 'passes of 1 ms', layers: ["
    for layer in {1..16}; do echo "{name: l$layer, params: 1, forward: 2ms, backward: 4ms, weights: 2ms, activations: 0},"; done
    echo "]}"
} >"$work/equal.yaml"
steps=()
for schedule in gpipe 1f1b interleaved zb-h1 zb-h2; do
    "$program" predict --model "profile:$work/equal.yaml" --strategy pipeline --devices 4 --pipeline-microbatches 8 \
        --pipeline-schedule $schedule --platform flat:latency=0us,bandwidth=1TB/s --trace "$work/$schedule.json" --results none >/dev/null
    steps+=("$schedule=$work/$schedule.json")
done
python3 reports/timeline.py "A step of a pipeline of 4 equal stages by schedule, predicted" "${steps[@]}" >"$out/schedules.svg"
echo "$out/schedules.svg"
python3 reports/timeline.py "A step of lstm-stack:8 in 2 stages by schedule, measured on two cores" results/schedules.jsonl \
    >"$out/schedules-measured.svg"
echo "$out/schedules-measured.svg"
