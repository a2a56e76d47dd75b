#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How often the regression gate errs on this machine: ci/calibrate-regress.sh OUT [N [SECONDS]]
#   pairs         2,000 pairs of blocks of build/lockstep against itself, alternating. 500 comparisons of 40 of them, with
#                 random signs, are judged unchanged and counted slower (test_ratio_test). Blocks have 150 steps, half as
#                 many as in a comparison
#   calibrate     N (60) real comparisons of `mlp` with itself, at most SECONDS (25) each, judged unchanged and counted 1,
#                 2, 3, 5, 10% slower
#   loaded-pairs  400 pairs, and 200 comparisons of them, while another process uses one core half of the time
#   loaded        N/3 real comparisons with the same load
#   planted       N/6 with each program with a planted slowdown of 5% (ci/plant-slowdowns.sh)
# OUT/SUMMARY.md has the tables, OUT/*.txt the log ratios, OUT/planted the programs. A part whose table exists is
# skipped. The machine should be quiet; with 60 and 25 it takes at most an hour and a quarter. Exit status 1: wrong
# comparisons are more frequent than allowed.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: ci/calibrate-regress.sh OUT [N [SECONDS]] (OUT: a folder for the results; N comparisons of at most SECONDS each)" >&2; exit 2; }
sources=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
n=${2:-60}
seconds=${3:-25}
third=$(((n + 2) / 3))
program=$sources/build/lockstep
case_options=(--model mlp --data synthetic:6000)
wrong=0
cd "$out"

part() { # NAME: whether the part is still to do
  [ ! -s "$1.md" ] || return 1
  echo "$1, $(date -u +%H:%M)" >&2
}

# record N FILE: appends N log ratios of the program and itself. If a comparison ends early with a verdict (for equal
# programs, one in some thousands), another one follows.
record() {
  : >"$2"
  while [ "$(wc -l <"$2")" -lt "$1" ]; do
    rm -f pairs.db
    "$program" regress "$program" "$program" "${case_options[@]}" --steps 150 --threshold 0.01% \
      --max-time 2min --results pairs.db --quiet >/dev/null || case $? in 1 | 4) ;; *) exit 3 ;; esac
    "$program" results export --results pairs.db --to jsonl --out pairs.jsonl
    python3 - pairs.jsonl >>"$2" <<'P'
import json, math, sys
sides = {"regress base": [], "regress new": []}
for line in open(sys.argv[1]):
    row = json.loads(line)
    sides[row["label"]].append(math.log(row["time"]["step_ms"]["median"]))
base, new = (values[1:] for values in sides.values()) # the first block had the gate
for a, b in zip(base, new):
    print(f"{b - a:.9f}")
P
  done
  rm -f pairs.db pairs.jsonl
}
# resample NAME VARIABLE: runs test_ratio_test on the recorded pairs.
resample() {
  env "$2=$1.txt" "$sources/build/test_ratio_test" >"$1.log" 2>&1 || {
    wrong=1
    echo "What is wanted of these is not reached."
    echo
  }
  echo "$(wc -l <"$1.txt") recorded pairs:"
  echo
  sed -n 's/^noise 0.000, /- /p' "$1.log"
}
# calibrate NAME THRESHOLD N BASE NEW OPTION...: writes rows of N comparisons, ten at a time, to NAME.jsonl
calibrate() {
  local left=$3
  : >"$1.jsonl"
  for (( ; left > 0; left -= 10)); do
    "$program" regress --calibrate "$((left < 10 ? left : 10))" "$4" "$5" "${@:6}" --threshold "$2" \
      --max-time "${seconds}s" --results none --quiet --format jsonl >>"$1.jsonl"
  done
}
# table NAME THRESHOLD [TITLE]: the verdicts at each slowdown, or only unchanged, for programs that TITLE says differ;
# exit status 1 for wrong verdicts.
table() {
  python3 - "$1.jsonl" "${2%\%}" "${3:-}" <<'P'
import json, statistics, sys
path, threshold, title = sys.argv[1], float(sys.argv[2]), sys.argv[3]
levels, wrong = {}, 0
for line in open(path):
    row = json.loads(line)
    levels.setdefault(row["slowed_percent"], []).append(row)
said = ("slower", "same", "faster", "cannot tell")
if not title:
    print("| slower by % | comparisons | median ratio |", " | ".join(said), "| s each |")
    print("|---:" * 8 + "|")
for by, rows in sorted(levels.items()):
    count = {name: sum(row[name] for row in rows) for name in said}
    n = sum(row["comparisons"] for row in rows)
    each = sum(row["seconds_each"] * row["comparisons"] for row in rows) / n
    ratio = statistics.median(row["ratio"] for row in rows)
    if title and by > 0:
        continue
    print(f"| {title or by} | {n} | {ratio:.4f} |", " | ".join(str(count[name]) for name in said), f"| {each:.1f} |")
    truth = 100 * ratio - 100 if title else by # the size of a planted slowdown depends on the processor
    wrong += count["faster"] + (count["slower"] if truth < threshold else count["same"] if truth > threshold else 0)
sys.exit(1 if wrong else 0)
P
}

if part pairs; then
  record 2000 pairs.txt
  resample pairs LOCKSTEP_PAIRS >pairs.new
  mv pairs.new pairs.md
fi
if part calibrate; then
  calibrate calibrate 2% "$n" "$program" "$program" "${case_options[@]}"
  table calibrate 2% >calibrate.new || wrong=1
  mv calibrate.new calibrate.md
fi
if part loaded; then
  python3 -c 'import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)' &
  load=$!
  trap 'kill "$load" 2>/dev/null || true' EXIT
  record 400 loaded-pairs.txt
  resample loaded-pairs LOCKSTEP_LOADED_PAIRS >loaded.new
  calibrate loaded 3% "$third" "$program" "$program" "${case_options[@]}"
  kill "$load"
  echo >>loaded.new
  table loaded 3% >>loaded.new || wrong=1
  mv loaded.new loaded.md
fi
if part planted; then
  [ -x planted/flag ] || "$sources/ci/plant-slowdowns.sh" planted 5 >/dev/null
  for name in kernel host flag communication; do
    [ -x "planted/$name" ] || continue
    options=("${case_options[@]}")
    [ "$name" != communication ] || options+=(--batch 512 --strategy mirrored --devices 2)
    calibrate "planted-$name" 2% $(((n + 5) / 6)) planted/base "planted/$name" "${options[@]}"
    table "planted-$name" 2% "$name" >>planted.new || wrong=1
  done
  {
    echo "| program | comparisons | median ratio | slower | same | faster | cannot tell | s each |"
    echo "|---|---:|---:|---:|---:|---:|---:|---:|"
    cat planted.new
  } >planted.md
  rm planted.new
fi
{
  echo "# How often the regression gate errs: $(uname -m), $(nproc) cores"
  for name in pairs calibrate loaded planted; do
    printf '\n## %s\n\n' "$name"
    cat "$name.md"
  done
} >SUMMARY.md
cat SUMMARY.md
exit $wrong
