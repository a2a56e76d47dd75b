#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A Slurm of one node (ci/slurm/one-node.sh): srun with each way to connect tasks, and with none; mpirun and a plain
# process in an allocation; ranks that are killed or exit during training, with and without --kill-on-bad-exit; the
# job scripts of ci/slurm as they are. Leaves out several nodes and GPUs.
set -euo pipefail
if [ -z "${SLURM_CONF:-}" ]; then # runs itself again, inside a Slurm
    exec "$SOURCE_DIR/ci/slurm/one-node.sh" --gpus 2 bash "$0"
fi
. "$(dirname "$0")/lib_mpi.sh"
[ "$kind" != hydra ] || { echo "skipped: MPICH finds no peers under srun here (ranks.md)"; exit 77; }
[[ $(srun --mpi=list 2>&1) == *pmix* ]] || { echo "skipped: this Slurm has no PMIx (libpmix2)"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo "skipped: one core; jobs of two tasks would wait"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0
small="--model mlp:784-16-10 --data synthetic:500 --batch 60 --steps 20 --results none --format jsonl"

# under COMMAND...: lockstep's own lines go to err, all others to all.
under() {
    command_line="$*"
    code=0
    timeout --kill-after=10 120 "$@" >out 2>all </dev/null || code=$?
    ours all >err
}
step() { under srun --quiet --overcommit "$@"; }

# ---- Meeting, or not --------------------------------------------------------------------------

step -n 2 "$LOCKSTEP" run --results plain.db $small
expect "plain srun: status 3" [ "$code" -eq 3 ]
expect "one line of the two" one_line 'srun --mpi=pmix, or mpirun in the allocation.*--launcher none'
expect "no row" [ ! -s out ]
for command in "verify --data synthetic:500 --steps 5 --results none" devices "micro allreduce"; do
    step -n 2 "$LOCKSTEP" $command
    expect "nor anything else: status 3" [ "$code" -eq 3 -a ! -s out ]
    expect "one line" one_line 'srun --mpi=pmix'
done
step -n 2 --mpi=pmi2 "$LOCKSTEP" run $small
expect "PMI-2: status 3" [ "$code" -eq 3 -a ! -s out ]
expect "one line that says what works" one_line 'srun --mpi=pmix'
expect "and nothing of Open MPI's" eval "! grep -qi 'OMPI\|MPI_Init' all"
step -n 2 "$LOCKSTEP" run $small --launcher none
expect "each alone, on purpose" [ "$code" -eq 0 -a ! -s err ]
rows "a row each" "len(rows) == 2 and all(x['case']['ranks'] == 1 for x in rows)"
under bash "$launcher" 2 "$LOCKSTEP" run $small --strategy mirrored --reduce exact
keep mpirun
step -n 2 --mpi=pmix "$LOCKSTEP" run $small --strategy mirrored --reduce exact
expect "PMIx: status 0" [ "$code" -eq 0 -a ! -s err ]
rows "one row, of the bits that mpirun has" "len(rows) == 1 and r['case']['ranks'] == 2 and
    r['equivalence']['digest'] == digest('mpirun')"
under salloc --quiet -n 2 "${MPIRUN:-mpirun}" "$LOCKSTEP" run $small --strategy mirrored --reduce exact
expect "mpirun in an allocation: status 0" [ "$code" -eq 0 -a ! -s err ]
rows "the same" "r['case']['ranks'] == 2 and r['equivalence']['digest'] == digest('mpirun')"
step -n 1 "$LOCKSTEP" run $small
expect "one task: status 0" [ "$code" -eq 0 -a ! -s err ]
printf '#!/bin/sh\nexec "$LOCKSTEP" run %s\n' "$small" >own.sh
LOCKSTEP=$LOCKSTEP under sbatch --wait --quiet -n 2 -o own.log own.sh
expect "a batch script's own process: status 0" [ "$code" -eq 0 ]
cp own.log out
rows "has its row" "r['result']['status'] == 'ok' and r['case']['ranks'] == 1"

# ---- Ranks that go ----------------------------------------------------------------------------

program=("$LOCKSTEP")
die() { # die FAULT VICTIM STRATEGY SRUN_FLAGS...
    local fault=$1 victim=$2 strategy=$3
    shift 3
    printf 'cases:\n- {seed: [1, 2, 3, 4, 5, 6, 7, 8], steps: 2, warmup: 0, gate-steps: 0}\n- {inject: "%s=%s:30", steps: 200}\n' \
        "$fault" "$victim" >plan.yaml # rows of healthy cases, then the case that ends
    rm -f r.db
    step --mpi=pmix -n 3 "$@" "${program[@]}" run --strategy $strategy --model mlp:784-16-10 \
        --data synthetic:500 --batch 60 --blocks 1 --format jsonl --results r.db \
        --timeout 2s --plan plan.yaml
    expect "$fault: status not 0, in time" [ "$code" -ne 0 -a "$code" -ne 124 ]
    expect "the rank that is gone is named" eval \
        "grep -q '^lockstep: rank $victim on .*has ended\|; rank $victim on [^ ]* (pid [0-9]*) has ended' err"
    rows "the rows so far are printed" "[x['result']['status'] for x in rows[:8]] == ['ok'] * 8"
    [ "$victim" -eq 0 ] || rows "and that of the case that ended so" \
        "[(x['result']['status'], x['case']['inject']) for x in rows[8:]] == [('error', '$fault=$victim:30')]"
    keep printed
    lockstep_ok results list --format jsonl --results r.db
    rows "and kept" "rows == old('printed')"
}
for strategy in "mirrored --allreduce ring" "mirrored --allreduce direct" ps independent; do
    for fault in kill exit; do
        die $fault 1 "$strategy"
        die $fault 0 "$strategy"
    done
    die kill 1 "$strategy" --kill-on-bad-exit=1
done
printf '#!/bin/sh\n"$@"\n' >wrapper
chmod +x wrapper
program=("$work/wrapper" "$LOCKSTEP") # the task is not the rank's own process
die kill 1 "mirrored --allreduce ring"
# mpirun with Slurm's own launcher no longer forwards what the others say, nor the last row: ranks.md.
rm -f r.db
under salloc --quiet -n 2 "${MPIRUN:-mpirun}" --oversubscribe -n 3 \
    "$LOCKSTEP" run --strategy mirrored --model mlp:784-16-10 --data synthetic:500 --batch 60 --blocks 1 --format jsonl --results r.db --timeout 2s --plan plan.yaml
expect "mpirun in an allocation: a killed rank's status" [ "$code" -eq 137 ]
rows "the rows so far are printed" "[x['result']['status'] for x in rows[:8]] == ['ok'] * 8"
keep printed
lockstep_ok results list --format jsonl --results r.db
rows "and kept" "rows[:8] == old('printed')[:8]"
command_line="(interrupted) run"
code=0
srun --quiet --mpi=pmix -n 2 --job-name=endless "$LOCKSTEP" run ${small/--steps 20/--steps 100000000} \
    --strategy mirrored --progress yes >out 2>all </dev/null &
for ((i = 0; i < 600; i++)); do grep -q ' timing, ' all && break || sleep 0.1; done
scancel --signal=INT --name=endless
wait $! || code=$?
expect "an interrupt of the job: status 130" [ "$code" -eq 130 ]
rows "and its row" "'interrupted after' in r['result']['reason']"
left() { # this Slurm's processes that keep connections open
    local comm
    for comm in /proc/[0-9]*/comm; do
        ! grep -qsx lockstep-keeper "$comm" || ! grep -qsaF "$SLURM_CONF" "${comm%comm}environ" || return 0
    done
    return 1
}
for ((i = 0; i < 100; i++)); do left && sleep 0.1 || break; done
expect "nobody is left that kept a connection" eval '! left'

# ---- The job scripts --------------------------------------------------------------------------

cat >short <<S
#!/usr/bin/env bash
# the program, with little work
[ "\$1" = devices ] || set -- "\$@" --data synthetic:1024 --warmup 1
[ "\$1" != run ] || set -- "\$@" --steps 4
exec "$LOCKSTEP" "\$@"
S
chmod +x short
for file in cpu gpu; do
    LOCKSTEP=$work/short under sbatch --wait --parsable -o $file.log "$SOURCE_DIR/ci/slurm/$file.sbatch"
    expect "$file.sbatch: status 0" [ "$code" -eq 0 ]
    lockstep_ok results list --format jsonl --results "lockstep-$(cat out).db"
    rows "its rows are well" "len(rows) > 4 and all(x['result']['status'] == 'ok' for x in rows)"
done

# Submits itself for each number of nodes, here one, and once to join their rows.
cat >shorter <<S
#!/usr/bin/env bash
[ "\$1" = results ] || set -- "\$@" --data synthetic:1024 --warmup 1 --steps 4
exec "$LOCKSTEP" "\$@"
S
chmod +x shorter
LOCKSTEP=$work/shorter SBATCH_WAIT=1 under "$SOURCE_DIR/ci/slurm/scaling.sh" 1
expect "scaling.sh: status 0" [ "$code" -eq 0 ]
lockstep_ok results list --format jsonl --results lockstep-scaling.db
rows "its rows are well" "len(rows) == 4 and all(x['result']['status'] == 'ok' for x in rows)"

# ---- The README's -----------------------------------------------------------------------------

mkdir build
ln -s "$LOCKSTEP" build/lockstep
ln -s "$SOURCE_DIR/ci" .
grep -E '^[^#`]*\b(sbatch|srun|salloc) .*lockstep|^LOCKSTEP=.* sbatch ' "$SOURCE_DIR/README.md" | grep -v '[.`]$' >commands
expect "three commands" [ "$(wc -l <commands)" -eq 3 ]
while read -r -u 3 line; do
    under bash -c "${line/sbatch /sbatch --wait }"
    expect "well" [ "$code" -eq 0 -a -s out ]
done 3<commands
finish
