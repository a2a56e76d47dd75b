#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ranks that are processes: --elastic is refused, and names checkpoints; with these ci/restart.sh goes on after a rank
# was killed, on the ranks that are left, to the digest of single's unbroken run.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

exact="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --results none --format jsonl --eval-samples 0
    --waterfall no --blocks 1 --gate-steps 2 --reduce exact --warmup 1 --steps 9"
for option in "--elastic leave=1:3" "--inject kill=1:3 --on-failure shrink"; do
    ranks 2 run $exact --strategy mirrored $option
    expect "$option is refused" one_line 'resume-from-checkpoint'
done
lockstep_ok run $exact
keep full

# The first start kills rank 2 of 3.
cat >once.sh <<'S'
#!/bin/sh
[ -e saved/step-00000004/manifest.json ] || set -- "$@" --inject kill=2:6
exec "$@"
S
chmod +x once.sh
command_line="ci/restart.sh 3:2 lockstep run .."
code=0
LAUNCHER=$launcher "$library/../../ci/restart.sh" 3:2 ./once.sh "$LOCKSTEP" run $exact --strategy zero \
    --checkpoint saved --checkpoint-interval 4 >out 2>all </dev/null || code=$?
expect "status 0" test "$code" -eq 0
expect "it was started twice" test "$(grep -c '^ci/restart.sh: the run (ranks: 3) ended' all)" -eq 1
rows "the end is that of the unbroken run" 'rows[-1]["equivalence"]["digest"] == old("full")[0]["equivalence"]["digest"]
    and rows[-1]["checkpoint"]["resumed_step"] == 4 and rows[-1]["case"]["ranks"] == 2'
finish
