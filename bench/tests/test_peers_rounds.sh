#!/bin/sh
# SPDX-License-Identifier: MIT
# How the comparison measures (bench/peers): blocks of all programs have the same length, peers use huge pages, a
# truncated file is continued, and a file of another program is refused. Times are not judged. LOCKSTEP: the program;
# SOURCE_DIR: the repository. Skipped (77) without virtual environment.
set -eu

venv=$SOURCE_DIR/.peers/venv
images=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
skip() {
    echo "skipped: $1"
    exit 77
}
[ -x "$venv/bin/python" ] ||
    skip "no virtual environment in .peers/venv; ci/peers.sh --install makes it"
"$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("jax") is None)' ||
    skip "the virtual environment lacks a peer; ci/peers.sh --install completes it"
[ -r "$images" ] || skip "no data set; install Debian's dataset-fashion-mnist"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
file=$work/here-rounds.jsonl

compare() {
    "$venv/bin/python" -B "$SOURCE_DIR/bench/peers/compare.py" "$@" --lockstep "$LOCKSTEP" --file "$file"
}
measure() {
    compare time --models poly --peers jax --rounds "$1" >"$work/out" 2>"$work/err"
}
fail() {
    echo "FAILED: $1"
    cat "$work/out" "$work/err"
    exit 1
}

measure 1 || fail "one round"
"$venv/bin/python" - "$file" <<'END' || fail "the file's turns"
import json, pathlib, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
turns = [line for line in lines if "machine" not in line]
cases = {(t["model"], t["batch"]) for t in turns}
assert cases == {("poly", 100)}, cases
huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
for case in cases:
    same = {t["name"]: t for t in turns if (t["model"], t["batch"]) == case}
    assert set(same) == {"lockstep", "floor", "jax"}, set(same)
    ours, theirs = same["lockstep"], same["jax"]
    assert ours["steps"] == theirs["steps"], "blocks of as many steps"
    assert len(ours["blocks_ms"]) == len(theirs["blocks_ms"]) == 5, "as many blocks"
    if huge.exists() and "[never]" not in huge.read_text():
        assert theirs["huge_bytes"] > 0, "no huge pages"
END

before=$(wc -l <"$file")
cp "$file" "$work/whole"
truncate -s -20 "$file" # the session ended in its last round
measure 1 || fail "after the cut"
[ "$(grep -c '"round"' "$file")" -eq "$(grep -c '"round"' "$work/whole")" ] || fail "turns after the cut"
[ "$(grep -c machine "$file")" -eq 2 ] || fail "sessions after the cut"
head -n $((before - 1)) "$work/whole" >"$work/kept"
head -n $((before - 1)) "$file" | cmp -s - "$work/kept" || fail "turns that were kept"
grep -q 'fastest peer / Lockstep' "$work/out" || fail "the table"
compare tables >"$work/again" 2>"$work/err" || fail "the table again"
cmp -s "$work/out" "$work/again" || fail "the same table"

sed -i 's/"lockstep": "lockstep /"lockstep": "other /' "$file"
code=0
measure 1 || code=$?
[ "$code" -eq 3 ] && grep -q 'name another file' "$work/err" || fail "rounds of another program: status $code"

# Rehearses the comparison on a GPU: a peer that fails in one case is named and takes part in the next; existing
# rounds are not repeated.
cat >"$work/rehearse.py" <<'END'
import sys
sys.path.insert(0, sys.argv.pop(1))
import gpu

first, timed = gpu.REHEARSAL[0][0], gpu.Turns.timed


def timed_or_ended(self, peer):
    if self.model == first:
        peer.process.kill()
    return timed(self, peer)


gpu.Turns.timed = timed_or_ended
gpu.peers_here = lambda device: ["jax"]
sys.exit(gpu.main())
END
gpu() {
    "$venv/bin/python" -B "$work/rehearse.py" "$SOURCE_DIR/bench/peers" --lockstep "$LOCKSTEP" --device cpu \
        --rounds 2 --file "$work/gpu.jsonl" >"$work/out" 2>"$work/err"
}
code=0
gpu || code=$?
[ "$code" -eq 1 ] && grep -q '^mlp.* jax: .*ended early' "$work/out" || fail "a peer that ended: status $code"
grep -c '"round"' "$work/gpu.jsonl" | grep -qx 7 || fail "the turns of both cases" # 2 and the end, 2 and 2
grep '"cnn"' "$work/gpu.jsonl" | grep '"jax"' | grep -q '"difference"' || fail "the peer in the next case"
code=0
gpu || code=$?
[ "$code" -eq 1 ] && grep -c '"round"' "$work/gpu.jsonl" | grep -qx 7 || fail "turns taken again"
