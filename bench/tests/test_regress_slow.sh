#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep regress` on real builds with planted slowdowns of a fifth (ci/plant-slowdowns.sh); 60 comparisons of a
# program with itself, and 20 next to a busy core, none of which may be wrong; instructions per step of `mlp`, counted
# by callgrind. On a busy machine "cannot tell" is allowed for equal programs. Leaves out detection rates
# (ci/calibrate-regress.sh).
set -euo pipefail
! command -v ccache >/dev/null || export CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
. "$(dirname "$0")/lib.sh"
: "${SOURCE_DIR:?folder of the sources}"

said() { python3 -c 'import json; print(json.load(open("out"))["cases"][0]["verdict"])'; }
compare() { lockstep regress "$1" "$2" --format json --results none --quiet --model mlp "${@:3}"; }

# none_wrong N: none of N comparisons of the program with itself says slower or faster
none_wrong() {
    lockstep regress --calibrate "$1" "$LOCKSTEP" "$LOCKSTEP" --format json --results none --quiet --model mlp \
        --data synthetic:6000 --threshold 3% --max-time 8s
    expect "$1 comparisons, none of them wrong" python3 -c 'import json, sys
equal = json.load(open("out"))[0]
assert equal["comparisons"] == int(sys.argv[1]) and equal["slower"] == equal["faster"] == 0, equal' "$1"
}
none_wrong 60
python3 -c 'import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end: pass
    time.sleep(0.05)' &
none_wrong 20
kill $!

if command -v valgrind >/dev/null; then
    compare "$LOCKSTEP" "$LOCKSTEP" --data synthetic:512 --threshold 50% --max-time 2s --instructions
    expect "instructions are counted, the same of one program" python3 -c 'import json
counted = json.load(open("out"))["instructions"]
assert counted["base"] > 1e6 and abs(counted["ratio"] - 1) < 0.01, counted'
else
    echo "note: valgrind is not here; no instructions are counted"
fi

git -C "$SOURCE_DIR" rev-parse HEAD >/dev/null 2>&1 || { echo "note: no commit to build; no more is tested"; finish; exit; }
"$SOURCE_DIR/ci/plant-slowdowns.sh" planted 20 kernel communication >log 2>&1 || wrong "builds: $(tail -n 3 log)"
compare planted/base planted/base --data synthetic:6000 --threshold 5% --max-time 40s
expect "one program is not slower or faster than itself" grep -qx 'same\|cannot tell' <(said)
compare planted/base planted/kernel --data synthetic:6000 --threshold 5% --max-time 40s
expect "a slower kernel" [ "$(said)" = slower ]
if [ -x planted/communication ]; then
    compare planted/base planted/communication --data synthetic:6000 --threshold 5% --max-time 40s --batch 512 --strategy mirrored --devices 2
    expect "slower communication" [ "$(said)" = slower ]
fi
finish
