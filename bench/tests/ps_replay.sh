# SPDX-License-Identifier: MIT
# Servers that serve whoever comes first: runs a case, and has the judge (ps_replay.c) do again what its servers
# did, by the file that they were recorded in. Sourced, not run; needs LOCKSTEP, REPLAY (the judge's path)
# and SOURCE_DIR. What is made goes into the folder `replays`.
: "${REPLAY:?path of ps_replay}"
replays=${dir:-$PWD}/replays
mkdir -p "$replays"
replayed=0 # cases, of `replay_all`

# replay OPTIONS of one case; with `ranks` set, of so many processes. Status: the judge's, or the run's with 10 on
# top; what is said goes into replays/said, the row into replays/row.
replay() {
  local files=("$@" --results none --format jsonl --gate-steps 0 --ps-record "$replays/order"
    --save "$replays/parameters") launcher=() code=0
  [ -z "${ranks:-}" ] || launcher=("$SOURCE_DIR/bench/tests/mpirun.sh" "$ranks")
  rm -f "$replays"/*
  timeout -k 5 150 "${launcher[@]}" "$LOCKSTEP" run "${files[@]}" >"$replays/row" 2>"$replays/said" </dev/null || code=$?
  [ "$code" -eq 0 ] || return $((10 + code))
  env -u LOCKSTEP_PLANT -u LOCKSTEP_FUZZ "$REPLAY" run "${files[@]}" ${ranks:+--ranks "$ranks"} \
    <"$replays/row" >"$replays/said" 2>&1
}

# cases WORDS: a line for each case of options whose values may be lists.
cases() {
  local value parts
  if [[ "$* " =~ ^(.*\ )([^ ,]+(,[^ ,]+)+)(\ .*)$ ]]; then
    parts=("${BASH_REMATCH[@]}")
    for value in ${parts[2]//,/ }; do cases "${parts[1]}$value${parts[4]}"; done
  else
    echo "$*"
  fi
}

# replay_all WORDS: all their cases; ends the test at the first that is not the same again.
replay_all() {
  local one code list
  list=$(cases "$@")
  while read -r one; do
    code=0
    # shellcheck disable=SC2086
    replay --strategy ps $one || code=$?
    [ "$code" -eq 0 ] || {
      head -c 2000 "$replays/said" "$replays/row"
      echo "FAILED: status $code${LOCKSTEP_FUZZ:+, LOCKSTEP_FUZZ=$LOCKSTEP_FUZZ}${ranks:+, $ranks ranks}: $one"
      exit 1
    }
    replayed=$((replayed + 1))
  done <<<"$list"
}
