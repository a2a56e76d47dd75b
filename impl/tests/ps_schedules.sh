# SPDX-License-Identifier: MIT
# What servers did, replayed in sequence, makes the same bits, whoever comes first: parameter servers
# that serve whoever comes first, under random pauses (LOCKSTEP_FUZZ, base/hooks.h), seed after
# seed. Sourced by the tests of few and of many seeds, not run. No tolerance.
. "$SOURCE_DIR/impl/tests/schedules.sh"

# ps_schedules FIRST LAST
ps_schedules() {
  local small=(--model mlp:784-16-10 --data synthetic:200 --steps 8 --batch 50)
  equal=0
  for ((seed = $1; seed <= $2; seed++)); do
    export LOCKSTEP_FUZZ=$seed
    verify 3 --strategy ps --devices 3 "${small[@]}" --ps-mode async,ssp --ps-staleness 0,1
    verify 2 --strategy ps --ranks 4 --ps-servers 2 --ps-colocate yes,no "${small[@]}" --ps-mode async
    verify 2 --strategy ps --devices 4 "${small[@]}" --ps-backup-workers 1,2
    verify 2 --strategy ps --ranks 5 --ps-servers 2 --ps-colocate yes,no "${small[@]}" --ps-backup-workers 1
  done
  echo "$equal cases are replayed under seeds $1 to $2"
}
