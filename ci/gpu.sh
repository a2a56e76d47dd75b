#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Proves and measures the GPU back end on a machine that has a GPU, in under 8 minutes.
#
#   ci/gpu.sh [--rehearse] [--only PART,PART] [OUT]
#
# Configures, builds, and goes through the parts of ci/gpu-parts.sh; everything goes to OUT (default
# build-gpu/results), with SUMMARY.md written at the end, also where it is told to end (SIGTERM). Each
# part has seconds of its own (budget_of), and what the parts before it left; one that needs more is
# cut. What is done is not done again, part by part and, within a part, command by command, so the
# same command goes on; a part that fails is kept, reported, and the others go on.
#   --rehearse   the same parts on CPU devices, with small sizes: shows that this script works
#   --only       these parts alone
# Needs no root: CUDA 13, CMake, gcc, python3, and the libraries, where LOCKSTEP_DEPS=DIR may hold
# the packages of ci/gpu-deps.sh. Environment: LOCKSTEP_BUILD, the build folder (build-gpu);
# LOCKSTEP_PROGRAM_BUILT=yes, it is built; LOCKSTEP_GPU_SECONDS, time for all parts (460).
# Exit status: 0 all parts went well; 1 one failed or was cut; 2 wrong usage; 3 no GPU, or something is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
parts=(machine configure build devices tests verify compare bench peers micro memory sanitizer)
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
out=
rehearse=
only=
part=

fail() { # WHY STATUS
  echo "ci/gpu.sh: $1" >&2
  exit "$2"
}

while [ $# -gt 0 ]; do
  case "$1" in
  --rehearse) rehearse=yes ;;
  --only | --part)
    [ $# -gt 1 ] || fail "$1: needs a part; they are ${parts[*]}" 2
    for name in ${2//,/ }; do
      [[ " ${parts[*]} " == *" $name "* ]] || fail "$1: $name: unknown; parts are ${parts[*]}" 2
    done
    if [ "$1" = --only ]; then only=$2; else part=$2; fi
    shift
    ;;
  -*) fail "$1: unknown; usage: ci/gpu.sh [--rehearse] [--only PART,PART] [OUT]" 2 ;;
  *)
    [ -z "$out" ] || fail "$1: a second folder; usage: ci/gpu.sh [--rehearse] [--only PART,PART] [OUT]" 2
    out=$1
    ;;
  esac
  shift
done

if [ -z "$rehearse" ] && [[ $(nvidia-smi -L 2>/dev/null || true) != *"GPU "[0-9]* ]]; then
  fail "no GPU here: nvidia-smi -L names none; --rehearse runs the same parts on CPU devices" 3
fi
command -v python3 >/dev/null || fail "python3: missing; the summary and the checks of rows need it" 3

mkdir -p "${out:=$root/build-gpu/results}" || fail "$out: cannot be made; name a folder that can" 3
out=$(cd "$out" && pwd)
build=${LOCKSTEP_BUILD:-$root/build-gpu}
program=$build/lockstep
deps=${LOCKSTEP_DEPS:+$(cd "$LOCKSTEP_DEPS" && pwd)}
libraries=${deps:+$deps/usr/lib/$(uname -m)-linux-gnu}

# ---- One part, in a process of its own, so that a time limit ends all of it -----------------------

if [ -n "$part" ]; then
  cd "$root"
  # shellcheck source=ci/gpu-parts.sh
  . ci/gpu-parts.sh
  "part_$part"
  exit 0
fi

# ---- All of them --------------------------------------------------------------------------------

say() { echo "gpu.sh: $*" >&2; }

# Seconds that a part has for certain; 460 in all, which leaves 20 of 8 minutes to the summary.
budget_of() {
  case "$1" in
  build) echo 130 ;;
  verify) echo 70 ;;
  tests | peers | sanitizer) echo 45 ;;
  bench) echo 35 ;;
  micro) echo 25 ;;
  configure) echo 20 ;;
  memory) echo 15 ;;
  *) echo 10 ;; # machine, devices, compare
  esac
}

# Whether a part is asked for.
is_wanted() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }

# Seconds that the parts after this one have for certain.
kept_for_later() {
  local name seen= sum=0
  for name in "${parts[@]}"; do
    if [ -n "$seen" ] && is_wanted "$name" && ! is_done "$name"; then sum=$((sum + $(budget_of "$name"))); fi
    [ "$name" != "$1" ] || seen=yes
  done
  echo "$sum"
}

# keep PART STATE SECONDS WHY: "ok", "failed", "cut" or "left-out", one line a part.
keep() { printf '%s\t%s\t%s\n' "$2" "$3" "$4" >"$out/$1.state"; }

# Whether a part has been done; the program, only where it still is there.
is_done() {
  [[ $(cat "$out/$1.state" 2>/dev/null) == ok* ]] && { [[ ! $1 =~ ^(configure|build)$ ]] || [ -x "$program" ]; }
}

run_part() {
  local code=0 most left=$((deadline - SECONDS)) why
  begin=$SECONDS
  if is_done "$name"; then
    say "$name: done before"
    return 0
  fi
  most=$((left - $(kept_for_later "$name")))
  [ "$most" -gt "$(budget_of "$name")" ] || most=$(budget_of "$name")
  [ "$most" -le "$left" ] || most=$left
  if [ "$most" -lt 5 ]; then
    keep "$name" cut 0 "no time was left; the same command goes on from here"
    return 0
  fi
  say "$name (up to $most s)"
  # Beside this shell, which then hears at once that it is to end.
  timeout --kill-after=5 "$most" bash "$root/ci/gpu.sh" \
    ${rehearse:+--rehearse} --part "$name" "$out" >"$out/$name.log" 2>&1 </dev/null &
  child=$!
  wait "$child" || code=$?
  child=
  why=$(sed '/^ *$/d' "$out/$name.log" | tail -n 1 | cut -c 1-200)
  case "$code" in
  0) keep "$name" ok $((SECONDS - begin)) "" ;;
  77) keep "$name" left-out $((SECONDS - begin)) "$why" ;;
  124 | 137) keep "$name" cut $((SECONDS - begin)) "cut short after its $most s; the same command goes on from there" ;;
  *) keep "$name" failed $((SECONDS - begin)) "$why" ;;
  esac
  [ "$code" -eq 0 ] || say "$name: $(cut -f 1,3 "$out/$name.state" | tr '\t' ' ')"
}

# Whether the rest can go on without this part.
is_vital() { [[ $1 =~ ^(configure|build|devices)$ ]] && [[ $(cat "$out/$1.state") != ok* ]]; }

if [ -n "$deps" ] && [ -e "$deps/packages/complete" ]; then
  "$root/ci/gpu-deps.sh" "$deps" >/dev/null
fi
export LOCKSTEP_USER_LIBRARIES=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=${libraries:+$libraries:}${LD_LIBRARY_PATH:-}
[ -n "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
deadline=$((SECONDS + ${LOCKSTEP_GPU_SECONDS:-460}))
child=
missing=

# Writes and shows the summary.
sum_up() {
  python3 -B "$root/ci/gpu_summary.py" ${rehearse:+--rehearse} "$out" "${parts[@]}" >"$out/SUMMARY.md" ||
    fail "$out/SUMMARY.md: could not be written; the lines above say why" 3
  cat "$out/SUMMARY.md"
  say "all of it is in $out ($(tar -C "$out" -cz . | wc -c) bytes packed)"
}

# Told to end: what was under way is cut.
end_early() {
  trap '' TERM INT
  if [ -n "$child" ]; then
    kill "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    keep "$name" cut $((SECONDS - begin)) "the script was told to end; the same command goes on from there"
  fi
  sum_up
  exit 1
}
trap end_early TERM INT

for name in "${parts[@]}"; do
  is_wanted "$name" || continue
  if [ -n "$missing" ]; then
    keep "$name" failed 0 "the part '$missing' failed"
    continue
  fi
  run_part "$name"
  if is_vital "$name"; then missing=$name; fi
done
sum_up
[ -z "$missing" ] || exit 3
! grep -qE '^(failed|cut)' "$out"/*.state || exit 1
