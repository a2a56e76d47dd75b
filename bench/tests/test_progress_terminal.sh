#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a user at a terminal of 80 columns sees while `run`, `verify`, `micro` and `trace` run: the state of the whole
# command in one line, which is erased before rows are printed. Tolerance: one second without an update, plus this
# machine's delay in waking a thread, and the time for which a thread of the program could run and got no core.
source "$(dirname "$0")/lib.sh"

cat >watch.py <<'E2'
"""watch.py WIDTH COMMAND...: runs it on a terminal, checks what it draws, prints what stays on the screen."""
import fcntl, glob, os, pty, re, struct, sys, termios, threading, time

width = int(sys.argv[1])
child, screen = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
late = starved = 0


def wake():
    global late, starved
    while True:
        before = time.monotonic()
        time.sleep(0.1)
        late = max(late, time.monotonic() - before - 0.1)
        for task in glob.glob(f"/proc/{child}/task/*/schedstat"):
            try:
                starved = max(starved, int(open(task).read().split()[1]) / 1e9)
            except (OSError, IndexError):
                pass  # it has ended


threading.Thread(target=wake, daemon=True).start()
data, silent, told = b"", 0, time.monotonic()
while True:
    try:
        data += os.read(screen, 65536)
    except OSError:
        break
    silent, told = max(silent, time.monotonic() - told), time.monotonic()
assert "--quiet" in sys.argv or silent < 1 + 4 * late + starved, (silent, late, starved)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
text = re.sub("\033\\[[0-9;]*m", "", data.decode())
states = [s for s in re.split("[\r\n]", text) if re.match("case [0-9]+/[0-9]+ ", s)]
assert bool(states) != ("--quiet" in sys.argv), text
shares = [int(m.group(1)) for m in (re.search(" left +([0-9]+)%", s) for s in states) if m]
assert shares == sorted(shares) and all(s <= 100 for s in shares), shares
for s in states:
    assert len(s) < width, s
    assert re.match("case [0-9]+/[0-9]+ .*, (opening|checking|warm-up|timing|evaluating), "
                    "([0-9]+:)+[0-9]+ (left|so far)", s) or width < 80, s
stays = []
for line in text.replace("\r\n", "\n").split("\n"):
    cells = []
    for part in line.split("\r"):
        part = part.split("\033[K")[-1]
        cells[:len(part)] = part
    stays.append("".join(cells).rstrip())
print("\n".join(stays).rstrip())
print("phases", *sorted({m.group(1) for m in (re.search(", ([a-z-]+), ", s) for s in states) if m}))
sys.exit(status)
E2

watched() { # watched WIDTH ARGUMENT...: the final screen goes to `out`
    code=0
    command_line="on a terminal: ${*:2}"
    python3 watch.py "$1" "$LOCKSTEP" "${@:2}" >out 2>err || code=$?
    expect "status 0, lines that fit, and a share that never falls" [ "$code" -eq 0 ]
}
only_rows() { # no progress is left on the screen
    expect "the line is gone from the screen" eval '! grep -v "^phases " out | grep -q ":[0-9][0-9] left\|so far"'
}

small="--model poly --results none --batch 64"
watched 80 run $small --strategy single,mirrored --devices 1,2 --steps 30000 --gate-steps 3000
only_rows
expect "a table" grep -q '^mirrored 2 cpu  ' out
expect "what was left out begins at the left" grep -q '^lockstep: left out: ' out
expect "the phases are named" grep -Eq '^phases checking .*timing' out
watched 40 run $small --steps 3000
only_rows
watched 80 verify $small --strategy mirrored --devices 2 --steps 3000
only_rows
expect "verify checks, and nothing else" grep -q '^phases checking$' out
watched 80 run $small --steps 3000 --quiet
watched 80 run ${small/--batch 64/--batch 10,20,30,40,50} --strategy single,mirrored --steps 300
only_rows
expect "cases of two groups" [ "$(grep -cE '^(single|mirrored) +[0-9]+ ' out)" -eq 10 ]
watched 80 micro allreduce --allreduce ring,direct --sizes 4KiB,1MiB
only_rows
expect "micro counts sizes of all algorithms" grep -q '^phases timing$' out
watched 80 micro layers --model poly
only_rows
watched 80 trace --model cifar10 --data synthetic:3000 --batch 400 --warmup 1 --trace-steps 1 --out trace.json
only_rows
expect "trace's phases" grep -q '^phases opening timing warm-up$' out
printf 'model: cifar10\ndata: "synthetic:3000"\nbatch: 50\nsteps: 2\nwarmup: 0\ngate-steps: 0\nbudget: 1s\n' >plan.yaml
watched 80 run --plan plan.yaml --resume --results r.db
only_rows

finish
