#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A step makes no system call that maps, unmaps or grows memory, and hardly any that waits. Traces
# test_step_allocations, which marks its hundreds of steps by a getppid call before and after, and counts the calls of
# all threads between the marks. Leaves out uncaptured steps, which wait often.
set -euo pipefail
program=$(dirname "$LOCKSTEP")/test_step_allocations
command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
strace -o /dev/null true 2>/dev/null || { echo "skipped: this system lets nobody trace"; exit 77; }
[ -x "$program" ] || { echo "skipped: $program is not built"; exit 77; }
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
export ASAN_OPTIONS=detect_leaks=0 # the leak check cannot run in a traced program
code=0
strace --seccomp-bpf -f -o "$trace" -e trace=getppid,mmap,munmap,brk,mremap,madvise,futex "$program" uncaptured >/dev/null 2>&1 || code=$?
[ "$code" -ne 77 ] || { echo "skipped: a sanitizer maps memory of its own"; exit 77; }
[ "$code" -eq 0 ] || { echo "$program failed: $code"; exit 1; }
awk '
/getppid\(/ { marks++; next }
{ sub(/^[0-9]+ +/, "") }
/^(mmap|munmap|brk|mremap|madvise)\(/ { if (marks % 2) { memory++; print } else outside++ }
/^futex\(/ { if (marks % 2) futex++ }
END {
  printf "%d pieces of steps: %d memory calls within, %d outside, %d futex calls within\n",
         marks / 2, memory, outside, futex
  # Each piece is enqueued once and waited for once: a few wake-ups, whatever its number of steps.
  exit !(marks == 12 && memory == 0 && outside > 0 && futex < 20 * marks)
}' "$trace"
