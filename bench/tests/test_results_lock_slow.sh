#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A database that another program holds is refused after half a minute, which is what this test takes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

holder=
cleanup_more() { [ -z "$holder" ] || kill "$holder"; }

lockstep_ok run --model poly --steps 2 --results held.db
python3 -c 'import sqlite3, time
database = sqlite3.connect("held.db")
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(300)' >held &
holder=$!
until [ -s held ]; do sleep 0.05; done
for command in "run --model poly --steps 2" "results list"; do
    command_line="$command --results held.db"
    code=0
    timeout 60 "$LOCKSTEP" $command --results held.db >out 2>err </dev/null || code=$?
    expect "a locked database: status 3" [ "$code" -eq 3 ]
    expect "a locked database: one line" one_line 'held.db: another program has locked this file'
    expect "a locked database: before training" [ ! -s out ]
done

finish
