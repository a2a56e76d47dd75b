#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tutorial impl/strategies/lesson.md is true: its `sh` blocks run unchanged, in order, in one folder. The lines of
# the `text` block after each must occur in the output, in order, possibly with others between them; `..` matches
# anything, so times are not compared. Leaves out what the pictures look like.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir build
ln -s "$LOCKSTEP" build/lockstep

checks=$(python3 - "$SOURCE_DIR/impl/strategies/lesson.md" <<'P'
import os, re, subprocess, sys
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", open(sys.argv[1], encoding="utf-8").read(), re.M | re.S)
done = 0
for at, (kind, text) in enumerate(blocks):
    if kind == "c":
        assert text in open(os.path.dirname(sys.argv[1]) + "/mirrored.c", encoding="utf-8").read(), f"mirrored.c lacks {text}"
        continue
    if kind != "sh":
        assert kind == "text" and at and blocks[at - 1][0] == "sh", f"a block of what no command prints: {text}"
        continue
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{text}: exit status {run.returncode}: {run.stderr}"
    for name in re.findall(r"--out (\S+)", text):
        assert os.path.getsize(name) > 1000, f"{name} is empty"
    done += 1
    lines = iter(run.stdout.splitlines())
    for wanted in blocks[at + 1][1].splitlines() if at + 1 < len(blocks) and blocks[at + 1][0] == "text" else []:
        pattern = ".*".join(re.escape(part.rstrip() if part is wanted else part) for part in wanted.split(".."))
        assert any(re.fullmatch(pattern + r"\s*", line) for line in lines), \
            f"{text}: no line (behind those before it) like\n  {wanted}\nin\n{run.stdout}"
        done += 1
print(done)
P
) || { wrong "the page is not true"; checks=1; }
expect "blocks and lines were compared" [ "$checks" -gt 30 ]
finish
