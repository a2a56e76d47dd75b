#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# 1,000 more steps make no more calls that map, unmap or grow memory. Counts those system calls
# with strace in runs of 200 and of 1,200 steps of mlp, and compares the two.
set -euo pipefail
command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
strace -o /dev/null true 2>/dev/null || { echo "skipped: this system lets nobody trace"; exit 77; }
# glibc trims each thread's heap to alignment with one munmap or two, as addresses happen to fall.
fixed=(setarch -R)
"${fixed[@]}" true 2>/dev/null || { echo "skipped: addresses cannot be fixed here (setarch -R)"; exit 77; }
if grep -q 'LOCKSTEP_SANITIZE:STRING=.' "$(dirname "$LOCKSTEP")/CMakeCache.txt" 2>/dev/null; then
  echo "skipped: a sanitizer maps memory of its own"
  exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir
"$LOCKSTEP" run --data synthetic:2000 --steps 5 --results none >/dev/null # the roof is cached
count() { # STEPS: prints "mmap 12", ... of a run with so many steps
  strace -f -o "$dir/trace" -e trace=mmap,munmap,brk,mremap "${fixed[@]}" "$LOCKSTEP" run --data synthetic:2000 \
    --steps "$1" --gate-steps 0 --results none >/dev/null 2>"$dir/err" || { cat "$dir/err"; exit 1; }
  sed -E 's/^[0-9]+ +//' "$dir/trace" | grep -oE '^(mmap|munmap|brk|mremap)\(' | sort | uniq -c
}
few=$(count 200)
many=$(count 1200)
echo "200 steps:"; echo "$few"
echo "1200 steps:"; echo "$many"
[ -n "$few" ] || { echo "nothing was traced"; exit 1; }
[ "$few" = "$many" ] || { echo "memory calls grow with the steps"; exit 1; }
