#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# arm64 on an x86-64 machine: builds, runs tests under emulation, and compares bits: ci/fresh-arm64.sh [FOLDER]
#
# FOLDER (build-arm64) gets root/, the libraries and C library of Debian's arm64, from the sources that this machine's
# apt has; a cross compiler builds there, and qemu-user runs the tests below. Then the cases below are trained by
# build/lockstep (or LOCKSTEP), by the arm64 program, and small ones by the first again as on an x86-64 without AVX and
# FMA. The parameters must have the same bits after the last step. Where a case has an operation of oneDNN, whose sums
# are in an order of its own on each processor, a line names that operation instead.
#
# Without root: the packages are only unpacked, and the kernel is not told of the emulator. A second call builds and
# downloads what has changed. Exit status 77: something is missing, which the last line names.
#
# The arm64 program runs on one core: on several, QEMU 7.2 on x86-64 lets a load overtake a store before it although
# both are sequentially consistent (stlr, ldar), so that threads sleep for ever. Left out therefore: the order of
# memory accesses among cores; devices of two cores; MPI, whose launcher would have to start emulated ranks; strategies
# that are not meant to be equal, of which verify gives no digest; figures of speed, since an emulator's mean nothing.
set -euo pipefail
sources=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$sources/build-arm64}
native=${LOCKSTEP:-$sources/build/lockstep}
packages=(libc6-dev libdnnl-dev libhwloc-dev libxxhash-dev libjansson-dev libsqlite3-dev libfyaml-dev zlib1g-dev
  libgomp1 libcmocka-dev)
# What computes, what reads the processor, and what encodes or counts bits.
tests=(vector_loops vector_layers winograd packed_product kernels layer_kernels residual_kernels transformer_kernels
  layers residual_layers transformer_layers variables device device_programs affinity machine machine_limits digest
  philox order numbers safetensors slice bf16 comm_wire_loops)
# For `verify`, which measures nothing. Models that loops compute alone, with each kind of strategy; then each other
# model, by a step of few samples, since an emulated one takes long.
short="--batch 8 --steps 1"
cases=("--model poly"
  "--model poly --optimizer momentum:0.9 --strategy mirrored --devices 3 --reduce exact"
  "--model mlp:8-6-4"
  "--model mlp:8-6-4 --optimizer rmsprop --strategy towers --devices 2"
  "--model mlp:8-6-4 --strategy mirrored --devices 3 --allreduce ring"
  "--model mlp:8-6-4 --optimizer momentum:0.9 --strategy mirrored --devices 4 --allreduce tree"
  "--model mlp:8-6-4 --strategy mirrored --devices 2 --reduce exact"
  "--model mlp:8-6-4 --strategy ps --devices 2"
  "--model mlp:8-6-4-4 --strategy model-parallel --devices 2"
  "--model mlp:8-6-4-4 --strategy pipeline --devices 2"
  "--model mlp:8-6-4-4 --strategy hybrid --devices 4 --hybrid-inner pipeline"
  "--model mlp:8-6-4 --strategy zero --devices 3"
  "--model gpt:2-2-32-16 --optimizer adamw --strategy mirrored --devices 2 --reduce exact $short"
  "--model mlp:8-6-4 --precision bf16 --strategy mirrored --devices 2 --reduce exact"
  "--model gpt:2-2-16-16-64 --precision bf16 --strategy zero --devices 2 --gradient-wire bf16 $short"
  "--model mlp:784-16-10 --strategy mirrored --devices 2"
  "--model cnn $short"
  "--model cnn --strategy mirrored --devices 2 --reduce exact $short"
  "--model cifar10 $short"
  "--model twin-lstm:8 $short"
  "--model lstm-stack:2 --strategy pipeline --devices 2 $short"
  "--model resnet:8 $short")
common=(--data synthetic:64 --warmup 0 --cpu-devices 4 --format jsonl --results none --quiet)

skip() {
  echo "skipped: $1"
  exit 77
}

# The emulator's path: Debian 12 has it with -static in its name, and later ones without.
emulator() { # PROCESSOR
  command -v "qemu-$1-static" || command -v "qemu-$1"
}

[ "$(uname -m)" = x86_64 ] || skip "this machine is no x86-64, with whose bits arm64's would be compared"
[ -x "$native" ] || skip "$native is not built; ci/test.sh builds it"
for program in apt-get dpkg-deb cmake ninja python3; do
  command -v "$program" >/dev/null || skip "$program: is missing"
done
command -v aarch64-linux-gnu-gcc >/dev/null || skip "aarch64-linux-gnu-gcc: is missing; ci/install.sh all"
arm=$(emulator aarch64) && plain=$(emulator x86_64) || skip "qemu-user: is missing; ci/install.sh all"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root

# ---- Debian's arm64 ----------------------------------------------------------------------------------------------

# apt with a state of its own, in which nothing is installed.
foreign_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" \
    -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User="$(id -un)" "$@" >>"$folder/apt/log" 2>&1
}

unpack_root() {
  rm -rf --one-file-system "$root" "$folder/apt" "$folder/unpacked" "$folder/CMakeCache.txt"
  mkdir -p "$root/usr/lib" "$folder"/apt/{lists,archives}/partial
  ln -s usr/lib "$root/lib"
  touch "$folder/apt/status"
  foreign_apt update && foreign_apt install -y --download-only --no-install-recommends "${packages[@]}" ||
    skip "apt-get: $(grep -m 1 '^E:' "$folder/apt/log" || tail -n 1 "$folder/apt/log")"
  for package in "$folder"/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -xC "$root" --keep-directory-symlink --no-same-owner
  done
  rm -rf "$folder/apt/archives"
  echo "${packages[*]}" >"$folder/unpacked"
}
[ "$(cat "$folder/unpacked" 2>/dev/null)" = "${packages[*]}" ] || unpack_root
echo "arm64 libraries: $SECONDS s; $(du -sm "$root" | cut -f 1) MB in $root"

cores=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
cat >"$folder/emulated" <<E
#!/usr/bin/env bash
# Runs an arm64 program on one of the cores.
cores=($cores)
exec taskset -c \${cores[\$((\$\$ % \${#cores[@]}))]} $arm -L "$root" "\$@"
E
chmod +x "$folder/emulated"

# ---- Build -------------------------------------------------------------------------------------------------------

launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$sources} CCACHE_NOHASHDIR=yes
fi
started=$SECONDS
if ! { cmake -S "$sources" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_WERROR=ON \
  -DLOCKSTEP_MPI=OFF -DLOCKSTEP_CUDA=OFF -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_SYSROOT="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_CROSSCOMPILING_EMULATOR="$folder/emulated" "${launcher[@]}" &&
  cmake --build "$folder" --target lockstep "${tests[@]/#/test_}"; } >"$folder/build.log" 2>&1; then
  tail -n 40 "$folder/build.log" >&2
  exit 1
fi
echo "built: $((SECONDS - started)) s"

# ---- Tests -------------------------------------------------------------------------------------------------------

failed=0
pattern=$(IFS='|' && echo "^unit\\.test_(${tests[*]})\$")
ctest --test-dir "$folder" -R "$pattern" -j$((2 * $(nproc))) --output-on-failure --no-tests=error || failed=1

# ---- Bits --------------------------------------------------------------------------------------------------------

# The row, or nothing; what a command says goes to OUT.said.
train() { # OUT CASE COMMAND...
  local out=$1 options
  read -ra options <<<"$2"
  [[ $2 == *--batch* ]] || options+=(--batch 16 --steps 3)
  [[ $2 != *--devices* ]] || options+=(--timeout 600s)
  "${@:3}" verify "${common[@]}" "${options[@]}" >"$out" 2>"$out.said" </dev/null || true
}

# Prints a case's digests; false where they differ, and should not.
compare() { # FOLDER CASE
  train "$1/x86-64" "$2" "$native"
  train "$1/arm64" "$2" "$folder/emulated" "$folder/lockstep"
  local second=() # a large model's products without a fused multiply-add, emulated, would take too long
  if [[ $2 != *"$short" ]]; then
    second=("x86-64 without AVX")
    train "$1/x86-64 without AVX" "$2" "$plain" -cpu Nehalem "$native"
  fi
  python3 - "$1" "$2" x86-64 arm64 "${second[@]}" <<'P'
import json, sys
folder, case, *names = sys.argv[1:]
library = {"matmul_brg", "primitive"}  # oneDNN's, or in part
rows = []
for name in names:
    text = open(f"{folder}/{name}").read()
    rows.append(json.loads(text) if text.strip() else None)
print(case)
wrong = False
for name, row in zip(names, rows):
    if not row or not row["equivalence"].get("digest") or not row["equivalence"]["pass"]:
        print(f"  {name}: FAILED: no digest, or the gate found a difference; see {folder}/*.said")
        sys.exit(1)
first = rows[0]["equivalence"]["digest"]
for name, row in zip(names, rows):
    digest = row["equivalence"]["digest"]
    words = "equal"
    if digest != first:
        foreign = sorted(f"{operation} ({kernel})" for r in (rows[0], row)
                         for operation, kernel in r["provenance"]["kernels"].items()
                         if library & set(kernel.split("+")))
        words = "differs, by oneDNN: " + ", ".join(dict.fromkeys(foreign)) if foreign else "FAILED: differs"
        wrong = wrong or not foreign
    print(f"  {name:18} {digest} {words}; {row['provenance']['kernels']['library']}")
sys.exit(wrong)
P
}

rm -rf "$folder/cases"
for i in "${!cases[@]}"; do # most of the time they wait
  while [ "$(jobs -rp | wc -l)" -ge $((2 * $(nproc))) ]; do sleep 0.1; done
  mkdir -p "$folder/cases/$i"
  { compare "$folder/cases/$i" "${cases[i]}" && touch "$folder/cases/$i/well"; } >"$folder/cases/$i/text" &
done
wait
for i in "${!cases[@]}"; do
  cat "$folder/cases/$i/text"
  [ -e "$folder/cases/$i/well" ] || failed=1
done
differ=$({ grep -l 'arm64 .*differs, by oneDNN' "$folder"/cases/*/text || true; } | wc -l)
echo "arm64: $SECONDS s; ${#cases[@]} cases, $differ of them with other bits by oneDNN"
[ $failed = 0 ] || echo "FAILED: see above"
exit $failed
