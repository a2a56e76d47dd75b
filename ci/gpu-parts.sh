# SPDX-License-Identifier: MIT
# Parts of ci/gpu.sh, one function each: part_NAME. Sourced by it, in the top folder, with `out`, `build`, `program`,
# `deps` and `rehearse` set; a part's output is its log, whose last line is the reason if it fails. `out` is the
# folder of results: rows go to PART.jsonl there. Exit status 77: left out, for the reason in the last line; 75: the
# same for what a limit has cut. A rehearsal uses small sizes and few steps, on fake GPUs where the program has them, else
# on CPU devices; `kind` is gpu or cpu.
kind=gpu
if [ -n "$rehearse" ] && [ -x "$program" ] && ! grep -q '^gpu:0 ' <<<"$("$program" devices 2>/dev/null)"; then kind=cpu; fi

# pick SMALL REAL [FAKE]: the size for a rehearsal, the real one, or if it is another that for fake GPUs, which are slow.
pick() { if [ -z "$rehearse" ]; then echo "$2"; elif [ "$kind" = gpu ]; then echo "${3-$1}"; else echo "$1"; fi; }

left_out() {
  echo "$1"
  exit 77
}

broken() {
  echo "$1"
  exit 1
}

# after_limits WHAT: for a part of which nothing failed, but WHAT (which may be empty) was cut by a limit.
after_limits() {
  [ -n "$1" ] || return 0
  echo "cut, not failed: $1"
  exit 75
}

# diagnose NAME STATUS COMMAND...: what a failure of the GPU's leaves: the command once more, at once, under memcheck,
# each launch awaited, with the libraries' logs; of one that hangs, where its threads and kernels are. For a part's
# first DIAGNOSED failures, in OUT/diagnosis/NAME.log. Its own result counts for nothing.
DIAGNOSED=3
diagnose() {
  local name=$1 status=$2 log pid tool=()
  shift 2
  { [ -z "$rehearse" ] || command -v compute-sanitizer >/dev/null; } || return 0
  mkdir -p "$out/diagnosis"
  log=$out/diagnosis/$name.log
  [ ! -e "$log" ] && [ $((DIAGNOSED -= 1)) -ge 0 ] || return 0
  [[ $1 != "$program" ]] || [[ " $* " == *" --capture "* ]] || [[ $2 != run && $2 != verify ]] || set -- "$@" --capture no
  if [[ $status == 124 || $status == 137 ]]; then
    command -v cuda-gdb >/dev/null || return 0
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    sleep 15
    timeout -k 2 20 cuda-gdb -batch -p "$pid" -ex 'info cuda kernels' -ex 'thread apply all bt 12' >>"$log" 2>&1 || true
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  else
    command -v compute-sanitizer >/dev/null && tool=(compute-sanitizer --tool memcheck --print-limit 20)
    CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=$log.cublas CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=$log.cudnn NCCL_DEBUG=INFO \
      CUDA_LAUNCH_BLOCKING=1 timeout -k 2 30 "${tool[@]}" "$@" >"$log" 2>&1 </dev/null || true
    for pid in "$log" "$log.cublas" "$log.cudnn"; do
      [ ! -e "$pid" ] || { tail -c 200000 "$pid" >"$pid.end" && mv "$pid.end" "$pid"; }
    done
  fi
  echo "diagnosis of $name: $(grep -am 1 -E '=========.*(Invalid|Error|error|race|ERROR SUMMARY)|^lockstep: |^#0 ' "$log" |
    cut -c 1-160 || true)"
}

# The option that divides one device into N.
split() { if [ "$kind" = gpu ]; then echo "--logical-gpus $1"; else echo "--cpu-devices $1"; fi; }

# Device N of those.
piece() { if [ "$kind" = gpu ]; then echo "gpu:0/$1"; else echo "cpu:$1"; fi; }

# Fashion-MNIST if the system or the prefix has it; otherwise synthetic data.
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

# rows FILE ARGUMENT...: runs the program, for at most LIMIT seconds (ten times as long in a rehearsal); adds its rows
# to FILE.jsonl, sets $code to its exit status and $said (also in the log) to its stderr. A command that succeeded in an
# earlier run of this part, with the same program, is not repeated; of an interrupted one nothing is kept.
rows() {
  local file=$1 folder unit most=$((${limit:-60} * $(pick 10 1)))
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
  timeout -k 2 "$most" "$program" "$@" --format jsonl >"$folder/now-$order" 2>"$folder/said-$order" </dev/null || code=$?
  said=$(head -c 2000 "$folder/said-$order")
  [ -z "$said" ] || echo "$said"
  rm -f "$folder/said-$order"
  [ "$code" -ne 124 ] || said="no end after $most s"
  [ "$code" -eq 0 ] || echo "exit status $code"
  [[ $code == 0 || $code == 2 || -n ${plain:-} ]] || diagnose "$file-$order" "$code" "$program" "$@"
  mv "$folder/now-$order" "$unit.$([ "$code" -eq 0 ] && echo jsonl || echo bad)"
  [ -n "${together:-}" ] || gather "$file"
}

# Joins the rows of a file's commands, in their order.
gather() { cat "$out/rows/$1"/*.jsonl "$out/rows/$1"/*.bad >"$out/$1.jsonl" 2>/dev/null || true; }

# again FILE: deletes the rows of a file whose commands belong together.
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
      --format=csv || true
  fi
}

part_build() {
  local generator="Unix Makefiles" begin=$SECONDS architectures='' targets=()
  if [ -n "${LOCKSTEP_PROGRAM_BUILT:-}" ]; then
    [ -x "$program" ] || broken "$program: is not there"
    echo "given: $build"
    return
  fi
  if [ -x "$program" ] && [ ! -e "$build/CMakeCache.txt" ] && "$program" --version >/dev/null; then
    echo "carried: built where the folder was packed"
    return
  fi
  if command -v ninja >/dev/null; then generator=Ninja; fi
  if [ -z "$rehearse" ]; then # this GPU's only, and only what runs here
    architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | sed 's/\.//; s/$/-real/' | paste -sd ';')
    targets=(--target lockstep)
    for test in common/*/tests/test_{gpu,cuda}_*.c common/*/cuda/tests/test_{gpu,cuda}_*.c; do
      [[ ! -e $test || $test == *_emulated.c ]] || targets+=("$(basename "$test" .c)")
    done
  fi
  # Programs find the prefix's libraries by RPATH, which their dependencies use, too; an environment variable would
  # affect every other program.
  [ ! -e "$build/CMakeCache.txt" ] || rm "$build/CMakeCache.txt" # finds what was installed since
  cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=ON \
    -DLOCKSTEP_CUDA="$(pick AUTO ON)" ${architectures:+-DCMAKE_CUDA_ARCHITECTURES="$architectures"} ${deps:+-DLOCKSTEP_DEPS="$deps" -DCMAKE_BUILD_RPATH="$libraries"} \
    ${deps:+-DCMAKE_EXE_LINKER_FLAGS="-Wl,--disable-new-dtags"} 2>&1 || broken "$(
    tail -n 30 "$out/build.log" | grep -m 1 -E 'LOCKSTEP|  [a-zA-Z]+ \(' || echo "cmake failed; see build.log")"
  echo "configured in $((SECONDS - begin)) s"
  cmake --build "$build" -j "$(nproc)" "${targets[@]}" 2>&1 || broken "$(grep -m 1 -E 'error|Error' "$out/build.log" || echo "see build.log")"
  cmake --build "$build" --target kernel_times || true # only if cupti.h is here
  echo "configured and built in $((SECONDS - begin)) s"
}

# The program starts without a library of CUDA and finds the devices.
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
  grep -q "^$kind:0 " <<<"$seen" || broken "the program sees no ${kind^^}: $(sed -n 's/^gpu  *//p' <<<"$seen")"
}

# each FILE COMMAND OPTION...: runs the program for each line of stdin: a label, options. Several at a time if `abreast`
# says so: what is timed runs alone. Ends the part if one fails.
each() {
  local file=$1 label options failed='' slow='' order=1000 together=${abreast:+yes}
  shift
  identity=$("$program" --version 2>&1 | cksum)
  rm -f "$out/$file.failed" "$out/$file.slow"
  while read -r label options; do
    order=$((order + 1))
    while [ "$(jobs -rp | wc -l)" -ge "${abreast:-1}" ]; do wait -n || true; done
    # shellcheck disable=SC2086
    (
      order=$((order - 1)) # which rows counts up
      rows "$file" "$@" $options --label "$label"
      case "$code" in
      0) ;;
      124 | 137) echo "$label" >>"$out/$file.slow" ;;
      *) echo "$label" >>"$out/$file.failed" ;;
      esac
    ) &
  done
  wait
  gather "$file"
  [ ! -e "$out/$file.failed" ] || broken "failed: $(sort "$out/$file.failed" | paste -sd ' ')"
  after_limits "$([ ! -e "$out/$file.slow" ] || sort "$out/$file.slow" | paste -sd ' ')"
}

# A figure of each model, soon: 20 steps, beside the gate. Rough: other work goes on meanwhile.
part_smoke() {
  local limit=40 failed='' slow=''
  if [ -z "$rehearse" ]; then # what memory and products can do at most here
    must roofs micro copy
    must roofs micro gemm
  fi
  each smoke run --steps 20 --warmup 3 --blocks 1 --memory growth --results none < <(smoke_models)
}

# label, options
smoke_models() {
  local gate="--gate-steps $(pick 1 4)"
  if [ -n "$rehearse" ]; then
    echo "mlp --model mlp:784-16-10 --data synthetic:600 --batch 24 $gate"
    return
  fi
  cat <<END
poly --model poly $gate
mlp --model mlp --data $(images) $gate
mlp-enqueued --model mlp --data $(images) --capture no $gate
cnn --model cnn --data $(images) $gate
cifar10-own --model cifar10 --data synthetic:2048 --convolution own $gate
cifar10-auto --model cifar10 --data synthetic:2048 --convolution auto $gate
resnet:8 --model resnet:8 --data synthetic:2048 $gate
twin-lstm --model twin-lstm:64 --data synthetic:2048 $gate
gpt-small --model gpt:6-6-384-256-256 --batch 64 --data synthetic $gate
gpt --model gpt:12-12-768-1024-50257 --batch 4 --data synthetic:64 --gate-steps 0
gpt-bf16 --model gpt:12-12-768-1024-50257 --batch 4 --data synthetic:64 --precision bf16 --gate-steps 0
gpt-tf32 --model gpt:12-12-768-1024-50257 --batch 4 --data synthetic:64 --math tf32 --gate-steps 0
mlp-large --model mlp:784-4096-4096-10 --batch 8192 --data $(images) $gate
mlp-large-tf32 --model mlp:784-4096-4096-10 --batch 8192 --math tf32 --data $(images) $gate
mlp-large-bf16 --model mlp:784-4096-4096-10 --batch 8192 --precision bf16 --data $(images) $gate
END
}

# The tests of GPUs and of the libraries loaded for them, two at a time; tests that passed before are not repeated. A
# test that is skipped although there is a GPU counts as failed, except for NCCL and cuDNN, which may be missing.
part_tests() {
  local test name line failed=0 slow=''
  mkdir -p "$out/tests"
  for test in "$build"/test_gpu_* "$build"/test_cuda_*; do
    name=$(basename "$test")
    [ -x "$test" ] && [ -f "$test" ] && [[ $name =~ $(pick . . '_(device|nccl)$') ]] || continue
    [[ $(cat "$out/tests/$name.code" 2>/dev/null) != 0 ]] || continue
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
    (
      code=0
      cd "$build" && timeout -k 2 60 "$test" >"$out/tests/$name.now" 2>&1 </dev/null || code=$?
      tail -c 200000 "$out/tests/$name.now" >"$out/tests/$name.log"
      rm -f "$out/tests/$name.now"
      echo "$code" >"$out/tests/$name.code"
    ) &
  done
  wait
  for test in "$out"/tests/*.code; do
    [ -e "$test" ] || broken "$build: has no tests"
    name=$(basename "$test" .code)
    line=$(grep -avE '^ *$' "$out/tests/$name.log" | tail -n 1 | cut -c 1-160 || true)
    case "$(cat "$test")" in
    0) line="passed: $line" ;;
    77)
      line="skipped: ${line#skipped: }"
      [ -n "$rehearse" ] || [[ $name =~ ^test_(gpu_(nccl|conv_kernels)|cuda_dnn)$ ]] || failed=$((failed + 1))
      ;;
    124 | 137)
      line="no end after 60 s" slow="$slow $name"
      diagnose "$name" 124 "$build/$name"
      ;;
    *)
      diagnose "$name" 1 "$build/$name"
      line="exit status $(cat "$test"): $(grep -aE 'FAILED|rror|ailure|wrong' "$out/tests/$name.log" | head -n 1 | cut -c 1-160 || true)"
      failed=$((failed + 1))
      ;;
    esac
    echo "$name: $line"
  done
  [ "$failed" -eq 0 ] || broken "$failed tests failed, or were skipped though there is a GPU; see tests/"
  after_limits "${slow# }"
}

# ---- Equality -------------------------------------------------------------------------------------

# verify_one DEVICES MODEL STRATEGY OPTION...: if a list of numbers is refused as a whole, runs each number
# separately. Lists what is refused, and what fails.
verify_one() {
  local devices=$1 model=$2 strategy=$3 line n plain=yes
  # shellcheck disable=SC2046
  rows verify verify --model "$model" --strategy "$strategy" $(split 8) --devices "$devices" \
    --warmup 0 --results none --memory growth "${@:4}"
  if [ "$code" -eq 2 ] && [[ $devices == *,* ]]; then
    for n in ${devices//,/ }; do verify_one "$n" "${@:2}"; done
    return
  fi
  while [ -n "$said" ] && read -r line; do
    echo "$model, $strategy, devices $devices: ${line#lockstep: }" >>"$out/refused.txt"
  done <<<"$said"
  case "$code" in
  0 | 2) ;;
  124 | 137) echo "$model/$strategy" >>"$out/slow.txt" ;;
  *) echo "$model/$strategy" >>"$out/unequal.txt" ;;
  esac
}

# The gate's models, each with its options, the most revealing first; one has odd sizes, so that a part's variables
# start anywhere.
verify_models() {
  cat <<END
poly --steps $(pick 10 10 3)
mlp:785-33-17-11 --data synthetic:600 --batch 37 --steps $(pick 3 10 2)
END
  [ -n "$rehearse" ] ||
    echo "resnet:8 --data synthetic:600 --batch 24 --steps 4 --convolution $(has_cudnn && echo auto,)own"
  echo "$(pick mlp:784-16-10 mlp) --data $(images) --batch $(pick 24 256) --steps $(pick 10 10 2)"
  [ -n "$rehearse" ] || cat <<END
mlp:784-64-32-10 --data $(images) --batch 100 --steps 10 --capture no
cnn --data $(images) --batch 64 --steps 10
gpt:2-2-64-64 --data synthetic:64 --batch 16 --steps 4
cifar10 --data synthetic:600 --batch 24 --steps 4 --convolution $(has_cudnn && echo auto,)own
twin-lstm --data synthetic:600 --batch 24 --steps 4
lstm-stack:3 --data synthetic:600 --batch 24 --steps 4
END
}

# The strategies of most use, on the models with the most different kernels; the matrix repeats none of it.
part_verify-first() { verify_some '^(single|mirrored|zero|ps)$' '^(poly|mlp:785|mlp:784-16|mlp |cnn|gpt)'; }
part_verify() { verify_some . .; }

# verify_some STRATEGIES MODELS: those that match. Each case is a command, several at a time: nothing is timed here, and
# a GPU schedules them.
verify_some() {
  local strategy model options devices gpu_holder together=yes at=1000 limit=60
  gpu_holder=$(piece "$([ "$kind" = gpu ] && echo 0 || echo 1)")
  identity=$("$program" --version 2>&1 | cksum)
  rm -f "$out/unequal.txt" "$out/slow.txt"
  while read -r model options; do
    while read -r strategy; do
      local more=(--reduce exact,fast)
      devices=$(pick 1,2,4,8 1,2,4,8 1,2)
      [[ $strategy != independent && $strategy != local-sgd && $strategy != gossip ]] || more=()
      [ "$strategy" != single ] || devices=1
      [ "$strategy" != towers ] || more+=(--variable-device "$gpu_holder,/cpu:0")
      [ "$strategy" != ps ] || more+=(--variable-device "$gpu_holder") # a worker's type, too
      at=$((at + 10))
      [[ $strategy =~ $1 && "$model " =~ $2 ]] || continue
      while [ "$(jobs -rp | wc -l)" -ge "$(pick 2 4)" ]; do wait -n || true; done
      # shellcheck disable=SC2086
      (order=$at verify_one "$devices" "$model" "$strategy" $options "${more[@]}") &
    done < <("$program" list strategies | sed -nE 's/^  ([a-z-]+) .*/\1/p')
    [ -n "$rehearse" ] || gather verify # so far
  done < <(verify_models)
  wait
  gather verify
  python3 -B ci/gpu_summary.py --digests "$out/verify.jsonl" || echo digests >>"$out/unequal.txt"
  [ ! -e "$out/unequal.txt" ] || broken "not equal, or could not run, $(sort -u "$out/unequal.txt" | wc -l): $(
    sort -u "$out/unequal.txt" | paste -sd ' ')"
  after_limits "$([ ! -e "$out/slow.txt" ] || sort -u "$out/slow.txt" | paste -sd ' ')"
}

# What has come since figures of GPUs were last taken, each by the gate: label, options.
features() {
  local gpt="--model gpt:$(pick 4-2-8-8-32 4-2-64-64-256 2-1-4-4-16) --data synthetic:64 --batch $(pick 8 8 4)" two="--devices 2"
  local mlp="--model mlp:784-$(pick 16-16-16 64-64-64)-10 --data synthetic:64 --batch 16"
  cat <<END
accumulation $gpt $two --strategy mirrored,zero --gradient-accumulation-steps 2 --reduce exact,fast
exchange-each $gpt $two --strategy zero --zero-stage 2,3 --gradient-accumulation-steps 2
recompute $gpt $two --strategy mirrored --recompute mlp,full --dropout 0.1
dropout $mlp $two --strategy mirrored --dropout 0.2 --reduce exact
ragged $gpt $two --strategy mirrored --lengths ragged --clip 1
schedules $gpt $two --strategy pipeline --pipeline-schedule gpipe,1f1b,zb-h1,zb-h2
interleaved $gpt $two --strategy pipeline --pipeline-schedule interleaved --reduce exact,fast
zero-stages $mlp --devices 4 --strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --pipeline-schedule zb-h1
elastic $mlp $two --strategy mirrored,zero --elastic leave=1:1,join=1:2
bf16 $gpt $two --strategy mirrored,zero,pipeline,tensor-parallel --precision bf16 --reduce fast
bf16-exact $mlp $two --strategy mirrored,zero --precision bf16 --reduce exact
bf16-images --model $(pick cnn resnet:8) --data synthetic:64 --batch 8 --precision bf16
wire $mlp $two --strategy mirrored,zero --gradient-wire bf16 --precision float32,bf16
outer $mlp $two --strategy local-sgd --local-sgd-every 2 --local-sgd-outer nesterov --local-sgd-fragments 2
rates $mlp $two --strategy mirrored --lr-schedule linear,cosine,wsd --lr-warmup-steps 1
shrink $mlp --ranks 2 --devices 1 --strategy mirrored --inject kill=1:2 --on-failure shrink
resumed $mlp $two --strategy zero --resume-from-checkpoint $out/checkpoint
bf16-together $gpt $two --strategy mirrored --precision bf16 --recompute full --gradient-accumulation-steps 2
bf16-schedules $gpt $two --strategy pipeline --precision bf16 --pipeline-schedule zb-h1,interleaved
elastic-hybrid $mlp --devices 4 --strategy hybrid --hybrid-inner pipeline --elastic leave=1:1,join=1:2
outer-bf16 $mlp $two --strategy local-sgd --local-sgd-every 2 --local-sgd-outer sgd:lr=1 --precision bf16
END
  [ "$kind" = cpu ] || echo "tf32 $gpt $two --strategy mirrored --math tf32 --reduce exact"
}

part_features() {
  local limit=60 abreast failed='' slow=''
  abreast=$(pick 2 4)
  compgen -G "$out/checkpoint/*/manifest.json" >/dev/null || { # which `resumed` reads
    rm -rf "$out/checkpoint"
    again checkpoint
  }
  # shellcheck disable=SC2046
  must checkpoint run $(sed -n 's/^resumed \(.*\) --strategy .*/\1/p' < <(features)) $(split 4) --strategy mirrored --steps 2 --warmup 0 \
    --checkpoint "$out/checkpoint" --memory growth --results none
  [ -z "$failed$slow" ] || broken "no checkpoint:$failed$slow"
  # shellcheck disable=SC2046
  each features verify $(split 4) --steps "$(pick 4 4 3)" --warmup 0 --memory growth --results none < <(features)
}

# After 20 steps, parameters on a GPU and on a CPU differ only by their products' reduction order. A smooth model: one
# ReLU that another rounding flips makes a difference of 2e-3 in mlp (seen on an H100).
part_compare() {
  local common="--model gpt:2-2-$(pick 64-64 64-64 8-8-32) --data synthetic:64 --batch $(pick 16 16 4) --optimizer sgd --lr 0.1
    --steps 20 --warmup 0 --gate-steps 0 --results none"
  again compare
  # shellcheck disable=SC2086
  rows compare run $common --devices cpu:0 --verbose --save "$out/cpu.safetensors"
  [ "$code" -eq 0 ] || broken "on a CPU: exit status $code"
  # shellcheck disable=SC2086
  rows compare run $common --devices "$kind:0" --verbose --save "$out/gpu.safetensors"
  [ "$code" -eq 0 ] || broken "on a GPU: exit status $code"
  python3 -B ci/gpu_summary.py --compare "$out/cpu.safetensors" "$out/gpu.safetensors" || broken "the GPU's parameters differ from the CPU's by more than the bound"
  rm -f "$out"/*.safetensors
}

# ---- Figures --------------------------------------------------------------------------------------

big() { pick mlp:784-64-64-10 mlp:784-4096-4096-10 mlp:784-16-16-10; }
big_batch() { pick 64 8192 24; }

# must ARGUMENT...: rows of a command that must succeed; sets $failed, or $slow if a limit cut it.
must() {
  rows "$@"
  case "$code" in
  0) ;;
  124 | 137) slow="${slow:-}; ${*:2:4}" ;;
  *) failed="$failed; ${*:2:4} (exit status $code)" ;;
  esac
}

part_bench() {
  local failed='' slow='' data
  data=$(images)
  local common=(--data "$data" --results none)
  must floor micro floor --model "$(big)" --batch "$(big_batch)" --data "$data"
  must bench run --model "$(big)" --batch "$(big_batch)" --steps "$(pick 5 60)" "${common[@]}" --label large
  must bench run --model "$(pick mlp mlp mlp:784-16-10)" --batch "$(pick 24 256)" --steps "$(pick 20 5000 2)" --capture yes,no "${common[@]}" --label small
  # shellcheck disable=SC2046
  must bench run --model "$(pick mlp:784-16-10 mlp:784-1024-1024-10)" --batch "$(pick 24 2048)" --steps "$(pick 5 100 2)" \
    --strategy mirrored,independent --devices "$(pick 1,2,4,8 1,2,4,8 1,2)" $(split 8) --baseline "${common[@]}" --label logical
  [ -n "$rehearse" ] || must bench run --model "$(big)" --batch "$(big_batch)" --steps 60 --math tf32 "${common[@]}" --label large-tf32
  [ -n "$rehearse" ] || must bench run --model cifar10 --data synthetic:2048 --results none --steps 200 --convolution auto,own --label convolutions
  [ -z "$failed" ] || broken "failed:${failed#;}"
  after_limits "${slow#; }"
}

part_micro() {
  local failed='' slow='' few=() op gpus
  [ -z "$rehearse" ] || few=(--sizes 4KiB,64KiB)
  must micro micro launch
  must micro micro copy "${few[@]}"
  # shellcheck disable=SC2046
  must micro micro copy $(split 2) --devices "$(piece 0)+$(piece 1)" "${few[@]}"
  must micro micro optimizer --model "$(pick poly mlp:784-4096-4096-10)" "${few[@]}"
  for op in allreduce broadcast allgather reducescatter sendrecv; do
    # shellcheck disable=SC2046
    must micro micro "$op" $(split 4) --devices 4 --comm device --sizes "$(pick 4KiB 4KiB,1MiB,64MiB)"
  done
  gpus=$(pick 0 "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)")
  if [ "$gpus" -gt 1 ]; then # NCCL refuses two ranks on one GPU; it may be missing
    for op in allreduce allgather reducescatter; do
      must micro micro "$op" --comm device --devices "$gpus" --sizes 4KiB,1MiB,64MiB
      rows micro micro "$op" --comm nccl --devices "$gpus" --sizes 4KiB,1MiB,64MiB
      [ "$code" -eq 0 ] || [[ $said == *"cannot be loaded"* || $said == *"not in this build"* ]] ||
        failed="$failed; micro $op --comm nccl (exit status $code)"
    done
  fi
  [ -n "$rehearse" ] || must micro micro layers --model cifar10 --batch 128 --convolution own
  if [ -z "$rehearse" ] && has_cudnn; then # of a shape that the library lacks it is refused: a finding, no failure
    plain=yes rows micro micro layers --model cifar10 --batch 128 --convolution cudnn
    [ "$code" -eq 0 ] || echo "finding: --convolution cudnn: $said"
  fi
  # Which kernels cuBLASLt takes for the models' products: their algorithms, once each.
  [ -n "$rehearse" ] || CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=$out/products.now timeout 30 "$program" micro gemm --model mlp \
    >/dev/null 2>&1 || true
  [ ! -e "$out/products.now" ] || {
    grep -ao 'cublasLtMatmul.*' "$out/products.now" | sed -E 's/0[xX][0-9a-fA-F]+/P/g' | sort | uniq -c | head -n 200 >"$out/products.log" || true
    rm -f "$out/products.now"
  }
  [ -z "$failed" ] || broken "failed:${failed#;}"
  after_limits "${slow#; }"
}

# PyTorch and JAX, in turns with the program; each turn is saved when it ends.
part_peers() { peers --rounds "$(pick 1 2)" --file "$out/peers.jsonl"; }
part_peers-bf16() { peers --precision bf16 --rounds "$(pick 1 2)" --file "$out/peers-bf16.jsonl"; }

# Builds each case in each peer, so that their caches have it; in the background (ci/gpu.sh).
part_warm-peers() {
  until [ -x "$program" ]; do sleep 1; done
  peers --build --file "$out/peers.built"
  peers --build --precision bf16 --file "$out/peers-bf16.built"
}

peers() {
  local data
  python3 -c 'import importlib.util as u, sys
here = [u.find_spec(name) is not None for name in ("numpy", "torch", "jax")]
sys.exit(not (here[0] and any(here[1:])))' ||
    left_out "neither PyTorch nor JAX, with numpy, in this python3"
  data=$deps/usr/share/datasets/fashion-mnist
  [ -e "$data" ] || data=/usr/share/datasets/fashion-mnist
  LOCKSTEP_FASHION_MNIST="$data" python3 -B bench/peers/gpu.py --lockstep "$program" --device "$(pick cpu cuda)" "$@"
}

# The time of each kernel of the last of some steps, replayed as one graph (ci/kernel_times.c).
part_kernels() {
  local model batch name cupti failed=''
  [ -z "$rehearse" ] || left_out "nothing of a rehearsal runs on a GPU"
  [ -e "$build/kernel_times.so" ] || left_out "no kernel_times.so in this build: cupti.h was missing"
  # shellcheck disable=SC2046
  cupti=$({ find -L /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 /usr/lib/"$(uname -m)"-linux-gnu $(python3 -c '
import sys
print(*(f"{p}/nvidia" for p in sys.path if p))') -maxdepth 3 -name 'libcupti.so.[0-9]*' 2>/dev/null || true; } | sort -V | tail -n 1)
  [ -n "$cupti" ] || left_out "no libcupti.so here"
  mkdir -p "$out/kernels"
  # shellcheck disable=SC2086
  while read -r model batch more; do
    name=${model//:/-}.$batch${more:+.${more##* }}
    [ ! -e "$out/kernels/$name.txt" ] || continue
    KERNEL_TIMES=$out/kernels/now KERNEL_TIMES_CUPTI=$cupti CUDA_INJECTION64_PATH=$build/kernel_times.so \
      timeout -k 2 "${limit:-20}" "$program" run --model "$model" --batch "$batch" --data "synthetic:$((4 * batch))" $more --steps 3 \
      --warmup 2 --blocks 1 --gate-steps 0 --memory growth --results none >"$out/kernels/said" 2>&1 </dev/null || true
    if [ -s "$out/kernels/now" ]; then
      mv "$out/kernels/now" "$out/kernels/$name.txt"
    else
      echo "$name: $(grep -m 1 -E '^(kernel_times|lockstep): ' "$out/kernels/said" | cut -c 1-160 || echo "no kernels within ${limit:-20} s")"
      failed="$failed $name"
    fi
  done <<END
resnet:20 128
gpt:6-6-384-256-256 64
cifar10 128
twin-lstm:64 64
lstm-stack:4 64
mlp 256
cnn 256
mlp:784-4096-4096-10 8192
gpt:12-12-768-1024-50257 4
gpt:12-12-768-1024-50257 4 --precision bf16
gpt:12-12-768-1024-50257 4 --math tf32
gpt:12-12-768-1024-50257 16
gpt:12-12-768-1024-50257 16 --precision bf16
END
  grep -H attention "$out"/kernels/gpt-12-*.txt || true
  [ -z "$failed" ] || broken "no times of:$failed"
}

# What devices hold while a case trains, by policy and number of logical GPUs: the driver's figure ten times per
# second (memory.csv), and the ledger in the rows.
part_memory() {
  local failed='' slow='' sampler='' policy
  if [ -z "$rehearse" ]; then
    nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu --format=csv -lms 100 >"$out/memory.csv" &
    sampler=$!
  fi
  for policy in all growth fraction=0.4; do
    # shellcheck disable=SC2046
    must memory run --model "$(pick mlp:784-16-10 mlp:784-1024-1024-10)" --data "$(images)" --batch "$(pick 24 1024)" \
      --strategy mirrored $(split 8) --devices "$(pick 1,2,4,8 1,2,4,8 1,2)" --steps "$(pick 20 500 2)" --memory "$policy" --results none --label "$policy"
  done
  [ -z "$sampler" ] || kill "$sampler" || true
  [ -z "$failed" ] || broken "failed:${failed#;}"
  after_limits "${slow#; }"
}

# ---- Faults ---------------------------------------------------------------------------------------

# sanitize TOOL COMMAND...: runs in the background, for at most LIMIT seconds, so that none uses the time of all; what
# has succeeded before is not repeated. The log is SANITIZED/NAME.log, the exit status is in NAME.code.
sanitize() {
  local tool=$1 name=$1-${2##*/}
  shift
  [ -x "$1" ] && [[ $(cat "$sanitized/$name.code" 2>/dev/null) != 0 ]] || return 0
  rm -f "$sanitized/$name.code"
  while [ "$(jobs -rp | wc -l)" -ge "$(pick 2 4)" ]; do wait -n || true; done
  (
    code=0
    # A test of the device makes calls that fail, and expects it.
    [[ $tool != memcheck || $name != *_gpu_device ]] || tool="memcheck --report-api-errors no"
    # shellcheck disable=SC2086
    timeout -k 2 "$limit" compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 20 \
      "${ours[@]}" "$@" 2>&1 | tail -c 20000 \
      >"$sanitized/$name.log" || code=$?
    echo "$code" >"$sanitized/$name.code"
  ) &
}

# Skips the part where the tool is not here, or not for this device.
find_sanitizer() {
  local probe
  # The libraries' kernels are many, slow to instrument, and not ours to mend. Versions of the tool differ in this.
  ours=(--kernel-regex-exclude 'kns=(cublas|cudnn|cutlass|xmma|nvjet|splitK|sgemm)')
  command -v compute-sanitizer >/dev/null || left_out "no compute-sanitizer here"
  timeout 30 compute-sanitizer "${ours[@]}" --tool memcheck true >/dev/null 2>&1 || ours=()
  probe=$(timeout 30 compute-sanitizer --tool memcheck "$program" micro copy --sizes 4KiB 2>&1 || true)
  if [[ $probe == *"not supported"* ]]; then left_out "compute-sanitizer does not support this device here"; fi
  sanitized=$out/sanitized/$part
  mkdir -p "$sanitized"
}

# What this part has found.
judge_sanitized() {
  local file name failed='' slow=''
  wait
  for file in "$sanitized"/*.code; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .code)
    echo "$name: exit status $(cat "$file")$([ "$(cat "$file")" -ne 124 ] || echo ": no end after $limit s")"
    case "$(cat "$file") $name" in
    "0 "* | "77 "*_conv_kernels) ;; # cuDNN may be missing
    "77 "*) [ -n "$rehearse" ] || failed="$failed $name" ;;
    "124 "* | "137 "*) slow="$slow $name" ;;
    *) failed="$failed $name" ;;
    esac
  done
  [ -z "$failed" ] || broken "errors (see sanitized/):$failed"
  after_limits "${slow# }"
}

# What a GPU runner's gate says of a program beside itself (ci/action).
part_gate() {
  local code=0
  [ -z "$rehearse" ] || left_out "test_fake_action rehearses it"
  "$program" regress "$program" "$program" --model cnn --data "$(images)" --devices gpu:0 --steps 300 --threshold 5% --max-time 45s || code=$?
  [ "$code" -ne 4 ] || after_limits "undecided after 45 s"
  [ "$code" -eq 0 ] || broken "the same program, and yet status $code"
}

# Several GPUs, and processes on them.
part_several() {
  [ -z "$rehearse" ] || left_out "test_fake_nccl_mpi rehearses it"
  [ "$(nvidia-smi -L | grep -c '^GPU ')" -gt 1 ] || left_out "one GPU is here"
  bash ci/several-gpus.sh "$program" || broken "see WRONG in several.log"
}

# All of a tool's programs but that of products, whose races take longest to look for.
units() {
  local unit
  for unit in device $(pick '' 'layer_kernels residual_kernels transformer_kernels comm'); do echo "$build/test_gpu_$unit"; done
}

part_products() {
  local tool limit=140
  find_sanitizer
  for tool in racecheck initcheck synccheck; do sanitize "$tool" "$build/test_gpu_$(pick device kernels)"; done
  judge_sanitized
}

part_memcheck() {
  local unit limit=90
  find_sanitizer
  # shellcheck disable=SC2046
  sanitize memcheck "$program" run --model poly $(pick '' '--devices gpu:0 --timeout 300s') --steps 20 --memory growth --results none
  [ -n "$rehearse" ] || sanitize memcheck "$build/test_gpu_conv_kernels" test_each_way # cuDNN's kernels, without timing them
  for unit in $(units) $(pick '' "$build/test_gpu_kernels"); do sanitize memcheck "$unit"; done
  judge_sanitized
}

part_racecheck() {
  local unit limit=140
  find_sanitizer
  for unit in $(units); do sanitize racecheck "$unit"; done
  judge_sanitized
}
