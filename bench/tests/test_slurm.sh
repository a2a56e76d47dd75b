#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Slurm without Slurm: launchers' variables, set by hand, and the job scripts of ci/slurm as written, with their
# options; mpirun replaces srun, or the program itself if there is one rank. Leaves out Slurm (test_slurm_slow.sh).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
unset "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!OMPI_@}"
small="--data synthetic:500 --batch 60 --steps 4 --warmup 1 --results none --format jsonl"

# ---- Tasks that MPI does not bring together ---------------------------------------------------

# as VARIABLES COMMAND...: runs the program as a task whose launcher set these.
as() {
    local variables=$1
    shift
    command_line="($variables) $*"
    code=0
    env $variables timeout 50 "$LOCKSTEP" "$@" >out 2>err </dev/null || code=$?
}
refused() {
    expect "status 3" [ "$code" -eq 3 ]
    expect "one line that names what works" one_line "; .*$1.* --launcher none"
    expect "and nothing is printed" [ ! -s out ]
}
step="SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2"
built=1
works='srun --mpi=pmix, or mpirun in the allocation'
case $("$LOCKSTEP" --version) in
*'OpenMPI    not in this build'*) built='' works='' ;;
*MPICH*) works="MPICH's mpirun in the allocation" ;;
esac
for command in "run $small" "verify --data synthetic:500 --results none" devices "micro floor" "micro allreduce"; do
    as "$step SLURM_PROCID=0" $command
    refused "${works:-without a launcher}"
done
as "$step SLURM_PROCID=1" run $small
expect "every task fails" [ "$code" -eq 3 ]
expect "but the first of them says nothing" [ ! -s out -a ! -s err ]
for variables in "$step SLURM_PROCID=0 PMI_RANK=0 PMI_SIZE=2" "SLURM_STEP_NUM_TASKS=2"; do
    as "$variables" run $small # no variables of MPI: MPI_Init is not reached
    refused "${works:-without a launcher}"
done
for variables in "PMI_RANK=0 PMI_SIZE=2" "MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2"; do
    as "$variables" run $small
    refused "${built:+mpirun}"
done
if [ "$built" ] && ! sanitized thread; then
    as "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2" run $small # MPI_Init finds no peer
    refused mpirun
fi
as "$step SLURM_PROCID=0" list strategies
expect "rank 0 lists" [ "$code" -eq 0 -a "$(grep -c '^ *mirrored ' out)" -eq 1 ]
as "$step SLURM_PROCID=1" list strategies
expect "and it alone" [ "$code" -eq 0 -a ! -s out -a ! -s err ]

# Alone on request, although the launcher started two.
for rank in 0 1; do
    as "$step SLURM_PROCID=$rank PMI_RANK=$rank PMI_SIZE=2" run $small --launcher none
    expect "alone, task $rank is well" [ "$code" -eq 0 -a ! -s err ]
    rows "and has its row" "len(rows) == 1 and r['result']['status'] == 'ok' and r['case']['ranks'] == 1"
done
as "$step SLURM_PROCID=1" devices --launcher=none
expect "devices, too" [ "$code" -eq 0 -a -s out -a ! -s err ]
for command in run devices micro\ floor; do
    lockstep $command --launcher some
    expect "another word is refused" [ "$code" -eq 2 ]
    expect "with what is valid" one_line 'launcher: .*auto, none'
done
echo 'launcher: none' >plan.yaml
lockstep run $small --plan plan.yaml
expect "in a plan it comes too late" [ "$code" -eq 2 ]
expect "which is said" one_line 'plan.yaml.*launcher.*command line'

# Processes that are not one of several tasks: in a batch script, in a shell, in a step of one task.
for variables in "SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_NPROCS=2 SLURM_PROCID=0 SLURM_TASKS_PER_NODE=2" \
    "SLURM_NTASKS=2 SLURM_STEP_ID=batch SLURM_STEP_NUM_TASKS=2" \
    "SLURM_NTASKS=2 SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=2" \
    "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 PMI_RANK=0 PMI_SIZE=1"; do
    as "$variables" run $small
    expect "it works" [ "$code" -eq 0 -a ! -s err ]
    rows "and has its row" "r['result']['status'] == 'ok' and r['case']['ranks'] == 1"
done

# ---- The job scripts --------------------------------------------------------------------------

if without_ranks || sanitized thread; then
    echo "without mpirun, or an MPI that this build may use, no more is tested"
    finish
    exit 0
fi
export ASAN_OPTIONS=detect_leaks=0 LOCKSTEP
for n in 1 2; do # mpirun's daemons are themselves tasks of a step
    code=0
    command_line="(mpirun -n $n in a step) run"
    env $step SLURM_PROCID=1 bash "$launcher" "$n" "$LOCKSTEP" run $small --strategy mirrored >out 2>err || code=$?
    expect "mpirun in an allocation works" [ "$code" -eq 0 ]
    rows "on its own number of ranks" "r['result']['status'] == 'ok' and r['case']['ranks'] == $n"
done
mkdir bin
cat >bin/srun <<S
#!/usr/bin/env bash
[ "\$1" != --mpi=list ] || exec echo "\${MPI_LIST:-none pmi2 pmix}"
while [[ \$1 == --* ]]; do shift; done
[ "\$SLURM_NTASKS" -gt 1 ] || exec "\$@"
exec bash "$launcher" "\$SLURM_NTASKS" "\$@"
S
cat >bin/lscpu <<'S'
#!/usr/bin/env bash
# two cores with two threads each
printf '# Core,Socket\n0,0\n1,0\n0,0\n1,0\n'
S
cat >bin/short <<'S'
#!/usr/bin/env bash
# the program, with little work
[ "$1" = devices ] || set -- "$@" --data synthetic:1024 --warmup 1
[ "$1" != run ] || set -- "$@" --steps 4
exec "$LOCKSTEP" "$@"
S
chmod +x bin/srun bin/lscpu bin/short
sed -i "s|exec \"\$LOCKSTEP\"|exec \"$LOCKSTEP\"|" bin/short
job() { # job FILE RANKS PROGRAM
    command_line="(job $1)"
    code=0
    env PATH="$work/bin:$PATH" LOCKSTEP="$3" SLURM_NTASKS="$2" SLURM_SUBMIT_DIR="$work" SLURM_JOB_ID="$1" \
        SLURM_NTASKS_PER_NODE="$2" SLURM_CPUS_ON_NODE=4 SLURM_JOB_NUM_NODES=1 SLURM_GPUS_ON_NODE=2 \
        bash "$SOURCE_DIR/ci/slurm/$1.sbatch" >out.log 2>err </dev/null || code=$?
}
job cpu 2 "$work/bin/short"
lockstep_ok results list --format jsonl --results lockstep-cpu.db
rows "strong and weak, with baselines" "all(x['result']['status'] == 'ok' for x in rows) and
    sorted((x['case']['strategy'], x['case']['scaling'], x['case']['ranks']) for x in rows
        if x['case']['strategy'] != 'single') ==
    [(s, k, 2) for s in ('independent', 'mirrored') for k in ('strong', 'weak')]"
job gpu 1 "$work/bin/short"
lockstep_ok results list --format jsonl --results lockstep-gpu.db
rows "one and all devices" "all(x['result']['status'] == 'ok' for x in rows) and
    {len(x['case']['devices']) for x in rows} == {1, 2}"
for file in cpu gpu gpu-nodes; do
    job $file 2 "$work/nowhere"
    expect "a program that is not there: status 3" [ "$code" -eq 3 ]
    expect "one line" [ "$(grep -c "^$file.sbatch: LOCKSTEP: .*/nowhere: .*; " err)/$(wc -l <err)" = 1/1 ]
done
for file in cpu gpu-nodes; do
    MPI_LIST="none pmi2" job $file 2 "$work/bin/short"
    expect "a Slurm without PMIx: status 3, and what works" [ "$code$(grep -c 'mpirun.* works' err)" = 31 ]
done
job gpu-nodes 3 "$work/bin/short"
expect "more ranks than GPUs: status 2, and what works" [ "$code$(grep -c 'ntasks-per-node=2 works' err)" = 21 ]

# ---- ci/slurm/scaling.sh: a job for each number of nodes, then one that joins their rows -------

cat >bin/sbatch <<'S'
#!/usr/bin/env bash
# runs the job at once
nodes=1 log=/dev/null
while [[ $1 == --* ]]; do
    [[ $1 != --nodes=* ]] || nodes=${1#*=}
    [[ $1 != --output=* ]] || log=${1#*=}
    echo "$1" >>sbatch.options
    shift
done
export SLURM_NTASKS_PER_NODE=2 SLURM_NTASKS=$((2 * nodes)) SLURM_CPUS_ON_NODE=4 SLURM_JOB_NUM_NODES=$nodes
bash "$@" >"$log" 2>&1 || echo "$* failed" >>sbatch.failed
echo $((100 + $(grep -c parsable sbatch.options)))
S
cat >bin/shorter <<S
#!/usr/bin/env bash
[ "\$1" = results ] || set -- "\$@" --data synthetic:1024 --warmup 1 --steps 4
exec "$LOCKSTEP" "\$@"
S
chmod +x bin/sbatch bin/shorter
scaling() {
    command_line="(scaling.sh $*)"
    code=0
    env PATH="$work/bin:$PATH" LOCKSTEP="$work/bin/shorter" "$SOURCE_DIR/ci/slurm/scaling.sh" "$@" >out 2>err </dev/null ||
        code=$?
}
scaling --time=5 1 2
expect "status 0, and a line a job" [ "$code$(grep -c ' job 10[123],' out)" = 03 ]
expect "all jobs are well" [ ! -e sbatch.failed ]
expect "each has its number of nodes, and the options" [ "$(grep -cxe --nodes=1 -e --nodes=2 -e --time=5 sbatch.options)" -eq 6 ]
expect "the last waits for the others" grep -qx -e --dependency=afterany:101:102 sbatch.options
expect "it shows them" [ "$(grep -cE '^ *1 +[24] +mirrored +(strong|weak) .* ok' lockstep-scaling.log)" -eq 4 ]
lockstep_ok results list --format jsonl --results lockstep-scaling.db
rows "rows of both numbers" "sorted(x['case']['ranks'] for x in rows if x['case']['strategy'] == 'mirrored') == [2, 2, 4, 4] and
    all('speedup' in x['time'] for x in rows if x['case']['strategy'] == 'mirrored')"
scaling two
expect "no number: status 2, one line" [ "$code$(grep -c '^scaling.sh: NODES: two: this is not a number of nodes; use ' err)$(wc -l <err)" = 211 ]
finish
