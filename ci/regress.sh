#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Is this tree's program slower than its base commit's?
#
#   ci/regress.sh [--ci] BASE_COMMIT [OUT]
#
# Builds the merge base of BASE_COMMIT and HEAD in a separate work tree, this tree in place, and runs both alternately.
# OUT (build/regress) gets report.md, report.json, report.junit, report.github.
#   --ci    "cannot tell", a missing base (the first push) and one that cannot be compared (it does not build, has no
#           program, or is too old for an option) succeed with a warning; the report also goes to the file that
#           GITHUB_STEP_SUMMARY names
# Variables:
#   LOCKSTEP_REGRESS    options of `lockstep regress` (--plan bench/plans/ci.yaml --threshold 5%); for more time
#                       --max-time 20min, for counts without noise --instructions
#   LOCKSTEP_BUILD      command that builds build/lockstep, in either tree
#   LOCKSTEP_TREE, LOCKSTEP_PROGRAM, LOCKSTEP
#                       of another repository (ci/action): its folder, what its command builds there, and the lockstep
#                       that compares
#   LOCKSTEP_KEPT       folder of the programs of the last commits, COMMIT/lockstep: the base's is not built again; this
#                       tree's is added if nothing in it is changed, and the oldest of more than 5 is removed
# Exit status: 0 none slower or worse; 1 one is; 4 none is, but some cannot be told; 3 this tree or the base does not
# build or run, there is no such commit, or no valgrind for --instructions.
set -euo pipefail
ci=
[ "${1:-}" != --ci ] || { ci=1; shift; }
[ $# -ge 1 ] || { echo "usage: ci/regress.sh [--ci] BASE_COMMIT [OUT]; --help says more" >&2; exit 2; }
case $1 in
-h | --help) sed -n '3,/^set /s/^# \{0,1\}//p' "$0"; exit ;;
esac
cd "${LOCKSTEP_TREE:-$(git -C "$(dirname "$0")" rev-parse --show-toplevel)}"
program=${LOCKSTEP_PROGRAM:-build/lockstep}
lockstep=${LOCKSTEP:-$PWD/$program}
out=${2:-build/regress}
configure='cmake --preset release $([ -f build/CMakeCache.txt ] || echo -DLOCKSTEP_TESTS=OFF)' # keeps a cache's choice
build=${LOCKSTEP_BUILD:-$configure && cmake --build --preset release --target lockstep}
read -ra options <<<"${LOCKSTEP_REGRESS:---plan bench/plans/ci.yaml --threshold 5%}"
counts='(^| )--instructions( --|[ =]yes( |$)|$)'
if [[ "${options[*]}" =~ $counts ]] && ! command -v valgrind >/dev/null; then
  echo "ci/regress.sh: --instructions: valgrind, which counts instructions, is not installed; install valgrind, or remove --instructions" >&2
  exit 3
fi
mkdir -p "$out"
rm -f "$out"/report.{md,junit,github} # report.json counts for --fail-on undecided
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/base" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Reports where users look why there is nothing to compare with.
nothing() {
  printf '**Performance: not compared**: %s\n' "$1" | tee "$out/report.md"
  annotate notice "not compared: $1"
  summarise
  [ -n "$ci" ] || exit 3
  exit 0
}
# The errors of a build, and its end.
explain() {
  grep -m 5 -iE -A 3 '(^|[^a-z])error' "$1" >&2 || true
  echo .. >&2
  tail -n 5 "$1" >&2
}
say() { echo "ci/regress.sh: $1" >&2; }
annotate() { [ -z "${GITHUB_ACTIONS:-}" ] || echo "::$1 title=lockstep regress::$2"; }
summarise() {
  [ -z "$ci" ] || [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$out/report.md" >>"$GITHUB_STEP_SUMMARY"
}

if ! base=$(git merge-base "$1" HEAD 2>/dev/null); then
  [ -z "$ci" ] || nothing "${1:-none} is no commit that this one comes from"
  say "$1: no commit that HEAD comes from"
  exit 3
fi

say "building this tree"
if ! sh -c "$build" >"$folder/new.log" 2>&1; then
  explain "$folder/new.log"
  say "this tree does not build"
  exit 3
fi
kept=${LOCKSTEP_KEPT:-}
if [ -n "$kept" ] && [ -z "$(git status --porcelain --untracked-files=no)" ]; then
  mkdir -p "$kept/$(git rev-parse HEAD)"
  cp "$program" "$kept/$(git rev-parse HEAD)/lockstep"
  touch "$kept/$(git rev-parse HEAD)"
  ls -dt "$kept"/*/ | tail -n +6 | xargs -r rm -r
fi
old=${kept:+$kept/$base/lockstep}
if [ -z "$old" ] || [ ! -x "$old" ]; then
  old=$folder/base/$program
  say "building the base, ${base:0:12}"
  git worktree add -q --detach "$folder/base" "$base"
  if ! (cd "$folder/base" && sh -c "$build") >"$folder/base.log" 2>&1; then
    explain "$folder/base.log"
    nothing "the base, ${base:0:12}, does not build here"
  fi
  [ -x "$old" ] || nothing "the base, ${base:0:12}, makes no $program"
fi
# A baseline that HEAD renews with a reason lists what may become worse (ci/renew-baseline.sh).
intended=$(git diff "$base" HEAD -- results/baselines | sed -n 's/^+.*"label": *"\(intended [^"]*\)".*/\1/p' | head -n 1)
[ -z "$intended" ] || options+=(--label "$intended")
status=0
{ "$lockstep" regress "$old" "./$program" "${options[@]}" --progress yes --results "$out/rows.db" \
  --format md,json,junit,github --out "$out/report" 2>&1 >&3 | tee "$folder/err" >&2; } 3>&1 || status=$?
if [ "$status" -eq 3 ] && grep -q 'perhaps it is too old for one' "$folder/err"; then
  nothing "the base, ${base:0:12}, is too old for an option: $(sed 's/.*too old for one).*; its last message is: //' "$folder/err")"
fi
[ -f "$out/report.md" ] ||
  printf '**Performance: not compared**: status %s, %s\n' "$status" "$(tail -n 1 "$folder/err")" >"$out/report.md"
cat "$out/report.md"
[ -z "${GITHUB_ACTIONS:-}" ] || [ ! -f "$out/report.github" ] || cat "$out/report.github"
summarise
if [ -n "$ci" ] && [ "$status" -eq 4 ]; then
  annotate warning "some cases cannot be told; their report says how many more blocks it would take"
  status=0
fi
exit "$status"
