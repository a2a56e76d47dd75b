#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The job scripts of ci/slurm run as written, with their options, on this machine: srun is stood in
# for by mpirun, or by the program itself where there is one rank. Leaves out: Slurm.
set -euo pipefail
launcher=$(cd "$(dirname "$0")" && pwd)/mpirun.sh
. "$(dirname "$0")/lib.sh"
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed (openmpi-bin)"; exit 77; }
! "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build' || { echo "skipped: no MPI in this build"; exit 77; }
! "$LOCKSTEP" --version | grep -q 'fsanitize=thread' || { echo "skipped: Open MPI is not instrumented"; exit 77; }
export ASAN_OPTIONS=detect_leaks=0 LOCKSTEP
mkdir bin
cat >bin/srun <<S
#!/usr/bin/env bash
while [[ \$1 == --* ]]; do shift; done
[ "\$SLURM_NTASKS" -gt 1 ] || exec "\$@"
exec bash "$launcher" "\$SLURM_NTASKS" "\$@"
S
cat >bin/short <<'S'
#!/usr/bin/env bash
# the program, with little to do
[ "$1" = devices ] || set -- "$@" --data synthetic:1024 --warmup 1
[ "$1" != run ] || set -- "$@" --steps 4
exec "$LOCKSTEP" "$@"
S
chmod +x bin/srun bin/short
job() { # job FILE RANKS
    command_line="(job $1)"
    code=0
    env PATH="$work/bin:$PATH" LOCKSTEP="$work/bin/short" SLURM_NTASKS="$2" SLURM_SUBMIT_DIR="$work" SLURM_JOB_ID="$1" \
        SLURM_CPUS_PER_TASK=1 SLURM_JOB_NUM_NODES=1 SLURM_GPUS_ON_NODE=2 bash "$SOURCE_DIR/ci/slurm/$1.sbatch" \
        >out.log 2>err </dev/null || code=$?
    lockstep_ok results list --format jsonl --results "lockstep-$1.db"
}
sed -i "s|exec \"\$LOCKSTEP\"|exec \"$LOCKSTEP\"|" bin/short
job cpu 2
rows "strong and weak, with baselines" "all(x['result']['status'] == 'ok' for x in rows) and
    sorted((x['case']['strategy'], x['case']['scaling'], x['case']['ranks']) for x in rows
        if x['case']['strategy'] != 'single') ==
    [(s, k, 2) for s in ('independent', 'mirrored') for k in ('strong', 'weak')]"
job gpu 1
rows "one and all devices" "all(x['result']['status'] == 'ok' for x in rows) and
    {len(x['case']['devices']) for x in rows} == {1, 2}"
finish
