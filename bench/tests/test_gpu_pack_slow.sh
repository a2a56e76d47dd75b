#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What ci/gpu-pack.sh packs is complete: in a root file system with a compiler, CMake, Python and nothing else,
# without network or GPU, an unprivileged user builds from the read-only folder and rehearses all of ci/gpu.sh. nvcc
# is there if this machine has it. Needs root, debootstrap and a mirror; takes minutes. Leaves out GPUs. SUMMARY.md is
# copied to the folder KEEP if that is set.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || { echo "skipped: not root, which another root asks for"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: no debootstrap (apt-get install debootstrap)"; exit 77; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
root=$work/root
# Mounts belong to a namespace that ends with its command, so the final removal crosses no mount.
cleanup_more() { rm -rf --one-file-system "$root"; }
debootstrap --variant=minbase --include=gcc,g++,cmake,ninja-build,python3 bookworm "$root" "${mirror%/}" >log 2>&1 || {
    tail -n 3 log
    echo "skipped: debootstrap found no system to install (a mirror that apt-get reaches is asked for)"
    exit 77
}
"$SOURCE_DIR/ci/gpu-pack.sh" "$work/packed" >packed.log 2>&1 || { cat packed.log; exit 1; }
expect "it says its size" grep -Eq '^.*/packed: [0-9]+ bytes, commit [0-9a-f]{40} (clean|changed)' packed.log
mkdir -p "$root/packed" "$root/out" "$root/usr/local/cuda"
chown 65534:65534 "$root/out"
chmod 755 "$work" # accessible to nobody
toolkit=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=\(.*\)\/bin\/nvcc$/\1/p' "$(dirname "$LOCKSTEP")/CMakeCache.txt")

# bare COMMAND...: runs it in the root file system, as user nobody, without network.
bare() {
    ROOT=$root PACKED=$work/packed TOOLKIT=$toolkit unshare --mount --net --propagation private bash -c '
        mount --bind "$PACKED" "$ROOT/packed" && mount -o remount,ro,bind "$ROOT/packed"
        [ -z "$TOOLKIT" ] || mount --bind "$(realpath "$TOOLKIT")" "$ROOT/usr/local/cuda"
        mount --rbind /proc "$ROOT/proc" && mount --rbind /sys "$ROOT/sys" && mount --rbind /dev "$ROOT/dev"
        exec chroot --userspec=65534:65534 "$ROOT" /usr/bin/env -i HOME=/ PATH=/usr/local/bin:/usr/bin:/bin LOCKSTEP_GPU_SECONDS=3000 "$@"' _ "$@"
}
code=0
bare bash /packed/ci/gpu.sh --rehearse /out >out 2>err || code=$?
[ -z "${KEEP:-}" ] || cp "$root"/out/* out err "$KEEP"
expect "status 0" [ "$code" -eq 0 ]
expect "two files" [ "$(ls "$root/out")" = $'SUMMARY.md\nresults.tar.gz' ]
summary=$root/out/SUMMARY.md
expect "no part failed" grep -q '^0 of 20 parts failed' "$summary"
expect "it was built there" grep -Eq '^\| build \| ok \| [1-9]' "$summary"
expect "of this commit" grep -q "^  commit  *$(head -n 1 packed/packed/commit)" "$summary"
expect "the gate" grep -Eq '^- Gate: ([0-9]+) of \1 cases equal' "$summary"
[ -z "$toolkit" ] || expect "with CUDA" grep -Eq '^  CUDA  *1[3-9]' "$summary"
[ -z "$toolkit" ] || expect "and its tests" grep -q '^test_gpu_kernels: skipped' "$summary"
expect "caches have a place" [ -n "$(find "$root"/tmp/lockstep-gpu-65534-*/home -type f -print -quit)" ]
bare bash /packed/ci/gpu.sh --rehearse /out >out 2>err || code=$?
expect "a second call does nothing again" eval '[ $code -eq 0 ] && [ "$(grep -c "done before" err)" -ge 9 ]'
expect "nothing of root's in the work folder" [ -z "$(find "$root/tmp" -user 0 -mindepth 1 -print -quit)" ]
finish
