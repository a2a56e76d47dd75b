# SPDX-License-Identifier: MIT
# For integration tests of several processes: skips if there is no MPI, and runs the program on several ranks. Source
# it instead of lib.sh, which it sources.
launcher=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/mpirun.sh
. "$(dirname "$launcher")/lib.sh"
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed (openmpi-bin)"; exit 77; }
! "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build' || { echo "skipped: no MPI in this build"; exit 77; }
! sanitized thread || { echo "skipped: Open MPI is not instrumented"; exit 77; }
export ASAN_OPTIONS=detect_leaks=0 # Open MPI never frees some of its memory

# ranks N ARGUMENTS...: like `lockstep`, on N ranks.
ranks() {
    local n=$1
    shift
    command_line="(on $n ranks) $*"
    code=0
    "$launcher" "$n" "$LOCKSTEP" "$@" >"$work/out" 2>"$work/all" </dev/null ||
        code=$?
    collect_rows
    grep '^lockstep: ' "$work/all" >"$work/err" || true # stderr also has the launcher's lines
}
ranks_ok() {
    ranks "$@"
    checks=$((checks + 1))
    [ "$code" -eq 0 ] || { wrong "exit status $code, 0 wanted"; head -n 20 "$work/all"; }
}
