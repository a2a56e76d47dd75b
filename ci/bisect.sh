#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which commit made the program slower, or worse?
#
#   ci/bisect.sh GOOD BAD [--build COMMAND] [OPTIONS of lockstep regress]
#
# Builds GOOD in a work tree. `git bisect run` builds commits after it, up to BAD (first parents), in another one, and
# `lockstep regress` compares each with GOOD's program. A commit that does not build or run, or that cannot be decided,
# is skipped. OPTIONS: --plan bench/plans/ci.yaml --threshold 5% if none is given; files that they name are those of
# this folder, for all commits. Variable LOCKSTEP: the lockstep that compares (build/lockstep).
# Exit status: 1 the commit is found; 4 it is one of several, or whether BAD is slower cannot be told; 0 BAD is neither
# slower nor worse; 3 there is no such commit, or GOOD or BAD does not build or run; 2 wrong usage.
set -euo pipefail
case ${1:-} in
-h | --help) sed -n '3,/^set /s/^# \{0,1\}//p' "$0"; exit ;;
esac
say() { echo "ci/bisect.sh: $1" >&2; }
# Builds and compares the commit that is checked out here. Its status is as `git bisect run` wants it: 0 not slower, 1
# slower, 125 cannot be told, 255 stop.
try() {
  echo "== $(git log -1 --format='%h %s')" >&2
  code=0
  sh -c "$build" >"$folder/build.log" 2>&1 || { tail -n 5 "$folder/build.log" >&2; return 125; }
  (cd "$top" && exec "$lockstep" regress "$folder/good/build/lockstep" "$folder/new/build/lockstep" "$@") || code=$?
  case $code in
  0 | 1) return $code ;;
  2 | 130) return 255 ;;
  *) return 125 ;;
  esac
}
if [ "${1:-}" = --try ]; then # of this script, run by git
  shift
  code=0
  try "$@" || code=$?
  exit $code
fi
script=$(realpath "$0")
[ $# -ge 2 ] || { say "usage: ci/bisect.sh GOOD BAD [--build COMMAND] [OPTIONS]; --help says more"; exit 2; }
for name in "$1" "$2"; do
  git rev-parse -q --verify "$name^{commit}" >/dev/null || { say "$name: there is no such commit; name another"; exit 3; }
done
good=$(git rev-parse "$1^{commit}") bad=$(git rev-parse "$2^{commit}")
shift 2
if [ "$good" = "$bad" ] || ! git merge-base --is-ancestor "$good" "$bad"; then
  say "$bad is not a commit after $good; give GOOD first, then BAD"
  exit 2
fi
build='cmake --preset release -DLOCKSTEP_TESTS=OFF && cmake --build --preset release --target lockstep'
[ "${1:-}" != --build ] || { build=${2:?a command that builds build/lockstep}; shift 2; }
[ $# -gt 0 ] || set -- --plan bench/plans/ci.yaml --threshold 5%
top=$PWD
lockstep=$(realpath -m "${LOCKSTEP:-build/lockstep}")
folder=$(mktemp -d)
remove() {
  cd "$top"
  for tree in good new; do git worktree remove --force "$folder/$tree" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap remove EXIT
export top folder build lockstep # for `try`, which git runs
git worktree add -q --detach "$folder/good" "$good"
git worktree add -q --detach "$folder/new" "$bad"
cd "$folder/good"
sh -c "$build" >"$folder/build.log" 2>&1 || { tail -n 5 "$folder/build.log" >&2; say "$good does not build; the lines above say why"; exit 3; }
cd "$folder/new"
code=0
try "$@" >&2 || code=$?
case $code in
0) echo "$bad is neither slower nor worse than $good"; exit 0 ;;
125) [ -x build/lockstep ] || { say "$bad does not build; the lines above say why"; exit 3; }
     echo "whether $bad is slower than $good cannot be told"; exit 4 ;;
255) exit 2 ;;
esac
git bisect start --first-parent "$bad" "$good" >&2
git bisect run "$script" --try "$@" >&2 || true # its log says what came of it
mapfile -t possible < <(git bisect log | sed -n 's/^# possible first bad commit: \[\([0-9a-f]*\)\].*/\1/p')
if [ ${#possible[@]} -gt 0 ]; then
  echo "slower since one of these ${#possible[@]} commits:"
  git log --no-walk=unsorted --format='  %H %s' "${possible[@]}"
  exit 4
fi
git bisect log | grep -q '^# first bad commit' || exit 2
echo "slower since $(git log -1 --format='%H %s' refs/bisect/bad)"
exit 1
