#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs ranks in tests, and is where tests know launchers: Open MPI 4's (ORTE) and 5's (PRRTE), MPICH's (Hydra).
#
#     bench/tests/mpirun.sh N COMMAND... [: COMMAND...]
#         on N ranks of this machine, whatever its number of cores, as root or not; or of the hosts of ci/netns.sh, in
#         turns. Of several commands rank 0 runs the first, rank 1 the second, and all others the last. (Not the
#         launcher's own colon: Open MPI 5.0.7's ends in a segmentation fault then, open-mpi/ompi issue 13303.)
#     bench/tests/mpirun.sh --kind
#         prints orte, prrte or hydra
#     bench/tests/mpirun.sh --says absent|lost|unreachable
#         prints a pattern (grep -E) of what the launcher, or its MPI, says of a rank that never calls MPI_Init; of
#         rank 1 if that is killed on another host; of a host that is not there
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
    for word in "$@" :::; do
        if [ "$word" != ::: ]; then
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
    *"(Open MPI) "[1-4].* | *"(OpenRTE) "*) echo orte ;;
    *"(Open MPI) "*) echo prrte ;;
    *HYDRA*) echo hydra ;;
    *) echo "mpirun.sh: $program: is none of the launchers known here; Open MPI's or MPICH's works" >&2; return 3 ;;
    esac
}

case $1 in
--kind) kind; exit ;;
--says)
    k=$(kind)
    case $k/$2 in
    orte/absent) echo 'exiting improperly' ;;
    orte/unreachable) echo 'nowhere|ORTE was unable|daemon' ;;
    */absent) echo 'a^' ;; # matches nothing: rank 0 says it
    prrte/lost) echo 'process rank 1 with PID .* signal 9|An error occurred in Socket closed' ;; # MPI ends all itself
    */lost) echo 'a^' ;;
    prrte/unreachable) echo 'lost communication with a remote daemon' ;;
    hydra/unreachable) echo 'Launch proxy failed' ;;
    *) echo "mpirun.sh: --says: $2: is not known of this launcher" >&2; exit 2 ;;
    esac
    exit
    ;;
esac

# As root, and more ranks than cores; Hydra needs no permission for either.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_btl_base_warn_component_unused=0
hosts=()
if [ -n "${NETNS_HOSTS:-}" ]; then
    k=$(kind)
    case $k in
    hydra)
        [ "$NETNS_WIRE" ] || { echo "skipped: MPICH's UCX finds no network of a host without its own /sys"; exit 77; }
        hosts=(-hosts "${NETNS_HOSTS// /,}" -iface "$NETNS_WIRE" -launcher rsh -launcher-exec "$NETNS_AGENT")
        export UCX_NET_DEVICES=$NETNS_WIRE UCX_TLS=tcp,self
        ;;
    *)
        hosts=(--host "${NETNS_HOSTS// /,}")
        export OMPI_MCA_rmaps_base_mapping_policy=node PRTE_MCA_rmaps_default_mapping_policy=node:oversubscribe
        export OMPI_MCA_plm_rsh_agent=$NETNS_AGENT PRTE_MCA_plm_ssh_agent=$NETNS_AGENT
        export OMPI_MCA_oob_tcp_if_include=$NETNS_NETWORK PRTE_MCA_prte_if_include=$NETNS_NETWORK
        export OMPI_MCA_btl_tcp_if_include=$NETNS_NETWORK OMPI_MCA_btl=tcp,self,vader
        export OMPI_MCA_orte_keep_fqdn_hostnames=1
        ;;
    esac
fi
ranks=$1
shift
command=()
for word in "$@"; do # a colon is the launcher's own
    [ "$word" != : ] || word=:::
    command+=("$word")
done
[[ " ${command[*]} " != *" ::: "* ]] || command=(bash "${BASH_SOURCE[0]}" --rank "${command[@]}")
exec timeout --kill-after=10 "${MPIRUN_SECONDS:-600}" \
    "$program" "${hosts[@]}" -n "$ranks" ${MPIRUN_FLAGS:-} "${command[@]}"
