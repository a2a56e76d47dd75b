# SPDX-License-Identifier: MIT
# Servers that serve requests in order of arrival: runs a case, and lets the judge (ps_replay.c) replay what its
# servers recorded. Sourced, not run; needs LOCKSTEP, REPLAY (path of the judge) and SOURCE_DIR. Files go to the
# folder `replays`.
: "${REPLAY:?path of ps_replay}"
replays=${dir:-$PWD}/replays
mkdir -p "$replays"
replayed=0 # number of cases of `replay_all`

# replay OPTIONS of one case, on `ranks` processes if set. Exit status: the judge's, or the run's plus 10. Messages
# are in replays/said, the row in replays/row.
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

# cases WORDS: prints a line for each case of options whose values may be lists.
cases() {
  local value parts
  if [[ "$* " =~ ^(.*\ )([^ ,]+(,[^ ,]+)+)(\ .*)$ ]]; then
    parts=("${BASH_REMATCH[@]}")
    for value in ${parts[2]//,/ }; do cases "${parts[1]}$value${parts[4]}"; done
  else
    echo "$*"
  fi
}

# replay_all WORDS: replays all cases of the options; stops the test at the first that differs.
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
