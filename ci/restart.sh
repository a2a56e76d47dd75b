#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a command on ranks and, whenever one of them dies, starts it again on one rank fewer, from its newest checkpoint:
#
#     ci/restart.sh MOST:LEAST lockstep run OPTIONS --checkpoint DIR --checkpoint-interval K
#
# LAUNCHER (mpirun -n) is followed by the number of ranks. Ends as the last start ended: with a status other than a lost
# rank's (0, 1, 2, 130), or with fewer than LEAST ranks.
set -uo pipefail

most=${1%:*} least=${1#*:}
shift
for ((ranks = most; ranks >= least; ranks--)); do
    code=0
    ${LAUNCHER:-mpirun -n} "$ranks" "$@" --resume-from-checkpoint auto || code=$?
    case $code in
        0 | 1 | 2 | 130) exit "$code" ;;
    esac
    echo "ci/restart.sh: the run (ranks: $ranks) ended with status $code; the lines above say why" >&2
done
exit "$code"
