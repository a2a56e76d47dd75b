#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How often the regression gate errs on this machine: ci/calibrate-regress.sh OUT [N] [MINUTES]
#   pairs      2,000 pairs of blocks of build/lockstep against itself, in turns, for MINUTES (25) at most;
#              their log ratios are resampled, 500 comparisons each (test_ratio_test), as they are and
#              counted slower. Blocks are of 150 steps, half as long as those of a comparison
#   calibrate  N (60) real comparisons of `mlp` with itself, 25 s each at most, each judged as it is and
#              counted 1, 2, 3, 5, 10% slower
#   loaded     N/3 of these while another process takes one core half of the time
#   planted    N/3 with each program that is 5% slower on purpose (ci/plant-slowdowns.sh)
# OUT/SUMMARY.md has the tables, OUT/pairs.txt the log ratios, OUT/planted the programs. A part whose
# table is there is not made again. The machine should be quiet; it takes an hour and a half at most.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: ci/calibrate-regress.sh OUT [N] [MINUTES]" >&2; exit 2; }
sources=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
n=${2:-60}
minutes=${3:-25}
third=$(((n + 2) / 3))
program=$sources/build/lockstep
case_options=(--model mlp --data synthetic:6000)
cd "$out"

part() { # NAME: whether it is to be made
  [ ! -s "$1.md" ] || return 1
  echo "$1, $(date -u +%H:%M)" >&2
}
calibrate() { # THRESHOLD COUNT BASE NEW OPTION...: a table
  "$program" regress --calibrate "$2" "$3" "$4" "${@:5}" --threshold "$1" --max-time 25s \
    --results none --quiet --format md
}
as_it_is() { # NAME THRESHOLD COUNT BASE NEW OPTION...: one line of it, and before the first its head
  calibrate "${@:2}" | sed -n "1,2{${heads:+d};s/slower by %/program/p;/^|-/p};s/^| 0[.0]* /| $1, at $2 /p"
  heads=done
}

if part pairs; then
  rm -f pairs.db
  "$program" regress "$program" "$program" "${case_options[@]}" --steps 150 --threshold 0.01% \
    --max-time "${minutes}min" --results pairs.db --quiet >/dev/null || true
  "$program" results export --results pairs.db --to jsonl --out pairs.jsonl
  python3 - >pairs.new <<'P'
import json, math, statistics
sides = {"regress base": [], "regress new": []}
for line in open("pairs.jsonl"):
    row = json.loads(line)
    sides[row["label"]].append(math.log(row["time"]["step_ms"]["median"]))
base, new = (values[1:] for values in sides.values()) # the first had its gate
with open("pairs.txt", "w") as stream:
    for a, b in zip(base, new):
        stream.write(f"{b - a:.9f}\n")
def differ(x): # one robust deviation of what two of them differ by, in %
    apart = [abs(a - b) for i, a in enumerate(x) for b in x[i + 1:]]
    return 148.26 * statistics.median(apart)
fives = [statistics.median(base[i:i + 5]) for i in range(0, len(base) - 4, 5)]
print(f"One deviation of what two blocks of one program differ by, at any two times: {differ(base):.2f}%; medians of\n"
      f"five in a row: {differ(fives):.2f}%.\n")
P
  rm -f pairs.db pairs.jsonl
  {
    echo "$(wc -l <pairs.txt) recorded pairs; 500 comparisons of 40 pairs each, resampled:"
    echo
    { LOCKSTEP_PAIRS=pairs.txt "$sources/build/test_ratio_test" 2>&1 ||
      echo "- what is wanted of these is not reached"; } | sed -n 's/^noise 0.000, /- /p;/^- /p'
  } >>pairs.new
  mv pairs.new pairs.md
fi
if part calibrate; then
  calibrate 2% "$n" "$program" "$program" "${case_options[@]}" >calibrate.new
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
  calibrate 3% "$third" "$program" "$program" "${case_options[@]}" >loaded.new
  kill "$load"
  mv loaded.new loaded.md
fi
if part planted; then
  [ -x planted/flag ] || "$sources/ci/plant-slowdowns.sh" planted 5 >/dev/null
  {
    heads=
    for name in kernel host flag; do
      as_it_is "$name" 2% "$third" planted/base "planted/$name" "${case_options[@]}"
    done
    if [ -x planted/communication ]; then
      as_it_is communication 2% "$third" planted/base planted/communication "${case_options[@]}" \
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
