#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How often the regression gate errs on this machine: ci/calibrate-regress.sh OUT [N] [MINUTES]
#   pairs      MINUTES (40) of blocks of build/lockstep against itself, in turns; their log ratios are
#              resampled, 500 comparisons each (test_ratio_test), as they are and counted slower
#   calibrate  N (60) real comparisons of `mlp` with itself, and N each counted 1, 2, 3, 5, 10% slower
#   loaded     N/3 comparisons while another process takes one core half of the time
#   planted    N/3 comparisons each with programs that are 5% slower on purpose (ci/plant-slowdowns.sh)
# OUT/SUMMARY.md has the tables, OUT/pairs.txt the log ratios, OUT/planted the programs. A part whose
# table is there is not made again. The machine should be quiet; with N = 60 it takes some six hours.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: ci/calibrate-regress.sh OUT [N] [MINUTES]" >&2; exit 2; }
sources=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
n=${2:-60}
minutes=${3:-40}
third=$(((n + 2) / 3))
program=$sources/build/lockstep
case_options=(--model mlp --data synthetic:6000)
quiet=(--results none --quiet)
cd "$out"

part() { # NAME: whether it is to be made
  [ ! -s "$1.md" ] || return 1
  echo "$1, $(date -u +%H:%M)" >&2
}

if part pairs; then
  rm -f pairs.db
  "$program" regress "$program" "$program" "${case_options[@]}" --threshold 0.01% \
    --max-time "${minutes}min" --results pairs.db --quiet >/dev/null || true
  "$program" results export --results pairs.db --to jsonl --out pairs.jsonl
  python3 - <<'P'
import json, math
sides = {"regress base": [], "regress new": []}
for line in open("pairs.jsonl"):
    row = json.loads(line)
    sides[row["label"]].append(row["time"]["step_ms"]["median"])
base, new = (values[1:] for values in sides.values()) # the first had its gate
with open("pairs.txt", "w") as stream:
    for a, b in zip(base, new):
        stream.write(f"{math.log(b / a):.9f}\n")
P
  rm -f pairs.db pairs.jsonl
  {
    echo "$(wc -l <pairs.txt) recorded pairs; 500 comparisons of 40 pairs each, resampled:"
    echo
    LOCKSTEP_PAIRS=pairs.txt "$sources/build/test_ratio_test" 2>&1 |
      sed -n '/recorded pairs/,$s/^noise 0.000, /- /p'
  } >pairs.new
  mv pairs.new pairs.md
fi
if part calibrate; then
  "$program" regress --calibrate "$n" "$program" "${case_options[@]}" "${quiet[@]}" --threshold 2% \
    --format md >calibrate.new
  mv calibrate.new calibrate.md
fi

# tally NAME THRESHOLD COUNT BASE NEW OPTION...: a line of a table
tally() {
  local name=$1 threshold=$2 count=$3 base=$4 new=$5 i
  shift 5
  for ((i = 0; i < count; i++)); do
    "$program" regress "$base" "$new" "$@" "${quiet[@]}" --threshold "$threshold" --format json || true
  done | python3 -c 'import collections, json, sys
text, at, said, ratios, seconds = sys.stdin.read(), 0, collections.Counter(), [], 0
decoder = json.JSONDecoder()
while text[at:].strip():
    document, end = decoder.raw_decode(text[at:].lstrip())
    at += len(text[at:]) - len(text[at:].lstrip()) + end
    said[document["cases"][0]["verdict"]] += 1
    ratios.append(document["cases"][0].get("ratio", 1))
    seconds += document["seconds"]
print("|", " | ".join([sys.argv[1], sys.argv[2], str(len(ratios)), f"{sorted(ratios)[len(ratios) // 2]:.3f}"] +
    [str(said[k]) for k in ("slower", "same", "faster", "cannot tell")] + [f"{seconds / len(ratios):.0f}"]), "|")' \
    "$name" "$threshold"
}
heading() {
  echo "| program | threshold | comparisons | median ratio | slower | same | faster | cannot tell | s each |"
  echo "|---|---|---:|---:|---:|---:|---:|---:|---:|"
}
if part loaded; then
  python3 -c 'import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)' &
  load=$!
  trap 'kill "$load" 2>/dev/null || true' EXIT
  { heading; tally "itself" 3% "$third" "$program" "$program" "${case_options[@]}"; } >loaded.new
  kill "$load"
  mv loaded.new loaded.md
fi
if part planted; then
  [ -x planted/flag ] || "$sources/ci/plant-slowdowns.sh" planted 5 >/dev/null
  {
    heading
    for name in kernel host flag; do
      tally "$name" 2% "$third" planted/base "planted/$name" "${case_options[@]}"
    done
    if [ -x planted/communication ]; then
      tally communication 2% "$third" planted/base planted/communication "${case_options[@]}" \
        --batch 512 --strategy mirrored --devices 2
    fi
  } >planted.new
  mv planted.new planted.md
fi
{
  echo "# How often the regression gate errs: $(uname -m), $(nproc) cores"
  for name in pairs calibrate loaded planted; do
    printf '\n## %s\n\n' "$name"
    cat "$name.md"
  done
} >SUMMARY.md
cat SUMMARY.md
