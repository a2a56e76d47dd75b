# SPDX-License-Identifier: MIT
# Parts of ci/gpu.sh, one function each: part_NAME. Sourced by it, in the top folder, with `out`,
# `build`, `program`, `deps` and `rehearse` set; what a part prints is its log, its last line the
# reason where it fails. Rows go to OUT/PART.jsonl. Exit status 77: left out, for the last line.
# In a rehearsal the devices are CPU devices, and sizes and steps few.

# Sizes of a rehearsal, or the real ones: pick SMALL REAL.
pick() { if [ -n "$rehearse" ]; then echo "$1"; else echo "$2"; fi; }

left_out() {
  echo "$1"
  exit 77
}

broken() {
  echo "$1"
  exit 1
}

# The option that makes N devices of one.
split() { echo "$(pick --cpu-devices --logical-gpus) $1"; }

# Fashion-MNIST where it is, of the system or of the prefix; else made-up data.
images() {
  local folder=usr/share/datasets/fashion-mnist
  if [ -n "$rehearse" ]; then
    echo synthetic:600
  elif [ -e "/$folder" ]; then
    echo fashion-mnist
  elif [ -n "$deps" ] && [ -e "$deps/$folder" ]; then
    echo "fashion-mnist:$deps/$folder"
  else
    echo synthetic
  fi
}

# Whether the program was built with cuDNN.
has_cudnn() { grep -q '^ *cuDNN *[0-9]' <<<"$("$program" --version)"; }

# rows FILE ARGUMENT...: runs the program; its rows are among those of OUT/FILE.jsonl, its status is
# kept in $code, and what it said on stderr in $said (and in the log). A command that went well in an
# earlier run of this part, by the same program, is not run again; of one that was cut nothing is kept.
rows() {
  local file=$1 folder unit
  shift
  folder=$out/rows/$file
  mkdir -p "$folder"
  [ -n "${identity:-}" ] || identity=$("$program" --version 2>&1 | cksum)
  order=$((${order:-1000} + 1))
  unit=$folder/$order-$(cksum <<<"$identity $*" | cut -d ' ' -f 1)
  code=0
  said=
  if [ -e "$unit.jsonl" ]; then
    echo "+ lockstep $*: done before"
    return 0
  fi
  rm -f "$folder/$order"-* # of another program
  echo "+ lockstep $*"
  "$program" "$@" --format jsonl >"$folder/now" 2>"$out/stderr" </dev/null || code=$?
  said=$(head -c 2000 "$out/stderr")
  [ -z "$said" ] || echo "$said"
  rm -f "$out/stderr"
  [ "$code" -eq 0 ] || echo "exit status $code"
  mv "$folder/now" "$unit.$([ "$code" -eq 0 ] && echo jsonl || echo bad)"
  cat "$folder"/*.jsonl "$folder"/*.bad >"$out/$file.jsonl" 2>/dev/null || true
}

# again FILE: forgets the rows of a file, whose commands belong together.
again() {
  rm -rf "${out:?}/rows/$1"
  rm -f "$out/$1.jsonl"
}

# ---- The machine and the program ----------------------------------------------------------------

part_machine() {
  uname -srm
  date -u +%Y-%m-%dT%H:%M:%SZ
  grep -m 1 'model name' /proc/cpuinfo || true
  echo "cores $(nproc), load $(cut -d ' ' -f 1-3 /proc/loadavg)"
  grep MemTotal /proc/meminfo
  gcc --version | head -n 1
  cmake --version | head -n 1
  python3 -c 'import importlib.metadata as m, sys
print("python3", sys.version.split()[0])
for d in m.distributions():
    n = (d.metadata["Name"] or "").lower()
    if n in ("torch", "jax", "triton") or n.startswith(("nvidia-cudnn", "nvidia-nccl", "nvidia-cublas")):
        print(n, d.version)'
  if [ -z "$rehearse" ]; then
    nvcc --version | tail -n 2
    nvidia-smi --query-gpu=index,name,memory.total,memory.used,driver_version,clocks.max.sm,clocks.sm,clocks.mem,power.limit \
      --format=csv
  fi
}

part_configure() {
  local generator="Unix Makefiles"
  if [ -n "${LOCKSTEP_PROGRAM_BUILT:-}" ]; then
    echo "given: $build"
    return
  fi
  if command -v ninja >/dev/null; then generator=Ninja; fi
  [ ! -e "$build/CMakeCache.txt" ] || rm "$build/CMakeCache.txt" # what has come since is found
  cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=ON \
    -DLOCKSTEP_CUDA="$(pick AUTO ON)" ${deps:+-DLOCKSTEP_DEPS="$deps"} 2>&1 || broken "$(
    tail -n 30 "$out/configure.log" | grep -m 1 -E 'LOCKSTEP|  [a-z]+ \(' || echo "cmake failed; see configure.log")"
}

part_build() {
  if [ -n "${LOCKSTEP_PROGRAM_BUILT:-}" ]; then
    [ -x "$program" ] || broken "$program: is not there"
    return
  fi
  cmake --build "$build" -j "$(nproc)" 2>&1 || broken "$(grep -m 1 -E 'error|Error' "$out/build.log" || echo "see build.log")"
}

# The program starts without a library of CUDA and sees the devices.
part_devices() {
  local seen
  seen=$("$program" devices)
  "$program" --version
  echo "$seen"
  # shellcheck disable=SC2046
  "$program" devices $(split 8)
  if ldd "$program" | grep -E 'libcuda|libcublas|libcudnn|libnccl'; then
    broken "the program is linked to a library of CUDA"
  fi
  grep -q "^$(pick cpu:0 gpu:0) " <<<"$seen" || broken "the program sees no $(pick CPU GPU): $(
    sed -n 's/^gpu  *//p' <<<"$seen")"
}

# A test that is skipped though there is a GPU proves nothing: that fails.
part_tests() {
  local passed skipped
  mkdir -p "$out/ctest" # its own notes, so that a run of ctest in the build folder keeps its
  echo "subdirs(\"$build\")" >"$out/ctest/CTestTestfile.cmake"
  ctest --test-dir "$out/ctest" -L gpu --no-tests=error --output-on-failure -j 2 --timeout 100 2>&1 ||
    broken "ctest failed: $(grep -cE '\*\*\*(Failed|Timeout|Exception)' "$out/tests.log") tests; see tests.log"
  passed=$(grep -cE ' Passed ' "$out/tests.log" || true)
  skipped=$(grep -E '\*\*\*Skipped' "$out/tests.log" | grep -vcE 'test_gpu_(nccl|conv_kernels) ' || true) # NCCL and cuDNN may be missing
  [ -n "$rehearse" ] || [ "$skipped" -eq 0 ] || broken "$skipped tests were skipped though there is a GPU"
  echo "$passed passed, $skipped skipped"
}

# ---- Equality -------------------------------------------------------------------------------------

# verify_one DEVICES MODEL STRATEGY OPTION...: where a list of numbers is refused as a whole, each is
# asked by itself. What is refused is listed, what fails is counted.
verify_one() {
  local devices=$1 model=$2 strategy=$3 line n
  # shellcheck disable=SC2046
  rows verify verify --model "$model" --strategy "$strategy" $(split 8) --devices "$devices" \
    --steps 10 --warmup 0 --results none "${@:4}"
  if [ "$code" -eq 2 ] && [[ $devices == *,* ]]; then
    for n in ${devices//,/ }; do verify_one "$n" "${@:2}"; done
    return
  fi
  while [ -n "$said" ] && read -r line; do
    echo "$model, $strategy, devices $devices: ${line#lockstep: }" >>"$out/refused.txt"
  done <<<"$said"
  [ "$code" -eq 0 ] || [ "$code" -eq 2 ] || failed="$failed $model/$strategy"
}

part_verify() {
  local strategy model devices failed=
  local holder=/cpu:0
  [ -n "$rehearse" ] || holder=gpu:0/0
  while read -r strategy; do
    local options=(--reduce "exact,fast")
    devices=1,2,4,8
    [ "$strategy" != independent ] || options=()
    [ "$strategy" != single ] || devices=1
    [[ $strategy != towers && $strategy != ps ]] || options+=(--variable-device "$holder")
    verify_one "$devices" poly "$strategy" "${options[@]}"
    verify_one "$devices" "$(pick mlp:784-16-10 mlp)" "$strategy" --data "$(images)" --batch "$(pick 24 256)" "${options[@]}"
    [ -n "$rehearse" ] || verify_one "$devices" mlp:784-64-32-10 "$strategy" --data "$(images)" --batch 100 --capture no "${options[@]}"
  done < <("$program" list strategies | sed -nE 's/^  ([a-z-]+) .*/\1/p')
  for model in $(pick "" "cnn lstm-stack:1 twin-lstm cifar10"); do
    for strategy in single mirrored; do
      [ "$strategy" = single ] && devices=1 || devices=2,4
      local convolution=()
      [ "$model" != cifar10 ] || convolution=(--convolution "auto,own")
      verify_one "$devices" "$model" "$strategy" --data synthetic:600 --batch 16 --reduce exact,fast "${convolution[@]}"
    done
  done
  python3 -B ci/gpu_summary.py --digests "$out/verify.jsonl" || failed="$failed digests"
  [ -z "$failed" ] || broken "not equal, or could not run:$failed"
}

# After 20 steps a GPU's parameters and a CPU's are as close as their products' orders let them be.
part_compare() {
  local common="--model $(pick mlp:784-16-10 mlp) --optimizer sgd --lr 0.1 --steps 20 --warmup 0 --gate-steps 0
    --results none"
  again compare
  # shellcheck disable=SC2086
  rows compare run $common --data "$(images)" --devices cpu:0 --verbose --save "$out/cpu.safetensors"
  [ "$code" -eq 0 ] || broken "on a CPU: exit status $code"
  # shellcheck disable=SC2086
  rows compare run $common --data "$(images)" --devices 1 --verbose --save "$out/gpu.safetensors"
  [ "$code" -eq 0 ] || broken "on a GPU: exit status $code"
  python3 -B ci/gpu_summary.py --compare "$out/cpu.safetensors" "$out/gpu.safetensors" || broken "the GPU's parameters differ from the CPU's by more than the bound"
  rm -f "$out"/*.safetensors
}

# ---- Figures --------------------------------------------------------------------------------------

big() { pick mlp:784-64-64-10 mlp:784-4096-4096-10; }
big_batch() { pick 64 8192; }

# must ARGUMENT...: rows of a command that has to go well.
must() {
  rows "$@"
  [ "$code" -eq 0 ] || failed="$failed; ${*:2:4} (exit status $code)"
}

part_bench() {
  local failed='' data
  data=$(images)
  local common=(--data "$data" --results none)
  must floor micro floor --model "$(big)" --batch "$(big_batch)" --data "$data"
  must bench run --model "$(big)" --batch "$(big_batch)" --steps "$(pick 5 60)" "${common[@]}" --label large
  must bench run --model mlp --batch "$(pick 24 256)" --steps "$(pick 20 5000)" --capture yes,no "${common[@]}" --label small
  # shellcheck disable=SC2046
  must bench run --model "$(pick mlp:784-16-10 mlp:784-1024-1024-10)" --batch "$(pick 24 2048)" --steps "$(pick 5 100)" \
    --strategy mirrored,independent --devices 1,2,4,8 $(split 8) --baseline "${common[@]}" --label logical
  [ -n "$rehearse" ] || must bench run --model "$(big)" --batch "$(big_batch)" --steps 60 --math tf32 "${common[@]}" --label large-tf32
  [ -n "$rehearse" ] || must bench run --model cifar10 --data synthetic:2048 --results none --steps 200 --convolution auto,own --label convolutions
  [ -z "$failed" ] || broken "failed:${failed#;}"
}

part_micro() {
  local failed='' few=() op gpus
  [ -z "$rehearse" ] || few=(--sizes 4KiB,64KiB)
  must micro micro launch
  must micro micro copy "${few[@]}"
  # shellcheck disable=SC2046
  must micro micro copy $(split 2) --devices "$(pick cpu:0+cpu:1 gpu:0/0+gpu:0/1)" "${few[@]}"
  must micro micro optimizer --model "$(pick poly mlp:784-4096-4096-10)" "${few[@]}"
  for op in allreduce broadcast allgather reducescatter sendrecv; do
    # shellcheck disable=SC2046
    must micro micro "$op" $(split 4) --devices 4 --comm device --sizes "$(pick 4KiB 4KiB,1MiB,64MiB)"
  done
  gpus=$(pick 0 "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)")
  if [ "$gpus" -gt 1 ]; then # NCCL refuses two ranks on one GPU; it may be missing
    must micro micro allreduce --comm device --devices "$gpus" --sizes 4KiB,1MiB,64MiB
    rows micro micro allreduce --comm nccl --devices "$gpus" --sizes 4KiB,1MiB,64MiB
    [ "$code" -eq 0 ] || [[ $said == *"cannot be loaded"* || $said == *"not in this build"* ]] ||
      failed="$failed; micro allreduce --comm nccl (exit status $code)"
  fi
  for op in $(pick "" "own $(has_cudnn && echo cudnn)"); do # each layer, both ways of convolutions
    must micro micro layers --model cifar10 --batch 128 --convolution "$op"
  done
  [ -n "$rehearse" ] || must micro micro gemm # of large squares, which take a CPU too long
  [ -z "$failed" ] || broken "failed:${failed#;}"
}

# PyTorch and JAX, in turns with the program. They are to load the libraries of their own packages,
# so they do without the prefix; the program gets it back.
part_peers() {
  local program_here=$out/peers-lockstep code=0 data
  python3 -c 'import importlib.util as u, sys
here = [u.find_spec(name) is not None for name in ("numpy", "safetensors", "torch", "jax")]
sys.exit(not (all(here[:2]) and any(here[2:])))' ||
    left_out "neither PyTorch nor JAX, with numpy and safetensors, in this python3"
  printf '#!/bin/sh\n%s exec "%s" "$@"\n' "${LD_LIBRARY_PATH:+LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\"}" "$program" >"$program_here"
  chmod +x "$program_here"
  data=$deps/usr/share/datasets/fashion-mnist
  [ -e "$data" ] || data=/usr/share/datasets/fashion-mnist
  env -u LD_LIBRARY_PATH ${LOCKSTEP_USER_LIBRARIES:+LD_LIBRARY_PATH="$LOCKSTEP_USER_LIBRARIES"} \
    LOCKSTEP_FASHION_MNIST="$data" python3 -B bench/peers/gpu.py --lockstep "$program_here" \
    --device "$(pick cpu cuda)" --rounds "$(pick 1 3)" --json "$out/peers.json" || code=$?
  rm -f "$program_here"
  return "$code"
}

# What the device holds while a case trains, by each policy: the driver's figure ten times a second
# (memory.csv), and the ledger in the rows.
part_memory() {
  local failed='' sampler='' policy
  if [ -z "$rehearse" ]; then
    nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu --format=csv -lms 100 >"$out/memory.csv" &
    sampler=$!
  fi
  for policy in all growth fraction=0.4; do
    must memory run --model "$(pick mlp:784-16-10 mlp:784-1024-1024-10)" --data "$(images)" --batch "$(pick 24 1024)" \
      --steps "$(pick 20 2000)" --memory "$policy" --results none --label "$policy"
  done
  [ -z "$sampler" ] || kill "$sampler" || true
  [ -z "$failed" ] || broken "failed:${failed#;}"
}

# ---- Faults ---------------------------------------------------------------------------------------

# sanitize TOOL COMMAND...: in the background; what has gone well before is not done again. Its log
# is OUT/sanitized/NAME.log, its status in NAME.code.
sanitize() {
  local tool=$1 name=$1-${2##*/}
  shift
  [[ $(cat "$out/sanitized/$name.code" 2>/dev/null) != 0 ]] || return 0
  rm -f "$out/sanitized/$name.code"
  while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n || true; done
  (
    code=0
    compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$@" 2>&1 | tail -c 20000 \
      >"$out/sanitized/$name.log" || code=$?
    echo "$code" >"$out/sanitized/$name.code"
  ) &
}

part_sanitizer() {
  local tool unit failed='' probe file
  local units=(test_gpu_device test_gpu_kernels test_gpu_layer_kernels test_gpu_conv_kernels test_gpu_residual_kernels test_gpu_comm)
  [ -z "$rehearse" ] || left_out "nothing of a rehearsal runs on a GPU"
  command -v compute-sanitizer >/dev/null || left_out "no compute-sanitizer here"
  probe=$(timeout 30 compute-sanitizer --tool memcheck "$program" micro copy --sizes 4KiB 2>&1 || true)
  if [[ $probe == *"not supported"* ]]; then left_out "compute-sanitizer does not support this device here"; fi
  mkdir -p "$out/sanitized"
  sanitize memcheck "$program" run --model poly --steps 20 --memory growth --results none
  for tool in memcheck racecheck; do
    for unit in "${units[@]}"; do sanitize "$tool" "$build/$unit"; done
  done
  wait
  for file in "$out"/sanitized/*.code; do
    echo "$(basename "$file" .code): exit status $(cat "$file")"
    [ "$(cat "$file")" -eq 0 ] || failed="$failed $(basename "$file" .code)"
  done
  [ -z "$failed" ] || broken "errors (see sanitized/):$failed"
}
