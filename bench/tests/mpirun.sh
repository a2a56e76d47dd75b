#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs ranks in tests, and is where tests know launchers: Open MPI 4's (ORTE) and 5's (PRRTE), MPICH's (Hydra).
#
#     bench/tests/mpirun.sh N COMMAND... [: COMMAND...]    on N ranks of this machine, whatever its number of cores, as
#         root or not. Of several commands rank 0 runs the first, rank 1 the second, and all others the last. (Not the
#         launcher's own colon: Open MPI 5.0.7's ends in a segmentation fault then, open-mpi/ompi issue 13303.)
#     bench/tests/mpirun.sh --kind                         orte, prrte or hydra
#     bench/tests/mpirun.sh --says absent|unreachable      a pattern (grep -E) of what it says about such a rank or host
#
# MPIRUN names the launcher, MPIRUN_FLAGS are more of its options, after MPIRUN_SECONDS a run is killed. Exit status
# 77, with the reason, if there is no launcher.
set -euo pipefail
program=${MPIRUN:-mpirun}

# A rank: runs its own one of the commands.
if [ "$1" = --rank ]; then
    rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?is not set by this launcher}}
    shift
    number=0
    command=()
    for word in "$@" :; do
        if [ "$word" != : ]; then
            command+=("$word")
            continue
        fi
        [ "$number" -gt "$rank" ] || mine=("${command[@]}")
        number=$((number + 1))
        command=()
    done
    exec "${mine[@]}"
fi

command -v "$program" >/dev/null || { echo "skipped: $program is not installed (openmpi-bin, or mpich)"; exit 77; }

kind() {
    case $("$program" --version) in
    *"(Open MPI) "[1-4].*) echo orte ;;
    *"(Open MPI) "*) echo prrte ;;
    *HYDRA*) echo hydra ;;
    *) echo "mpirun.sh: $program: is none of the launchers known here; Open MPI's or MPICH's works" >&2; return 3 ;;
    esac
}

case $1 in
--kind) kind; exit ;;
--says)
    case $(kind)/$2 in
    orte/absent) echo 'exiting improperly' ;;
    orte/unreachable) echo 'nowhere|ORTE was unable|daemon' ;;
    *) echo "mpirun.sh: --says: $2: is not known of this launcher" >&2; exit 2 ;;
    esac
    exit
    ;;
esac

# As root, and more ranks than cores; Hydra needs no permission for either.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_btl_base_warn_component_unused=0
ranks=$1
shift
for word in "$@"; do
    [ "$word" != : ] || { set -- bash "${BASH_SOURCE[0]}" --rank "$@"; break; }
done
exec timeout --kill-after=10 "${MPIRUN_SECONDS:-600}" "$program" -n "$ranks" ${MPIRUN_FLAGS:-} "$@"
