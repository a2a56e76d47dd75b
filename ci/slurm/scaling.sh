#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Scaling over nodes: ci/slurm/scaling.sh [OPTION OF sbatch]... NODES...
# Submits itself once for each number of nodes, and once more to join their rows when all have ended:
#
#     LOCKSTEP=$PWD/build/lockstep ci/slurm/scaling.sh --time=30 1 2 4 8
#
# Each job's ranks share the cores of its nodes. They train with the same global batch (strong scaling), then with the
# same batch per rank (weak), compared with `single`. Rows go to lockstep-scaling-NODES.db, and finally all to
# lockstep-scaling.db, for which `results list` shows speed-up and efficiency. Default numbers: 1 2. To adapt: STRATEGY,
# MODEL and BATCH in the environment; options of sbatch (--partition, --account, --ntasks-per-node) before the numbers.
#SBATCH --job-name=lockstep-scaling
#SBATCH --ntasks-per-node=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:20:00
set -euo pipefail
lockstep=${LOCKSTEP:-lockstep}
command -v "$lockstep" >/dev/null || {
    echo "scaling.sh: LOCKSTEP: $lockstep: there is no such program on $(hostname); set LOCKSTEP=/path/lockstep" >&2
    exit 3
}

submit() { # options of sbatch, then numbers of nodes
    local options=() jobs=() nodes job
    while [[ ${1:-} == -* ]]; do
        options+=("$1")
        shift
    done
    [ $# -gt 0 ] || set -- 1 2
    for nodes in "$@"; do
        [[ $nodes =~ ^[1-9][0-9]*$ ]] || {
            echo "scaling.sh: NODES: $nodes: this is not a number of nodes; use for example ci/slurm/scaling.sh 1 2 4" >&2
            exit 2
        }
    done
    command -v sbatch >/dev/null || {
        echo "scaling.sh: sbatch is not installed here; run this script where jobs are submitted" >&2
        exit 3
    }
    for nodes in "$@"; do
        job=$(sbatch --parsable --nodes="$nodes" --output="lockstep-scaling-$nodes.log" \
            ${options[@]+"${options[@]}"} "$0" measure "$nodes")
        jobs+=("${job%%;*}")
        echo "$nodes nodes: job ${job%%;*}, lockstep-scaling-$nodes.log"
    done
    job=$(sbatch --parsable --nodes=1 --dependency="afterany:$(IFS=:; echo "${jobs[*]}")" \
        --output=lockstep-scaling.log ${options[@]+"${options[@]}"} "$0" join "$@")
    echo "then all of them: job ${job%%;*}, lockstep-scaling.log, lockstep-scaling.db"
}

measure() { # measure NODES: what this job runs
    local ranks=$SLURM_NTASKS_PER_NODE cores cpus
    [[ $(srun --mpi=list 2>&1) == *pmix* ]] || {
        echo "scaling.sh: srun --mpi=list: this Slurm does not support pmix; ask its administrator for pmix, or replace srun by mpirun in this script" >&2
        exit 3
    }
    # Cores, not the hardware threads that Slurm counts as CPUs: a rank's share of the node's, at most 64.
    cores=$(lscpu --parse=Core,Socket | grep -v '^#' | sort -u | wc -l)
    cores=$((cores > ranks ? cores / ranks : 1))
    cpus=$((SLURM_CPUS_ON_NODE > ranks ? SLURM_CPUS_ON_NODE / ranks : 1))
    rm -f "lockstep-scaling-$1.db"
    srun --mpi=pmix --cpu-bind=cores --cpus-per-task="$cpus" --kill-on-bad-exit=1 "$lockstep" run \
        --model "${MODEL:-mlp}" --strategy "${STRATEGY:-mirrored}" --batch "${BATCH:-512}" --scaling strong,weak \
        --baseline yes --timeout 60s --label "scaling $1 nodes" --results "lockstep-scaling-$1.db" \
        --cores-per-device "$((cores > 64 ? 64 : cores))"
}

join() { # join NODES...: skips a number whose job has no rows
    local nodes
    for nodes in "$@"; do
        "$lockstep" results import "lockstep-scaling-$nodes.db" --results lockstep-scaling.db ||
            echo "scaling.sh: NODES: $nodes: this run left no results; lockstep-scaling-$nodes.log says why" >&2
    done
    "$lockstep" results list --results lockstep-scaling.db --where 'label~scaling' --sort case.hosts --columns \
        case.hosts,case.ranks,strategy,scaling,samples_per_s,speedup,efficiency,status
}

case ${1:-} in
measure | join) "$@" ;;
*) submit "$@" ;;
esac
