#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ci/gpu.sh beyond a run that goes well (test_gpu_rehearsal.sh): a part that fails is reported and the others run;
# finished parts are not repeated, not even on another machine; with an emulated driver it keeps the GPU open. Rounds
# of peers are summarized. ci/gpu-pack.sh with fake packages: sources that know their commit, a read-only folder, a
# size limit.
set -euo pipefail
. "$(dirname "$0")/lib_gpu.sh"
mkdir broken

# A program whose gate fails: later parts still run. Once it is repaired, only that part is repeated.
export LOCKSTEP_WORK=$work/part-w LOCKSTEP_BUILD=$work/broken
kept=$work/part-w/kept-rehearsal
printf '#!/bin/sh\n[ "$1" != verify ] || exit 1\nexec "%s" "$@"\n' "$LOCKSTEP" >broken/lockstep
chmod +x broken/lockstep
gpu --rehearse --only devices,verify,memory "$work/part"
expect "a part failed: status 1" [ "$code" -eq 1 ]
strategies=$("$LOCKSTEP" list strategies | grep -cE '^  [a-z-]+ ')
expect "it is the failed one: each strategy with 3 models" grep -q \
    "^failed.*not equal, or could not run, $((3 * strategies + 1)): digests mlp:784-16-10/" "$kept/verify.state"
expect "the next one ran" grep -q '^ok' "$kept/memory.state"
expect "the summary counts it, and what was not begun" grep -q '^1 of 3 parts failed or were cut; not begun: machine, build' \
    part/SUMMARY.md
expect "it is among what tells most" grep -q '^- verify: \*\*failed\*\*: not equal' part/SUMMARY.md
if thorough; then
    # Repaired, but slow from the third command on: an interrupted part keeps what it has, and the summary is written,
    # even if the script itself is told to end.
    printf '#!/bin/sh\n[ "$1" != verify ] || { echo >>"%s/calls"; [ "$(wc -l <"%s/calls")" -lt 3 ] || sleep 60; }\nexec "%s" "$@"\n' \
        "$work" "$work" "$LOCKSTEP" >broken/lockstep
    LOCKSTEP_GPU_SECONDS=25 gpu --rehearse --only devices,verify,memory "$work/part"
    expect "cut, none failed: status 4" [ "$code" -eq 4 ]
    expect "cut: it says so" grep -q '^cut.*cut short after its .* goes on from there' "$kept/verify.state"
    expect "cut: commands so far are there" [ "$(ls "$kept/rows/verify" | grep -c 'jsonl$')" -ge 2 ]
    rm "$kept/verify.log"
    "$script" --rehearse --only verify "$work/part" >out 2>err </dev/null &
    child=$!
    until grep '^+ lockstep' "$kept/verify.log" 2>/dev/null | grep -qv 'done before$'; do sleep 0.1; done
    kill -TERM "$child"
    code=0
    wait "$child" || code=$?
    expect "told to end: status 4" [ "$code" -eq 4 ]
    expect "told to end: it says so, and sums up" eval 'grep -q "^cut.*asked to end" "$kept/verify.state" && grep -q "^1 of 3 parts" out'
    # On another machine, which only has the archive.
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$LOCKSTEP" >broken/lockstep
    mkdir moved && cp part/results.tar.gz moved
    export LOCKSTEP_WORK=$work/moved-w
    kept=$work/moved-w/kept-rehearsal
    gpu --rehearse --only devices,verify,memory "$work/moved"
    expect "what a cut part had done is not done again" [ "$(grep -c 'done before' "$kept/verify.log")" -ge 1 ]
    expect "and no row is there twice" [ "$(wc -l <"$kept/verify.jsonl")" -eq "$(python3 -c '
import json, sys; print(len({json.loads(line)["id"] for line in open(sys.argv[1])}))' "$kept/verify.jsonl")" ]
    expect "mended: status 0" [ "$code" -eq 0 ]
    expect "what was done is not done again" [ "$(grep -c 'done before' err)" -eq 2 ]
fi
export LOCKSTEP_WORK=$work/gone-w
printf '#!/bin/sh\nexit 3\n' >broken/lockstep
gpu --rehearse --only devices,memory "$work/gone"
expect "a program that sees no device: status 3" [ "$code" -eq 3 ]
expect "what cannot be done says so" grep -q "^failed.*the part 'devices' failed" gone-w/kept-rehearsal/memory.state
LOCKSTEP_GPU_SECONDS=1 gpu --rehearse --only machine "$work/late"
expect "no time: status 4, and it says so" eval '[ $code -eq 4 ] && grep -q "^cut.*no time was left" gone-w/kept-rehearsal/machine.state'
# What fails is repeated at once under the sanitizer, with the libraries' logs, uncaptured; a cut is no failure.
made_up compute-sanitizer <<'S'
echo "log level $CUBLASLT_LOG_LEVEL: $*"
echo '========= Invalid __global__ write of size 4 bytes'
S
printf '#!/bin/sh\n[ "$1" != --version ] || exec "%s" "$@"\nexit 3\n' "$LOCKSTEP" >broken/lockstep
gpu --rehearse --only smoke "$work/fallen"
expect "smoke fails: status 1" [ "$code" -eq 1 ]
expect "its diagnosis is there" grep -q '^log level 5: --tool memcheck --print-limit 20 .* run .* --model .* --capture no$' \
    gone-w/kept-rehearsal/diagnosis/smoke-1001.log
expect "and in the summary" grep -q '^- diagnosis of smoke-1001: ========= Invalid __global__ write of size 4 bytes$' fallen/SUMMARY.md
printf '#!/bin/sh\n[ "$1" != --version ] || exec "%s" "$@"\nexit 124\n' "$LOCKSTEP" >broken/lockstep
gpu --rehearse --only smoke "$work/slow"
expect "smoke is cut: status 4" [ "$code" -eq 4 ]
expect "and says what" grep -q '^- smoke: \*\*cut\*\*: cut, not failed: mlp$' slow/SUMMARY.md
rm bin/compute-sanitizer

# Times of kernels: those of the last step, by function; a line that the end of the process has cut does not count.
mkdir -p turns/kernels
cat >turns/kernels/cnn.256.txt <<'L'
100 9 1,1,1 1,1,1 24 _Z13finish_kernel19ls_finish_step_argsPj
400 2000 8,1,1 64,1,1 22 _Z14element_kernelI13gelu_backwardEvT_l
200 100 4,1,1 64,1,1 22 _Z14element_kernelI13gelu_backwardEvT_l
3000 5900 4,1,1 64,1,1 202 _ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE
9000 1000 1,1,1 1,1,1 24 _Z13finish_kernel19ls_finish_step_argsPj
9900 800 1,1,1 1,1,1 24 _Z11feed_kernel4feed
9950 800 1,1,1
L
python3 -B "$SOURCE_DIR/ci/gpu_summary.py" turns kernels >out
for words in '^| cnn.256, all, in 9.8 us | 4 | 9.0 | 100% |$' '^| cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1> | 1 | 5.9 | 66% |$' \
    '^| element_kernel<gelu_backward> | 2 | 2.1 | 23% |$' '^| finish_kernel | 1 | 1.0 | 11% |$'; do
    expect "kernels: the summary has $words" grep -q -- "$words" out
done

# A new commit starts anew, and knows what earlier ones have passed: parts that none has come first.
if git -c safe.directory='*' -C "$SOURCE_DIR" rev-parse HEAD >head 2>/dev/null; then
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$LOCKSTEP" >broken/lockstep
    export LOCKSTEP_WORK=$work/commits-w
    kept=$work/commits-w/kept-rehearsal
    gpu --rehearse --only machine,memory "$work/commits"
    echo aaaa >"$kept/sources"
    gpu --rehearse --only devices,memory,compare "$work/commits"
    expect "what another commit has passed runs again, behind what none has" [ "$(sed -nE \
        's/^gpu.sh: ([a-z]*) \(up to .*/\1/p' err | paste -sd ' ')" = "devices compare memory" ]
    expect "the summary has both" eval 'grep -q "^| memory | ok | [0-9]* |  | aaaa |$" commits/SUMMARY.md &&
        grep -q "^| machine | not begun |  |  | aaaa |$" commits/SUMMARY.md'
    expect "rows of the earlier one are kept" [ -s "$kept/earlier/aaaa/memory.jsonl" ]
fi

# Rounds of peers: the fastest that did not fail counts.
mkdir -p turns
python3 - >turns/peers.jsonl <<'P'
import json
print(json.dumps({"machine": {}}))
for name, blocks in (("lockstep", [2.0, 1.0, 3.0]), ("torch-cuda", [9.0]), ("jax-cuda", [5.0, 5.0])):
    print(json.dumps({"model": "cnn", "batch": 256, "name": name, "round": 1, "blocks_ms": blocks, "difference": 1e-6,
                      "gflops": 30000, "mfu": 0.5}))
for name, ms in (("lockstep", 2.0), ("torch-cuda", 2.4)):
    print(json.dumps({"model": "cifar10", "batch": 128, "name": name, "round": 1, "blocks_ms": [ms]}))
print(json.dumps({"model": "cnn", "batch": 256, "name": "torch-graph-cuda", "round": 1, "error": "out of words"}))
P
python3 - >turns/peers-bf16.jsonl <<'P'
import json
for name, ms in (("lockstep", 20.0), ("torch-autocast-cuda", 15.0), ("torch-compile-autocast-cuda", 22.0)):
    print(json.dumps({"model": "gpt:12-12-768-1024-50257", "batch": 16, "name": name, "round": 1, "blocks_ms": [ms],
                      "gflops": 494750, "mfu": 9.5}))
P
echo '0, NVIDIA H200, 143771 MiB' >turns/machine.log
printf '{"cut' >>turns/peers.jsonl # truncated by the end of a session
echo '{"case": {}, "result": {}}' >turns/verify.jsonl
python3 -B "$SOURCE_DIR/ci/gpu_summary.py" turns peers >out
expect "a section that cannot be summed up is named, and alone" grep -q '^Could not be summed up: KeyError' out
expect "peers: the fastest" grep -q '^| cnn | 256 | 2 | 30 | 0.50 | jax-cuda | 2.50 |  | as measured |$' out
expect "peers: what it should be" grep -q '^| cifar10 | 128 | 2 |  |  | torch-cuda | 1.20 | 1.3 of the fastest | MISSED: 1.20 |$' out
expect "peers: another peer's target, of the sheet's peak" grep -q \
    '^| gpt.*, bf16 | 16 | 20 | 495 | 0.50 | torch-autocast-cuda | 0.75 | 1 of torch-compile | reached |$' out
expect "peers: who failed is named" grep -q '^| torch-graph-cuda | failed | out of words |$' out

# What a test reports about both implementations of convolutions: which is faster, which is wrong.
mkdir -p turns/tests
cat >turns/tests/test_gpu_conv_kernels.log <<'L'
[ RUN      ] test_each_way
convolution 256x28x28x1 to 26x26x32, window 3x3, stride 1
  forward  own         9.0 us
  forward  cudnn       7.0 s  max_rel 1.0e+00 WRONG  same bits  0 bytes
  forward  fastest: cudnn, 7.0 us
L
python3 -B "$SOURCE_DIR/ci/gpu_summary.py" turns tests >out
expect "of convolutions the fastest and the wrong, by shape" [ "$(sed -n '/^## Convolutions/,/^$/d; /^convolution /,/^```/p' out | cut -c 1-27)" = \
    $'convolution 256x28x28x1 to \n  forward  cudnn       7.0 \n  forward  fastest: cudnn, \n```' ]

# The peers' tensor files, written by the standard library, equal the program's.
"$LOCKSTEP" run --model mlp:784-16-10 --data synthetic:60 --batch 20 --steps 1 --results none --save saved.safetensors >log 2>&1
PYTHONPATH=$SOURCE_DIR/bench/peers python3 -B - >out <<'P'
import tensors
read = tensors.read("saved.safetensors")
print({name: shape for name, (shape, _) in read.items()})
tensors.write("written.safetensors", {name: read[name] for name in reversed(read)})
assert tensors.read("written.safetensors") == read
P
expect "a saved file is read" grep -qF "'dense0.weight': (16, 784)" out
"$LOCKSTEP" run --model mlp:784-16-10 --data synthetic:60 --batch 20 --steps 0 --warmup 0 --results none \
    --load written.safetensors --save again.safetensors >log 2>&1 || cat log
expect "a written file is loaded" cmp saved.safetensors again.safetensors

# An emulated driver: the GPU is open from before the first part until after the last.
cat >cuda.c <<'C'
#include <stdio.h>
#include <unistd.h>
static int note(const char *what) { FILE *f = fopen(getenv("NOTES"), "a"); fprintf(f, "%s\n", what); return fclose(f); }
static __attribute__((destructor)) void end(void) { note("closed"); }
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 2, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &note; return note(device ? "opened 1" : "opened 0"); }
C
sed -i '1i #include <stdlib.h>' cuda.c
mkdir driver && gcc -shared -fPIC -o driver/libcuda.so.1 cuda.c
made_up nvidia-smi <<'S'
[ "$1" != -L ] || { printf 'GPU %s: made up\n' 0 1; exit; }
[ "$1" != --query-gpu=compute_mode ] || { echo "${MODE:-Default}"; exit; }
case "$*" in *-lms*) printf 't, 0, %s, 300.5, 0x4, 55\n' 1980 1410 && exit ;; esac
n=0
[ -z "${MODE:-}" ] || n=999
while [ "$(grep -c opened "$NOTES" 2>/dev/null)" != 2 ] && [ $((n += 1)) -lt 1000 ]; do sleep 0.1; done
echo machine >>"$NOTES"
S
made_up nvcc <<<'echo 13'
LOCKSTEP_WORK=$work/open NOTES=$work/notes LD_LIBRARY_PATH=$work/driver gpu --only machine "$work/opened"
for _ in $(seq 1000); do ! grep -q closed notes || break; sleep 0.1; done
expect "clocks are summed up" grep -q '^| 0 | 2 | 1410 to 1980 | 300.5 to 300.5 | 55 to 55 | 0x4: 2 |$' opened/SUMMARY.md
expect "kept open" [ "$(paste -sd , notes)" = "opened 0,opened 1,machine,closed" ]
MODE=Exclusive_Process LOCKSTEP_WORK=$work/alone NOTES=$work/notes-alone LD_LIBRARY_PATH=$work/driver gpu --only machine "$work/alone-out"
expect "not kept open where only one process may have it" [ "$(paste -sd , notes-alone)" = "machine" ]
# A program that fails: so do the parts that a rehearsal leaves out.
printf '#!/bin/sh\nexit 3\n' >broken/lockstep
MPIRUN=true LOCKSTEP_SIZES=4KiB LOCKSTEP_WORK=$work/wrong NOTES=$work/notes-wrong LD_LIBRARY_PATH=$work/driver \
    gpu --only gate,several "$work/wrong-out"
expect "gate and several fail: status 1" [ "$code" -eq 1 ]
expect "each says why" [ "$(cut -f 1,3 wrong/kept/{gate,several}.state)" = \
    $'failed\tthe same program, and yet status 3\nfailed\tsee WRONG in several.log' ]

thorough || { finish; exit 0; }
# Packs fake packages.
git -c safe.directory='*' -C "$SOURCE_DIR" rev-parse HEAD >head 2>/dev/null || { echo "not packed: no git history"; finish; exit 0; }
made_up apt-cache <<<:
made_up apt-get <<<'shift; touch "$1.deb"'
made_up dpkg-deb <<<'mkdir -p "$3/usr/lib" && head -c "${PACKAGE_BYTES:-9}" /dev/urandom >"$3/usr/lib/made-up"'
pack() {
    command_line="(ci/gpu-pack.sh) $*"
    code=0
    "$SOURCE_DIR/ci/gpu-pack.sh" "$@" >out 2>err || code=$?
}
mkdir foreign && touch foreign/file
pack foreign
expect "another's folder: status 2" eval '[ $code -eq 2 ] && grep -q "foreign: is not empty, and was not packed by this" err'
made_up xz <<<cat # takes 50 s for so much
PACKAGE_BYTES=62914560 pack large
rm bin/xz
expect "too large: status 1, one line, nothing there" eval '[ $code -eq 1 ] && grep -q "more than 54 MiB" err && [ -z "$(ls large)" ]'
pack packed-here
expect "packed, and its size said" eval '[ $code -eq 0 ] && grep -Eq "packed-here: [0-9]{7,8} bytes, commit $(cat head) (clean|changed)" out'
pack packed-here
expect "once more" [ "$code" -eq 0 ]
cmake -DSOURCE="$work/packed-here" -DOUT="$work/info.h" -P "$SOURCE_DIR/ci/cmake/WriteBuildInfo.cmake"
dirty=$(sed -n '2s/clean/0/p; 2s/changed/1/p' packed-here/packed/commit)
expect "its build knows the commit, without git" eval \
    'grep -q "LS_GIT_COMMIT \"$(cat head)\"" info.h && grep -q "LS_GIT_DIRTY $dirty$" info.h'
chmod -R a-w packed-here
find packed-here | sort >before
made_up cmake <<<'[ "$1" != --version ] || echo "${LD_LIBRARY_PATH:-none}" >"$SEEN"'
export SEEN=$work/seen
LOCKSTEP_BUILD=$(dirname "$LOCKSTEP") script=$work/packed-here/ci/gpu.sh LOCKSTEP_WORK=$work/packed-w gpu --rehearse --only machine,build
expect "its gpu.sh: status 0" [ "$code" -eq 0 ]
expect "programs of the machine do not get the prefix's libraries" [ "$(cat seen)" = "${LD_LIBRARY_PATH:-none}" ]
expect "works elsewhere" [ -e packed-w/source/CMakeLists.txt -a -e packed-w/prefix/usr/lib/made-up -a -e packed-w/out/results.tar.gz ]
expect "writes nothing there" eval 'find packed-here | sort | cmp -s before -'
chmod -R u+w packed-here packed-w
# With the program that was built where it was packed, nothing is compiled.
mkdir carried
printf '#!/bin/sh\nexec "%s" "$@"\n' "$LOCKSTEP" >carried/lockstep && chmod +x carried/lockstep
tar -C carried -cJf packed-here/packed/build.tar.xz lockstep
unset LOCKSTEP_BUILD
LOCKSTEP_PROGRAM_BUILT='' script=$work/packed-here/ci/gpu.sh LOCKSTEP_WORK=$work/carried-w gpu --rehearse --only machine,build,devices
expect "carried: status 0" [ "$code" -eq 0 ]
expect "carried: not built" grep -q '^carried: built where' carried-w/kept-rehearsal/build.log
finish
