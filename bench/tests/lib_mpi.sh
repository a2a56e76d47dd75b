# SPDX-License-Identifier: MIT
# For integration tests of several processes: skips if there is no MPI, and runs the program on several ranks. Source
# it instead of lib.sh, which it sources.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
! without_ranks || exit 77
! sanitized thread || { echo "skipped: MPI is not instrumented"; exit 77; }
export ASAN_OPTIONS=detect_leaks=0 # MPI never frees some of its memory
kind=$("$launcher" --kind)

# ranks N ARGUMENTS...: like `lockstep`, on N ranks; after a colon, the whole command of the ranks that follow.
ranks() {
    local n=$1
    shift
    command_line="(on $n ranks) $*"
    code=0
    "$launcher" "$n" "$LOCKSTEP" "$@" >"$work/out" 2>"$work/all" </dev/null ||
        code=$?
    collect_rows
    ours "$work/all" >"$work/err"
}
ranks_ok() {
    ranks "$@"
    checks=$((checks + 1))
    [ "$code" -eq 0 ] || { wrong "exit status $code, 0 wanted"; head -n 20 "$work/all"; }
}
