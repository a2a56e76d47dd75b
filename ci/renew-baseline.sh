#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures this tree's program as the new baseline of this class of machine:
#   ci/renew-baseline.sh REASON [CLASS]
# CLASS (default: from processor and cores) names results/baselines/CLASS.jsonl, which is to be committed. REASON
# becomes each row's label. If it begins "intended KEY", as in "intended traffic.bytes_sent: larger buckets", that key
# may become worse than in this baseline. Each case is measured three times, to show how much runs differ
# (bench/regress/README.md).
#   LOCKSTEP_PLAN    bench/plans/ci.yaml
# Compare with it: for i in 1 2 3; do lockstep run --plan bench/plans/ci.yaml --format jsonl; done >new.jsonl
#                  lockstep regress results/baselines/CLASS.jsonl new.jsonl
set -euo pipefail
if [ $# -lt 1 ] || [ -z "$1" ]; then
  echo "usage: ci/renew-baseline.sh REASON [CLASS]: REASON is one quoted text that says why the baseline changes;" \
    "CLASS names the kind of machine (default: processor and cores)" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
program=${LOCKSTEP:-build/lockstep}
mkdir -p results/baselines
new=$(mktemp results/baselines/new.XXXXXX)
trap 'rm -f "$new"' EXIT
for _ in 1 2 3; do
  "$program" run --plan "${LOCKSTEP_PLAN:-bench/plans/ci.yaml}" --label "$1" --format jsonl --results none
done >"$new"
class=${2:-$(python3 - "$new" <<'P'
import json, re, sys
made = json.loads(open(sys.argv[1]).readline())["provenance"]
parts = [made["cpu"], made.get("isa", ""), f"{made.get('cores_allowed', 1)} cores", made.get("gpu", "")]
print(re.sub(r"-+", "-", re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", " ".join(parts).lower()))).strip("-"))
P
)}
if [ -f "results/baselines/$class.jsonl" ]; then # prints what changes; an intended change is the reason to renew
  cp "$new" "$new.jsonl"
  "$program" regress "results/baselines/$class.jsonl" "$new.jsonl" || true
  rm -f "$new.jsonl"
fi
chmod 644 "$new"
mv "$new" "results/baselines/$class.jsonl"
echo "results/baselines/$class.jsonl: $(wc -l <"results/baselines/$class.jsonl") rows, because: $1"
