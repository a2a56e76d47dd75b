# SPDX-License-Identifier: MIT
# Parameter servers that serve requests in order of arrival, with random pauses (LOCKSTEP_FUZZ, hooks.h) for one
# seed after another: a sequential replay of what the servers did gives the same bits. Sourced by the tests with few
# and with many seeds, not run. No tolerance.
. "$SOURCE_DIR/impl/tests/schedules.sh"
. "$SOURCE_DIR/bench/tests/ps_replay.sh"

# ps_schedules FIRST LAST
ps_schedules() {
  local small="--model mlp:784-16-10 --data synthetic:200 --steps 8 --warmup 0 --blocks 1 --batch 50"
  for ((seed = $1; seed <= $2; seed++)); do
    export LOCKSTEP_FUZZ=$seed
    replay_all --devices 3 --ps-mode async $small
    replay_all --devices 3 --ps-mode ssp --ps-staleness 0,1 $small
    replay_all --ranks 4 --ps-servers 2 --ps-colocate yes,no --ps-mode async $small
    replay_all --devices 4 --ps-backup-workers 1,2 $small
    replay_all --ranks 5 --ps-servers 2 --ps-colocate yes,no --ps-backup-workers 1 $small
  done
  echo "$replayed cases are replayed under seeds $1 to $2"
}
