#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ranks that do not start together: one never calls MPI_Init, or is stopped before it; or they differ in build, data
# or command line. Each job ends in time, with one line. Leaves out ranks that are lost later (test_faults.sh),
# several hosts (test_netns.sh).
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
small="--data synthetic:500 --batch 60 --steps 6 --warmup 2 --results none --format jsonl"

# beside PROGRAM...: rank 0 is the program under test, rank 1 PROGRAM.
patience=1s
beside() { ranks 2 run --strategy mirrored $small --timeout $patience : "$@"; }
# apart FOLDER ARGUMENTS...: rank 0 in folder `one`, rank 1 in another.
apart() {
    cd one
    ranks 2 "${@:2}" : env -C "$work/$1" "$LOCKSTEP" "${@:2}"
    cd ..
}
ended() { # ended STATUS WORD
    expect "status $1" [ "$code" -eq "$1" ]
    expect "one line that has $2" one_line "$2"
    expect "no row" [ ! -s out ]
}
absent='MPI: rank 0 of 2 on .*: not every rank has come to MPI_Init; '
beside true # the launcher may end rank 0 itself, if that has started
expect "status not 0, in time" [ "$code" -ne 0 -a "$code" -ne 124 ]
expect "it is said" eval "one_line '$absent' || grep -aqE '$("$launcher" --says absent)' all"
beside sleep 100
ended 3 "$absent"
beside sh -c 'kill -STOP $$; exec true'
ended 3 "$absent"

patience=60s # from here on all ranks come
# Builds that differ in one word of the version.
version=$("$LOCKSTEP" --version | sed -n 's/^lockstep  *\([0-9.]*\).*/\1/p;q')
sed "s/${version//./\\.} /${version//[0-9]/9} /g" "$LOCKSTEP" >other
chmod +x other
beside "$work/other" run --strategy mirrored $small --timeout $patience
ended 2 'rank: 1 on .*: its build (.*) differs from rank 0.s ('
beside "$LOCKSTEP" run --strategy mirrored $small --timeout 61s
ended 2 'rank: 1 on .*: its command line (.*) differs from rank 0.s (.*); start all ranks with the same program, options and files'
# A file of the same name on two disks, with one different value.
mkdir one two
python3 - <<'P'
import json, struct
for name, value in ("one", 1.0), ("two", 2.0):
    header = json.dumps({"x0": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]},
                         "y": {"dtype": "F32", "shape": [4], "data_offsets": [48, 64]}}).encode()
    with open(name + "/d.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + struct.pack("<16f", *[value] * 12, 0, 1, 0, 1))
P
apart="run --strategy mirrored --model mlp:3-2 --data file:d.safetensors --batch 2 --steps 3 --results none"
apart two $apart
ended 2 'rank: 1 on .*: its data set differs from rank 0.s; '
# Each rank reads the model's file, and its text is the same.
for n in one two; do
    echo "{data: synthetic, input: [3], layers: [dense: 2, softmax_cross_entropy]} # $n" >$n/own.yaml
done
apart two run --strategy mirrored --model graph:own.yaml --data synthetic:8 --batch 2 --steps 3 --results none
ended 2 'rank: 1 on .*: its model file differs from rank 0.s; '
# A file that one rank lacks: checking the cases before they run ends all ranks, too.
mkdir three
for look in "" --dry-run "--resume --results r.db"; do
    apart="run --strategy mirrored --model mlp:3-2 --data file:d.safetensors --batch 2 --steps 3 ${look:---results none}"
    apart three $apart
    ended 3 'rank 1 on .*d.safetensors'
done
# The same command line, but each rank has a different plan.
for options in 'steps: 3/steps: 6' 'allreduce: ring/allreduce: tree' 'save: w/seed: 1'; do
    echo "${options%/*}" >one/p.yaml
    echo "${options#*/}" >two/p.yaml
    apart="run --strategy mirrored --model mlp:784-16-10 --data synthetic:500 --batch 60 --plan p.yaml --results none"
    apart two $apart
    ended 2 'rank: 1 on .*: its set of options differs from rank 0.s; '
done
finish
