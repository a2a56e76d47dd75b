# SPDX-License-Identifier: MIT
# Helpers of the integration tests: a scratch folder that is removed at the end, running the program while keeping its
# exit status and both outputs, and checks of rows by a Python expression. Sourced, not run. Needs LOCKSTEP (path of
# the program), python3 and, for the schema of rows, python3-jsonschema. Leaves out the program's internals: tests
# judge what a user sees.
: "${LOCKSTEP:?path of the program}"
library=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

work=$(mktemp -d)
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} # CTest sets one for all tests of a build
# Debian's python3 has jsonschema, and starts in 20 ms. If it is the one in PATH, nothing is hidden from, or shown to,
# the test that PATH does not have.
[ "$(command -v python3)" -ef /usr/bin/python3 ] || PATH=/usr/bin:$PATH
for program in ${LOCKSTEP_HIDDEN:-}; do # names that ci/test-build.sh hides
    ! command -v "$program" || { echo "$program: is not hidden from this test"; exit 1; }
done
trap 'cleanup_more || true; [ -z "$judge" ] || kill "$judge" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

checks=0
failures=0
code=0
command_line=

# Tests that must clean up more than files (a mount, a process) redefine this.
cleanup_more() { :; }

# Reports an error and continues, so that one run shows all errors.
wrong() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$1"
    [ -z "$command_line" ] || printf '  command: lockstep %s\n  status:  %s\n' "$command_line" \
        "$code"
    [ ! -s "$work/err" ] || head -c 1500 "$work/err" | sed 's/^/  stderr:  /'
}

# At the end of a test, check_rows.py validates every row it made, from `out` or the files named, against the schema.
collect_rows() { sed -n '/^{"schema":.*}$/p' "${@:-$work/out}" >>"$work/every.rows"; }

# Runs the program with the arguments; stores its exit status in $code and its outputs in $work/out and $work/err.
lockstep() {
    command_line=$*
    code=0
    timeout -k 5 600 "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null 8>&- 9<&- || code=$?
    # a sweep of over 10 s says how far it is: no matter of this test, and different on each machine
    [ ! -s "$work/err" ] || [[ " $* " == *" --progress "* ]] || sed -i '/^case [0-9]*\/[0-9]* /d' "$work/err"
    collect_rows
}

# The same for a command that must succeed and, unless asked to, print nothing to stderr.
lockstep_ok() {
    lockstep "$@"
    checks=$((checks + 1))
    [ "$code" -eq 0 ] || wrong "exit status $code, 0 wanted"
    [ ! -s "$work/err" ] || [[ " $* " == *" --verbose "* ]] || wrong \
        "says something on stderr though all is well"
}

# expect WHAT CONDITION...: the condition is a command.
expect() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" || wrong "$what"
}

# one_line [WORD]: stderr is a single refusal that contains the word.
one_line() { [ "$(grep -c "^lockstep: .*${1:-}" "$work/err")/$(wc -l <"$work/err")" = 1/1 ]; }

# rows WHAT EXPRESSION: checks a Python expression over `rows` (the JSON lines of the last command) and `r`, the
# first; `old(NAME)` reads rows kept by `keep NAME`. judge.py evaluates it.
rows() {
    local what=$1 why
    checks=$((checks + 1))
    [ -n "$judge" ] || start_judge
    printf '%s\n%s\0' "$PWD" "$2" >&8
    IFS= read -r -d '' -u 9 why || { why="judge.py has ended"; judge=; }
    [ -z "$why" ] || { wrong "$what"; printf '%s\n' "$why" | sed 's/^/  /'; }
}

judge=
start_judge() { # descriptors 8 and 9
    mkfifo "$work/.to_judge" "$work/.from_judge"
    python3 -B "$library/judge.py" "$work" <"$work/.to_judge" >"$work/.from_judge" &
    judge=$!
    disown "$judge"
    exec 8>"$work/.to_judge" 9<"$work/.from_judge"
    rm "$work/.to_judge" "$work/.from_judge"
}

# without_ranks: whether this build, or this machine, has no MPI; prints why. `launcher` N COMMAND runs ranks.
launcher=$library/mpirun.sh
without_ranks() {
    if "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build'; then
        echo "skipped: no MPI in this build"
    else
        local status=0
        "$launcher" --kind >"$work/kind" || status=$?
        [ "$status" -eq 77 ] || return 1 # a launcher that is not known fails the test
        cat "$work/kind"
    fi
}

# ours FILE: from what ranks and their launcher said, what ranks said; some launchers write zero bytes, too.
ours() { tr -d '\0' <"$1" | grep '^lockstep: ' || true; }

# thorough: whether the test runs in the slow tier, with all of its cases; else with one of each kind.
thorough() { [ -n "${LOCKSTEP_THOROUGH:-}" ]; }

# planted: for each line "BUG OPTIONS" of the file `table`, the test's function `detect BUG OPTIONS` must set $found, to
# what detected the bug, and without a bug to "".
planted() {
    local bug options
    while read -r bug options; do
        detect "" "$options"
        command_line="nothing is planted: $options"
        expect "but: $found" test -z "$found"
        detect "$bug" "$options"
        command_line="planted: $bug $options"
        expect "$bug is not detected" test -n "$found"
        printf '%-24s %s\n' "$bug" "$found"
    done <table
    : >every.rows # those of planted bugs
}

# sanitized [thread|address]: whether the program was built with that sanitizer, or with any.
sanitized() { [[ $("$LOCKSTEP" --version) == *fsanitize=${1:-}* ]]; }

# until_caught PID: waits until a program in the background catches SIGINT; until then it ignores it, and it is not
# known how long a busy machine takes to start it.
until_caught() {
    local waited=0 caught=0
    until [ $((16#${caught:-0} & 2)) -ne 0 ] || [ "$((waited += 1))" -gt 1200 ]; do
        sleep 0.05
        caught=$(sed -n 's/^SigCgt:[^0-9a-f]*//p' "/proc/$1/status" 2>/dev/null || true)
    done
}

# Keeps the rows of the last command by name, for `old` and `digest`.
keep() { cp "$work/out" "$work/$1.kept"; }

# The last call of each test.
finish() {
    command_line=
    : >"$work/err"
    if [ -s "$work/every.rows" ]; then
        local why
        checks=$((checks + 1))
        why=$(python3 -B "$library/check_rows.py" "$work/every.rows" 2>&1) ||
            { wrong "rows against their schema"; printf '%s\n' "$why" | sed 's/^/  /'; }
    fi
    if [ "$failures" -gt 0 ]; then
        printf '%d of %d checks failed\n' "$failures" "$checks"
        exit 1
    fi
    printf '%d checks passed\n' "$checks"
}

# agree WHAT ARGS..: runs the cases; all are ok with the same bits as their judge, and with the bytes, messages and
# memory of their formulas.
agree() {
    lockstep_ok run "${@:2}"
    rows "$1: ok, same bits" "all(r['result']['status'] == 'ok' and (r['equivalence']['oracle'] == 'same bits' or
        r['case'].get('ps_mode') == 'async') for r in rows) or [(r['case'], r['result'], r['equivalence']) for r in rows]"
    rows "$1: bytes and messages as by formula" "all(r['traffic'][k + '_sent'] == r['traffic'][k + '_formula']
        for r in rows if 'traffic' in r for k in ('bytes', 'messages'))"
    rows "$1: memory as by formula" "all(d[k] == v for r in rows for d in r['memory']['devices']
        for k, v in d['formula'].items())"
}

# alike WHAT OPTIONS STRATEGIES..: verifies them in exact mode; `$same`, an expression over their rows, holds.
alike() {
    local name=$1 options=$2 strategy
    shift 2
    for strategy; do
        # shellcheck disable=SC2086
        lockstep_ok verify $options $strategy --reduce exact --warmup 0
        cat out >>every
    done
    mv every out
    rows "$name: one digest" "$same"
}
