#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Servers that serve requests in order of arrival: a sequential replay of what they recorded gives the same bits
# (bench/tests/ps_replay.c). Modes, backup workers, ranks, shards, models, epochs' last batches, stragglers; also, the
# judge detects a record of another run. No tolerance. Leaves out processes (bench/tests/test_ps_mpi.sh), random
# pauses (test_ps_schedules.sh), planted bugs (test_planted.sh).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$SOURCE_DIR/bench/tests/ps_replay.sh"
small="--model mlp:784-16-10 --data synthetic:230 --batch 100 --epochs 2 --warmup 0"
overlapped="--cpu-devices 3 --cores-per-device 2 --model mlp:784-700-300-10 --data synthetic:80 --batch 30 --epochs 3 --warmup 0"
models="--model poly,cnn,twin-lstm:8,cifar10 --data synthetic:64 --batch 7 --steps 3 --warmup 0"
tail="--devices 5 --batch 8 --model poly --data synthetic:11 --epochs 3 --warmup 0" # leaves workers without a sample
slow="--model mlp:784-16-10 --data synthetic:500 --batch 60 --steps 30 --warmup 5 --blocks 2"

thorough() { [ -n "${LOCKSTEP_THOROUGH:-}" ]; } # as in bench/tests/lib.sh
if thorough; then
  replay_all --devices 1,2 --ps-mode async --capture yes,no $small
  replay_all --devices 2,5 --ps-mode ssp --ps-staleness 0,4 $small
  replay_all --ranks 3 --ps-servers 1,2 --ps-shard bytes,variable --ps-colocate yes,no --ps-mode async,ssp $small
  replay_all --ranks 4 --ps-servers 2 --ps-mode ssp $models
  replay_all --devices 3 --ps-mode ssp --capture yes,no $overlapped
fi
replay_all --devices 5 --ps-mode async --capture yes,no $small
replay_all --devices 5 --ps-mode ssp --ps-staleness 1 $small
replay_all --ranks 6 --ps-servers 2 --ps-shard bytes,variable --ps-colocate yes,no --ps-mode async $small
replay_all --ranks 4 --ps-servers 2 --ps-mode async $models
replay_all --devices 3 --ps-mode async $overlapped
replay_all $tail --ps-mode async,ssp
replay_all --ranks 4 --ps-servers 2 --ps-mode async --clip 0.05 $small
replay_all $tail --ps-mode ssp --clip 0.05
replay_all --ranks 4 --inject delay=3:5ms --ps-mode async,ssp $slow

if thorough; then
  replay_all --devices 2 --ps-backup-workers 1 --capture yes,no $small
  replay_all --ranks 5,6 --ps-servers 1,2 --ps-shard bytes --ps-colocate yes,no --ps-backup-workers 1,2 $small
  replay_all --ranks 5 --ps-servers 2 --ps-backup-workers 1 $models
fi
replay_all --devices 5 --ps-backup-workers 1 --capture yes,no $small
replay_all --ranks 6 --ps-servers 2 --ps-shard variable --ps-colocate yes,no --ps-backup-workers 1,2 $small
replay_all --devices 3 --ps-backup-workers 1 $overlapped
replay_all $tail --ps-backup-workers 1,3
replay_all --ranks 6 --ps-servers 2 --ps-backup-workers 2 --inject delay=5:20ms $slow
echo "$replayed cases are the same again"

# found WHAT COMMAND...: an edit of the last run's files is detected.
found() {
  local what=$1 code=0
  shift
  cp -r "$replays" "$dir/intact"
  "$@"
  "$REPLAY" run "${files[@]}" <"$replays/row" >"$dir/said" 2>&1 || code=$?
  [ "$code" -eq 1 ] || { cat "$dir/said"; echo "FAILED: $what: status $code, 1 wanted"; exit 1; }
  rm -r "$replays"
  mv "$dir/intact" "$replays"
}
recorded() { # recorded OPTIONS of the run whose files are edited
  replay --strategy ps "$@"
  files=(--strategy ps "$@" --results none --format jsonl --gate-steps 0 --ps-record "$replays/order" --save "$replays/parameters")
}
recorded --ranks 4 --ps-servers 2 --ps-mode async $small
order=$replays/order
swap() { # exchanges the first two lines of different workers, one of them with a gradient
  python3 - "$1" <<'PYTHON'
import sys
with open(sys.argv[1]) as file:
    lines = [line.split() for line in file]
at = next(i for i in range(1, len(lines) - 1) if lines[i][0] == lines[i + 1][0] and lines[i][2] != lines[i + 1][2]
          and "push" in (lines[i][1], lines[i + 1][1]))
lines[at], lines[at + 1] = lines[at + 1], lines[at]
with open(sys.argv[1], "w") as file:
    file.writelines(" ".join(line) + "\n" for line in lines)
PYTHON
}
flip() { python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-4, 2); b = f.read(1)[0] ^ 1; f.seek(-4, 2); f.write(bytes([b]))' "$1"; }
found "the end is not there" sed -i '$d' "$order"
found "a line is not there" sed -i 5d "$order"
found "a gradient was none" sed -i '0,/push/s/push/empty/' "$order"
found "another worker's" sed -i '0,/push 1/s/push 1/push 0/' "$order"
found "more than the room for it" sed -i '$a0 lost 1' "$order"
found "another order" swap "$order"
found "another format" sed -i '1s/1$/2/' "$order"
found "a bit of the parameters" flip "$replays/parameters"
found "other distances" sed -i 's/"staleness":{[^}]*"histogram":\[[0-9]*/&1/' "$replays/row"
found "other leads" sed -i 's/"lead":{[^}]*"histogram":\[[0-9]*/&1/' "$replays/row"
recorded --ranks 5 --ps-servers 2 --ps-backup-workers 1 $small
found "a loss of other workers" sed -i 's/"loss_last":[0-9]*/&1/' "$replays/row"
found "another first loss" sed -i 's/"loss_first":[0-9]*/&1/' "$replays/row"
echo "records that are not the run's are found"
