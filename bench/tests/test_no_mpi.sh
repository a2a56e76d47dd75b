#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A build without MPI and CUDA (the preset `hooks` is one) refuses what it cannot do, in one line, even if a launcher
# starts several processes of it; alone it does everything else.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ -x "$LOCKSTEP" ] || { echo "skipped: $LOCKSTEP is not built; cmake --preset hooks"; exit 77; }
"$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build' || { echo "skipped: this build has MPI"; exit 77; }
small="--strategy mirrored --data synthetic:500 --batch 60 --steps 6 --warmup 2 --results none --format jsonl"

refused() { # refused STATUS WORD
    expect "status $1" [ "$code" -eq "$1" ]
    expect "one line that has $2" one_line "$2"
    expect "no row" [ ! -s out ]
}
lockstep run $small --comm mpi
refused 3 "--comm: this build does not have 'mpi'; "
lockstep run $small --devices gpu:0
refused 3 'gpu:0: '
lockstep_ok run $small --devices 2
lockstep_ok list communicators
expect "mpi is not listed" [ -z "$(grep '^mpi' out)" ]
lockstep_ok run --help
expect "nor is it in the help" eval '! grep -qE "^ *--comm .*(mpi|nccl)|mpirun, else" out'
"$launcher" --kind >kind || code=$?
[ "$code" -ne 77 ] || { echo "without mpirun no more is tested"; finish; exit 0; }
expect "a launcher that is known" [ "$code" -eq 0 ]
# under N OPTIONS...: runs it on N ranks of a launcher.
under() {
    local n=$1
    shift
    command_line="(on $n ranks) $*"
    code=0
    "$launcher" "$n" "$LOCKSTEP" "$@" >out 2>all </dev/null || code=$?
    ours all >err
}
for command in "run $small" "verify $small" devices "micro floor"; do
    under 3 $command
    refused 3 'a launcher started 3 ranks, but this build has no MPI'
done
under 1 run $small
expect "one rank is a process alone" [ "$code" -eq 0 -a ! -s err ]
rows "and has its row" "r['result']['status'] == 'ok' and r['case']['ranks'] == 1"
under 2 run $small --launcher none
expect "on purpose each works alone" [ "$code" -eq 0 -a ! -s err ]
rows "and has its row" "len(rows) == 2 and all(x['case']['ranks'] == 1 for x in rows)"
under 2 list strategies
expect "rank 0 alone prints" [ "$(grep -c '^ *mirrored ' out)" -eq 1 ]
finish
