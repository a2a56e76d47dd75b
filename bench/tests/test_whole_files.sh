#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files that commands write stay what they are to their user: a link leads to its file, a mode stays, a file that is
# mounted is written in place. What can fail is refused before anything is measured; what was measured is printed
# whatever fails to be stored. No tolerance. Mounts need root and a mount namespace; without, that part is left out.
set -euo pipefail
source "${SOURCE_DIR:?}/bench/tests/lib.sh"
run="run --model poly --steps 3 --results none --format jsonl"
flat="--platform flat:bandwidth=1GB/s"
lockstep_ok run --model poly --steps 3 --seed 1,2 --results r.db --format jsonl

# Every command that writes a file, without the file's name.
commands() {
    cat <<END
$run --save
run --model poly --strategy ps --ps-mode async --devices 2 --steps 3 --results none --ps-record
results export --results r.db --to jsonl --out
regress r.db r.db --format json --out
trace --model poly --trace-steps 2 --out
predict --model poly --devices 2 --strategy mirrored $flat --results none --trace
predict --model poly --devices 2 --strategy mirrored $flat --results none --collectives messages --goal
predict --model poly $flat --results none --calibrate --out
END
    if command -v gnuplot >/dev/null; then echo "results trend median --results r.db --where seed=1 --out"; fi
}

is_new() { [ -s "$1" ] && ! grep -q '^old$' "$1"; }

# svg: of `trend`, whose name says what is drawn
mkdir full closed links
while read -r command; do
    echo old >links/file.svg
    chmod 600 links/file.svg
    ln -sf links/file.svg link.svg
    lockstep $command link.svg
    expect "through a link" [ "$code/$(readlink link.svg)" = 0/links/file.svg ]
    expect "which is written" is_new links/file.svg
    expect "and keeps its mode" [ "$(stat -c %a links/file.svg)" = 600 ]
    ln -f links/file.svg links/other.svg
    lockstep $command links/file.svg
    expect "a hard link" [ "$code" -eq 0 -a links/file.svg -ef links/other.svg ]
    rm links/* link.svg
    ln -s links/new.svg link.svg
    lockstep $command link.svg
    expect "a link to nothing makes the file" [ "$code" -eq 0 -a -L link.svg -a -s links/new.svg ]
    expect "and nothing else" [ "$(ls links)" = new.svg ]
    for file in nowhere/file.svg closed /dev/full; do
        lockstep $command $file
        expect "$file is refused" [ "$code" -ge 2 ]
        expect "$file: in a line" one_line "$file: "
        expect "$file: before anything is measured" [ ! -s out ]
    done
    [ -p pipe.svg ] || mkfifo pipe.svg
    lockstep $command pipe.svg
    expect "a pipe that nobody reads keeps nobody waiting" [ "$code" -ge 2 ]
    expect "and is named" grep -qs 'pipe.svg' out err
done < <(commands)
cat pipe.svg >piped &
lockstep_ok results export --results r.db --to jsonl --out pipe.svg
wait $!
expect "a pipe with a reader" [ "$(wc -l <piped)" = 2 ]

echo log >log
lockstep_ok results export --results r.db --to jsonl --out /dev/fd/3 3>>log
expect "a descriptor: after what its file has" [ "$(head -n 1 log)/$(wc -l <log)" = log/3 ]

command_line="run --save big, with a limit on the size of files"
code=0
(ulimit -f 1; exec "$LOCKSTEP" run --model mlp:784-16-10 --data synthetic:50 --steps 2 --results none --save big \
    --format jsonl) >out 2>err || code=$?
expect "more than may be written is refused" one_line 'big: cannot be written: File too large'

if ! unshare -m true 2>/dev/null; then
    echo "part left out: mounts need root and a mount namespace"
else
    while read -r command; do
        echo old >mounted.svg
        echo old >inside.svg
        command_line="$command mounted.svg, which is mounted"
        code=0
        unshare -m sh -c 'mount --bind mounted.svg inside.svg && exec "$0" "$@" inside.svg' "$LOCKSTEP" $command \
            >out 2>err || code=$?
        expect "a mounted file" [ "$code" -eq 0 ]
        expect "which is written" is_new mounted.svg
        expect "and nothing is left" [ -z "$(ls | grep part)" ]
        command_line="$command x.svg, on a full disk"
        code=0
        unshare -m sh -c 'mount -t tmpfs -o size=64k tmpfs full && { cat /dev/zero >full/fill; :; } 2>/dev/null
            exec "$0" "$@" full/x.svg' "$LOCKSTEP" $command >out 2>err || code=$?
        expect "a full disk is refused" one_line 'full/x.svg: cannot be written: No space left'
        expect "before anything is measured" [ "$code" -eq 3 -a ! -s out ]
    done < <(commands)
    # The disk is full only at the end: half of it is free at the check, and the trace takes more.
    command_line="predict --trace, which fills the disk"
    code=0
    unshare -m sh -c 'mount -t tmpfs -o size=4k tmpfs full && exec "$0" "$@" --trace full/x' "$LOCKSTEP" \
        predict --model mlp --steps 40 --devices 4 --strategy mirrored $flat --results none --format jsonl \
        >out 2>err || code=$?
    expect "status 3" [ "$code" -eq 3 ]
    rows "the row has its time, and why the trace has not been written" "r['result']['status'] == 'error' and
        'No space left' in r['result']['reason'] and r['time']['step_ms']['median'] > 0"
fi
finish
