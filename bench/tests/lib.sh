# SPDX-License-Identifier: MIT
# Helpers of the integration tests: a folder to work in that is removed at the end, the program run
# with its status and both outputs kept, and rows judged by a line of Python. Sourced, not run.
# Needs LOCKSTEP (path of the program), python3 and, for the schema of rows, python3-jsonschema.
# Leaves out: anything that knows how the program is made; tests judge what an outsider sees.
: "${LOCKSTEP:?path of the program}"
library=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

work=$(mktemp -d)
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} # CTest's is one for all tests of a build
PATH=/usr/bin:$PATH # Debian's python3 has jsonschema, and starts in 20 ms
trap 'cleanup_more || true; rm -rf "$work"' EXIT
cd "$work"

checks=0
failures=0
code=0
command_line=

# Tests that hold more than files (a mount, a process) redefine this.
cleanup_more() { :; }

# Says what is wrong and goes on: one run shows all that is broken.
wrong() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$1"
    [ -z "$command_line" ] || printf '  command: lockstep %s\n  status:  %s\n' "$command_line" \
        "$code"
    [ ! -s "$work/err" ] || head -c 1500 "$work/err" | sed 's/^/  stderr:  /'
}

# Every row that a test has made, from `out` or the files named, is held against the schema at its
# end (check_rows.py).
collect_rows() { sed -n '/^{"schema":.*}$/p' "${@:-$work/out}" >>"$work/every.rows"; }

# Runs the program with the arguments; leaves its status in $code, its outputs in $work/out and err.
lockstep() {
    command_line=$*
    code=0
    timeout -k 5 600 "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    collect_rows
}

# The same for a command that must go well and, unless asked to, say nothing on stderr.
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

# one_line [WORD]: stderr is one refusal, and it has the word.
one_line() { [ "$(grep -c "^lockstep: .*${1:-}" "$work/err")/$(wc -l <"$work/err")" = 1/1 ]; }

# rows WHAT EXPRESSION: a Python expression over `rows` (the JSON lines of the last command) and
# `r`, the first; `old(NAME)` reads rows kept by `keep NAME`.
rows() {
    local what=$1 why
    checks=$((checks + 1))
    why=$(python3 - "$work" "$2" 2>&1 <<'P'
import json, math, os, re, sys
work, expression = sys.argv[1:]
def read(path):
    with open(os.path.join(work, path)) as lines:
        return [json.loads(line) for line in lines]
def old(name):
    return read(name + ".kept")
def digest(name):
    return old(name)[0]["equivalence"]["digest"]
rows = read("out")
r = rows[0] if rows else {}
if not eval("(" + expression + ")", {**globals(), "r": r, "rows": rows}):
    brief = {k: r.get(k) for k in ("case", "result", "train", "equivalence")}
    sys.exit("not so: " + " ".join(expression.split()) + "\n  row: " + json.dumps(brief)[:1500])
P
    ) || { wrong "$what"; printf '%s\n' "$why" | sed 's/^/  /'; }
}

# sanitized [thread|address]: by that sanitizer, or any.
sanitized() { [[ $("$LOCKSTEP" --version) == *fsanitize=${1:-}* ]]; }

# Keeps the rows of the last command under a name for `old` and `digest`.
keep() { cp "$work/out" "$work/$1.kept"; }

# The last line of each test.
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
