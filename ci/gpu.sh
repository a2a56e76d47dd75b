#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests and measures the GPU back end on a machine with a GPU, over as many calls and machines as it takes.
#
#   ci/gpu.sh [--rehearse] [--only PART,PART] [OUT]
#
# Runs in a checkout, or in a folder of ci/gpu-pack.sh, which may be read-only: what it needs is copied to a work
# folder, and only a compiler must be installed. It builds, and runs the parts of ci/gpu-parts.sh, the most valuable
# first, while a process keeps the GPU open: first those that no commit has passed, then those that only earlier
# commits have. After each part it rewrites two files in OUT (default: `out` in the work folder): SUMMARY.md, the most
# important lines first, and results.tar.gz with rows, logs, and what earlier commits have passed. A repeated run goes
# on from these, also on another machine if OUT has the earlier results.tar.gz (15 MiB at most): finished parts of the
# same commit are skipped, and inside a part finished commands. A part may take 4 minutes at most (`parts`); one that
# exceeds its time is stopped, which is no failure. A part that fails is kept and reported, and the others run; what
# failed is repeated at once under compute-sanitizer, with the libraries' logs (diagnosis/). Clocks, power and
# temperature are logged throughout (clocks.csv). Until figures are taken, libraries are read ahead and the peers
# compile, in the background.
#   --rehearse   the same parts with small sizes, on fake GPUs if the program was built with them (preset fake), else
#                on CPU devices: tests this script
#   --only       only these parts
# Needs no root, but CUDA 13, CMake, gcc, python3, and the libraries: of the packed folder, of the system, or of a
# prefix LOCKSTEP_DEPS. Environment: LOCKSTEP_WORK: the work folder (default: build-gpu; for a packed folder one in
# /tmp); remove it and OUT to start over. LOCKSTEP_PROGRAM_BUILT=yes: LOCKSTEP_BUILD is a build with tests that finds
# its libraries. LOCKSTEP_GPU_SECONDS: time for all parts (540). Exit status: 0 all parts succeeded; 1 one failed; 2
# wrong usage; 3 no GPU, or something is missing; 4 none failed, but one was stopped.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# part=the most seconds that it may take
parts=(machine=20 build=180 devices=20 smoke=120 tests=120 compare=30 features=150 peers=240 peers-bf16=180 kernels=90
  bench=90 products=150 verify-first=90 memcheck=100 racecheck=150 gate=60 verify=240 micro=60 memory=30 several=120)
declare -A limits=()
for part in "${parts[@]}"; do limits[${part%=*}]=${part#*=}; done
parts=("${parts[@]%=*}")
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
      [[ " ${parts[*]} " == *" $name "* || "$1 $name" == "--part warm-peers" ]] || fail "$1: $name: unknown; parts are ${parts[*]}" 2
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

work=${LOCKSTEP_WORK:-$root/build-gpu}
deps=${LOCKSTEP_DEPS:+$(cd "$LOCKSTEP_DEPS" && pwd)}
if [ -e "$root/packed/commit" ]; then
  work=${LOCKSTEP_WORK:-/tmp/lockstep-gpu-$(id -u)-$(sed -n '3s/^\(.\{12\}\).*/\1/p' "$root/packed/commit")}
fi
mkdir -p "$work" && [ -O "$work" ] && [ -w "$work" ] || fail "$work: is not this user's; name a folder in LOCKSTEP_WORK" 3
work=$(cd "$work" && pwd)
export LOCKSTEP_WORK=$work
if [ ! -w "${HOME:-/}" ]; then # shared caches: measured roofs
  mkdir -p "$work/home"
  export HOME=$work/home
fi

# Python has what unpacks these; xz may be missing.
unpack() { # ARCHIVE FOLDER
  python3 -W ignore -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$2"
}

# Each copy gets its name once complete: an interrupted one is repeated.
take_along() {
  [ -e "$work/source" ] || {
    rm -rf "$work/source.part" && mkdir "$work/source.part" &&
      tar -C "$root" --exclude='./packed/*.tar.xz' -cf - . | tar -C "$work/source.part" --no-same-owner -xf - &&
      chmod -R u+rwX "$work/source.part" && mv "$work/source.part" "$work/source"
  } || return 1
  [ -e "$work/prefix" ] || [ ! -e "$root/packed/prefix.tar.xz" ] || {
    rm -rf "$work/prefix.part" && mkdir "$work/prefix.part" &&
      unpack "$root/packed/prefix.tar.xz" "$work/prefix.part" &&
      mv "$work/prefix.part" "$work/prefix"
  } || return 1
  # What was built where the folder was packed, and links to CUDA's libraries, where those programs look for them.
  # shellcheck disable=SC2046
  [ -e "$work/build" ] || [ ! -e "$root/packed/build.tar.xz" ] || {
    rm -rf "$work/build.part" && mkdir -p "$work/build.part" "$work/libraries" &&
      unpack "$root/packed/build.tar.xz" "$work/build.part" &&
      find -L /usr/local/cuda/lib64 /usr/lib/"$(uname -m)"-linux-gnu $(python3 -c '
import site, sysconfig
print(*{sysconfig.get_paths()["purelib"], *site.getsitepackages()}, sep="/nvidia\n", end="/nvidia\n")' 2>/dev/null || true) \
        -maxdepth 3 -type f -not -path '*/stubs/*' \
        \( -name 'libcublas*.so*' -o -name 'libcudnn*.so*' -o -name 'libnccl.so*' -o -name 'libnvrtc*.so*' \) \
        -exec ln -sf -t "$work/libraries" {} + 2>/dev/null
    mv "$work/build.part" "$work/build"
  }
}
if [ -e "$root/packed/commit" ]; then
  [ "$root" = "$work/source" ] || take_along || fail "$work: the packed folder could not be copied there; the lines above say why" 3
  root=$work/source
  [ -n "$deps" ] || [ ! -e "$work/prefix" ] || deps=$work/prefix
fi
mkdir -p "${out:=$work/out}" && [ -w "$out" ] || fail "$out: cannot be written; name a folder that can" 3
out=$(cd "$out" && pwd)
build=${LOCKSTEP_BUILD:-$work/build}
# What frameworks compile, for the turns that follow.
export TORCHINDUCTOR_CACHE_DIR=$work/compiled/torch TRITON_CACHE_DIR=$work/compiled/triton
export JAX_COMPILATION_CACHE_DIR=$work/compiled/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
program=$build/lockstep
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

# Whether a part is requested.
is_wanted() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }

# keep PART STATE SECONDS WHY: records "ok", "failed", "cut" or "left-out", one line per part.
keep() { printf '%s\t%s\t%s\n' "$2" "$3" "$4" >"$kept/$1.state"; }

# Whether a part is done; the build only if the program still exists.
is_done() {
  [[ $(cat "$kept/$1.state" 2>/dev/null) == ok* ]] && { [ "$1" != build ] || [ -x "$program" ]; }
}

# Whether the others need this part.
is_vital() { [[ $1 =~ ^(build|devices)$ ]]; }

# The requested parts: those that earlier commits have passed come last.
in_order() {
  local name last=()
  for name in "${parts[@]}"; do
    if ! is_wanted "$name"; then
      continue
    elif [ "$name" != machine ] && ! is_vital "$name" && grep -qs '^ok' "$kept"/earlier/*/"$name.state"; then
      last+=("$name")
    else
      echo "$name"
    fi
  done
  printf '%s\n' "${last[@]}"
}

# What the sources are: their commit, and if they were changed since their tree.
name_of_sources() {
  local lines changed
  if [ -e "$root/packed/commit" ]; then
    mapfile -t lines <"$root/packed/commit"
  else
    changed=$(git -c user.name=gpu -c user.email=gpu -C "$root" stash create 2>/dev/null || true)
    lines=("$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)" "${changed:+changed}"
      "${changed:+$(git -C "$root" rev-parse "$changed^{tree}")}")
  fi
  echo "${lines[0]:0:12}$([ "${lines[1]}" != changed ] || echo "+${lines[2]:0:8}")"
}

run_part() {
  local code=0 most left=$((deadline - SECONDS)) why
  begin=$SECONDS
  if is_done "$name"; then
    say "$name: done before"
    return 0
  fi
  most=${limits[$name]}
  [ -z "$rehearse" ] && [ "$most" -le "$left" ] || most=$left
  if [ "$most" -lt 5 ]; then
    keep "$name" cut 0 "no time was left; the same command goes on from here"
    return 0
  fi
  say "$name (up to $most s)"
  # In the background, so that this shell is notified at once when it is told to end.
  timeout --kill-after=5 "$most" bash "$root/ci/gpu.sh" \
    ${rehearse:+--rehearse} --part "$name" "$kept" >"$kept/$name.log" 2>&1 </dev/null &
  child=$!
  wait "$child" || code=$?
  child=
  why=$(sed '/^ *$/d' "$kept/$name.log" | tail -n 1 | cut -c 1-200)
  case "$code" in
  0) keep "$name" ok $((SECONDS - begin)) "" ;;
  77) keep "$name" left-out $((SECONDS - begin)) "$why" ;;
  75) keep "$name" cut $((SECONDS - begin)) "$why" ;;
  124 | 137) keep "$name" cut $((SECONDS - begin)) "cut short after its $most s; the same command goes on from there" ;;
  *) keep "$name" failed $((SECONDS - begin)) "$why" ;;
  esac
  [ "$code" -eq 0 ] || say "$name: $(cut -f 1,3 "$kept/$name.state" | tr '\t' ' ')"
}

deadline=$((SECONDS + ${LOCKSTEP_GPU_SECONDS:-540}))
child=
helpers=()
missing=
kept=$work/kept${rehearse:+-rehearsal}
if [ ! -e "$kept" ] && [ -e "$out/results.tar.gz" ]; then # from a run elsewhere
  rm -rf "$kept.part" && mkdir "$kept.part"
  tar -C "$kept.part" -xzf "$out/results.tar.gz" || fail "$out/results.tar.gz: cannot be unpacked; remove it to start anew" 3
  mv "$kept.part" "$kept"
fi
mkdir -p "$kept/earlier"
sources=$(name_of_sources)
before=$(cat "$kept/sources" 2>/dev/null || true)
if [ -n "$before" ] && [ "$before" != "$sources" ]; then # its rows stay, for the table of parts and for comparisons
  rm -rf "${kept:?}/earlier/$before" && mkdir "$kept/earlier/$before"
  mv "$kept"/*.state "$kept"/*.jsonl "$kept/earlier/$before" 2>/dev/null || true
  find "$kept" -mindepth 1 -maxdepth 1 -not -name earlier -exec rm -rf {} +
fi
echo "$sources" >"$kept/sources"

# Opening a GPU that no process has open takes seconds each time: this process keeps it open until its input ends. Not
# for a GPU in exclusive mode, which this process would occupy.
keep_open() {
  if [[ $(nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null || true) == *Exclusive_Process* ]]; then
    echo "not kept open: Exclusive_Process" >"$kept/open.log"
    return
  fi
  exec {held}> >(exec python3 -c '
import ctypes, sys
cuda, count, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
def must(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code: sys.exit(f"not kept open: {name}: error {code}")
must("cuInit", 0)
must("cuDeviceGetCount", ctypes.byref(count))
for i in range(count.value):
    must("cuDeviceGet", ctypes.byref(device), i)
    must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
print(f"kept open: {count.value} GPU(s)", flush=True)
sys.stdin.read()' >"$kept/open.log" 2>&1)
}

# What a throttled GPU shows: without it, such a figure cannot be told from a slow program's.
log_clocks() {
  nvidia-smi --query-gpu=timestamp,index,clocks.sm,power.draw,clocks_event_reasons.active,temperature.gpu \
    --format=csv,noheader,nounits -lms 500 >>"$kept/clocks.csv" 2>/dev/null </dev/null &
  logger=$!
}

# Reads large libraries ahead, which on a cold disk takes longer than a test may, and has the peers compile each case,
# which takes longer than a turn may. Both end before figures are taken.
prepare_ahead() {
  local folders
  folders=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null || true)
  timeout 120 find -L ${deps:+"$deps"} /usr/local/cuda/lib64 ${folders:+"$folders/nvidia" "$folders/torch/lib"} -maxdepth 4 -type f \
    -size +10M -name '*.so*' -exec cat {} + >/dev/null 2>&1 </dev/null &
  helpers+=($!)
  if is_wanted peers && ! is_done peers; then
    timeout 300 bash "$root/ci/gpu.sh" --part warm-peers "$kept" >"$kept/warm-peers.log" 2>&1 </dev/null &
    helpers+=($!)
  fi
}
end_helpers() {
  [ ${#helpers[@]} -eq 0 ] || kill "${helpers[@]}" 2>/dev/null || true
  helpers=()
}

# Writes both files, each complete at any time.
publish() {
  python3 -B "$root/ci/gpu_summary.py" ${rehearse:+--rehearse} "$kept" "${parts[@]}" >"$out/SUMMARY.md.part" || return
  mv "$out/SUMMARY.md.part" "$out/SUMMARY.md"
  tar -C "$kept" -czf "$out/results.tar.gz.part" .
  if [ "$(wc -c <"$out/results.tar.gz.part")" -gt $((15 << 20)) ]; then # transfers may be limited to this size
    tar -C "$kept" --exclude='*.log' --exclude='*.csv' -czf "$out/results.tar.gz.part" .
  fi
  mv "$out/results.tar.gz.part" "$out/results.tar.gz"
}

sum_up() {
  publish || fail "$out: SUMMARY.md, results.tar.gz: could not be written; the lines above say why" 3
  cat "$out/SUMMARY.md"
  say "$out: SUMMARY.md, results.tar.gz ($(wc -c <"$out/results.tar.gz") bytes)"
}

# When told to end: the current part is stopped.
end_early() {
  trap '' TERM INT
  end_helpers
  if [ -n "$child" ]; then
    kill "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    keep "$name" cut $((SECONDS - begin)) "the script was asked to end; the same command goes on from there"
  fi
  [ -z "$logger" ] || kill "$logger" 2>/dev/null || true
  sum_up
  exit 4
}
trap end_early TERM INT
logger=
if [ -z "$rehearse" ]; then
  keep_open
  log_clocks
  prepare_ahead
fi

for name in $(in_order); do
  [[ ! $name =~ ^(peers|kernels|bench|gate) ]] || end_helpers
  if [ -n "$missing" ]; then
    keep "$name" failed 0 "the part '$missing' failed"
    continue
  fi
  run_part "$name"
  publish || say "$name: could not be summed up; the lines above say why"
  ! is_vital "$name" || [[ $(cat "$kept/$name.state") == ok* ]] || missing=$name
done
end_helpers
[ -z "$logger" ] || kill "$logger" 2>/dev/null || true
sum_up
[ -z "$missing" ] || exit 3
ends=$(for name in $(in_order); do cat "$kept/$name.state"; done)
! grep -q '^failed' <<<"$ends" || exit 1
! grep -q '^cut' <<<"$ends" || exit 4
