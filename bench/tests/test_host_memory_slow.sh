#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No process holds the whole model on the host unless its devices do: three processes of `zero` stage 3 peak at 0.6 of
# those of `mirrored` at most, from drawn values, from a checkpoint, from a file and from a checkpoint's parameters; 15
# equal layers of 22 MB. What is wrong in a part of a file that one process alone checks is refused by all.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

sizes=$(printf -- '-2371%.0s' {1..16})
always="--model mlp:${sizes#-} --data synthetic:24 --batch 3 --warmup 0 --blocks 1 --gate-steps 0 --eval-samples 0
    --waterfall no --results none --format jsonl"
zero="--strategy zero --zero-stage 3 --allreduce ring"

ranks_ok 3 run $always --steps 1 --strategy mirrored --allreduce ring --checkpoint saved --save file
keep mirrored
for from in "--steps 1" "--steps 2 --resume-from-checkpoint saved" "--steps 1 --load file" "--steps 1 --load saved"; do
    ranks_ok 3 run $always $zero $from
    rows "zero, $from" "r['memory']['rss_peak'] <= 0.6 * old('mirrored')[0]['memory']['rss_peak']"
done

# damage FILE OFFSET BYTES: from the file's end.
damage() { printf "$3" | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - $2)) conv=notrunc status=none; }
refuse() {
    local word=$1
    shift
    ranks 3 run $always $zero "$@"
    expect "status of: $*" test "$code" -eq 3
    expect "one line with '$word' of: $*" one_line "$word"
}
for back in 4 8000004 16000004; do # three blocks: each is another process's
    cp file bad
    damage bad "$back" '\x00\x00\xc0\x7f'
    refuse 'bad: dense14[.][a-z]*: element [0-9]* is not finite' --steps 1 --load bad
done
for shard in saved/step-00000001/shard-*; do
    cp "$shard" kept
    damage "$shard" 4 '\x01\x02\x03\x04'
    refuse "$(basename "$shard"): its digest is not" --steps 2 --resume-from-checkpoint saved
    cp kept "$shard"
done
ranks_ok 3 run $always $zero --steps 2 --resume-from-checkpoint saved
finish
