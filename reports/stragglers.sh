#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what one slow worker of three costs parameter servers in every mode, and draws it:
#   reports/stragglers.sh OUT.jsonl OUT.svg
# OUT.jsonl gets the rows of stragglers.yaml, three seeds, less what the picture does not need of
# them; OUT.png is drawn beside OUT.svg. LOCKSTEP: the program. Some two minutes.
# Exit status: 2 wrong usage, else that of what fails.
set -euo pipefail

if [ $# -ne 2 ] || [ "${1%.jsonl}" = "$1" ] || [ "${2%.svg}" = "$2" ]; then
  echo "usage: reports/stragglers.sh OUT.jsonl OUT.svg" >&2
  exit 2
fi
rows=$(realpath -m "$1") picture=$(realpath -m "$2")
cd "$(dirname "$0")/.."
temp=$(mktemp)
trap 'rm -f "$temp"' EXIT
for seed in 1 2 3; do
  "${LOCKSTEP:-build/lockstep}" run --plan reports/stragglers.yaml --seed "$seed" \
    --label stragglers --results none --progress no --format jsonl >>"$temp"
done
python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    for group in ("memory", "lead", "staleness", "waterfall"):
        row.pop(group, None)
    print(json.dumps(row, separators=(",", ":")))
' <"$temp" >"$rows"
reports/draw.sh stragglers "$rows" "$picture"
