#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fails if the compiler made of a GPU kernel what its source does not say: an approximation, a fused multiply-add in a
# file without fmaf that is not an exponential's, an operation that is not rounded to nearest, local memory, or
# registers spilled to it.
#   ci/check-ptx.sh [ARCHITECTURE]    of sm_90, by default, sm_90a where the source needs it; needs nvcc, no GPU
# Status 77: no nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v nvcc >/dev/null || { echo "skipped: no nvcc"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
refuse() { # FILE WHY
  echo "$1: $2" >&2
  failed=1
}

# The multiply-adds of an exponential (element_inline.h), which files without fmaf call.
exponential=$(sed -n '/ ls_exp_element(/,/^}/p' common/kernel/element_inline.h | grep -o 'fmaf(' | wc -l)
[ "$exponential" -gt 0 ] || { echo "ci/check-ptx.sh: common/kernel/element_inline.h: no call of fmaf was found in ls_exp_element, so its multiply-adds cannot be counted; correct the pattern in this script" >&2; exit 1; }

mapfile -t files < <(git ls-files '*.cu')
[ ${#files[@]} -gt 0 ] || { echo "ci/check-ptx.sh: the folder common/ has no .cu file; run this script in the root folder of lockstep's sources" >&2; exit 1; }
# The options of ci/cmake/Cuda.cmake, which decide what follows.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} sh -c 'name=$(basename {} .cu); mkdir "$1/$name" &&
  case $name in gpu_product) set -- "$1" sm_90a ;; esac && nvcc -cubin -arch="$2" -O3 -fmad=false -ftz=true -Xptxas -v --keep --keep-dir "$1/$name" -I. -o "$1/$name.cubin" {} >"$1/$name.log" 2>&1 ||
  { cat "$1/$name.log" >&2; exit 255; }' sh "$folder" "${1:-sm_90}"

for file in "${files[@]}"; do
  name=$(basename "$file" .cu)
  ptx=$folder/$name/$name.ptx
  grep -q "\.entry " "$ptx" || refuse "$file" "no kernel in its PTX"
  for found in $(grep -oE '\b[a-z0-9]+\.approx[a-z0-9.]*' "$ptx" | sort -u); do refuse "$file" "$found: an approximation"; done
  fused=$(grep -cE '\bfma\.' "$ptx" || true)
  grep -qE '\bfmaf?\(' "$file" || [ $((fused % exponential)) -eq 0 ] ||
    refuse "$file" "$fused fused, though its source has no fmaf, and an exponential $exponential"
  for found in $(grep -oE '\b(add|sub|mul|div|sqrt|rcp)\.[a-z0-9.]*f(32|64)\b' "$ptx" | grep -v '\.rn\.' | sort -u); do
    refuse "$file" "$found: not rounded to nearest"
  done
  for found in $(grep -oE '\b(add|sub|mul|div|fma)\.rn\.f32\b' "$ptx" | sort -u); do refuse "$file" "$found: without .ftz"; done
  ! grep -q '^\s*\.local ' "$ptx" || refuse "$file" "local memory: $(grep -m 1 '^\s*\.local ' "$ptx")"
  grep -q 'bytes stack frame' "$folder/$name.log" || refuse "$file" "ptxas said nothing of its stack"
  spilled=$(grep 'bytes stack frame' "$folder/$name.log" | grep -v ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' || true)
  [ -z "$spilled" ] || refuse "$file" "spills: ${spilled%%$'\n'*}"
done
[ "$failed" -eq 0 ] || exit 1
echo "${#files[@]} files: $(cat "$folder"/*/*.ptx | grep -c '\.entry ') kernels as written, for ${1:-sm_90} (gpu_product: sm_90a)"
