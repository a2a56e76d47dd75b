#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the list of public headers (ci/cmake/PublicHeaders.cmake): ci/check-public.sh [COMPILER]
#   - the examples include only these, their own, and the C library's headers;
#   - a public header includes only public ones and the C library's: no private or vendor's header;
#   - an example reaches each of them: what no example needs is not public;
#   - each compiles alone, as strict C17.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=${1:-cc}
failed=0
refuse() {
  echo "$1" >&2
  failed=1
}
mapfile -t public < <(grep -oE '(common|impl)/[a-z0-9_/]+\.h' ci/cmake/PublicHeaders.cmake)
[ ${#public[@]} -gt 0 ] || refuse "ci/cmake/PublicHeaders.cmake: names no header"
declare -A is_public reached
for header in "${public[@]}"; do is_public[$header]=1; done
c_library=' assert ctype errno float inttypes limits math signal stdarg stdatomic stdbool stddef stdint stdio stdlib
  string time '
c_library=${c_library//$'\n'/ }

# Prints the includes of a file, one per line: "common/..." or <name.h>.
includes_of() { sed -nE 's/^[ \t]*#[ \t]*include[ \t]*("[^"]*"|<[^>]*>).*/\1/p' "$1"; }

# check FILE OWN: refuses includes that FILE may not have; headers that match OWN are its own.
check() {
  local include name
  while read -r include; do
    name=${include:1:-1}
    case "$include" in
    \<*) [[ $c_library == *" ${name%.h} "* ]] || refuse "$1: includes $include, which is not C17's" ;;
    *) if [[ -n ${is_public[$name]:-} ]]; then
      todo+=("$name")
    elif [[ -z $2 || $name != $2* ]]; then
      refuse "$1: includes $name, which is not public (ci/cmake/PublicHeaders.cmake)"
    fi ;;
    esac
  done < <(includes_of "$1")
}

todo=()
for file in impl/examples/*.[ch]; do check "$file" impl/examples/; done
while [ ${#todo[@]} -gt 0 ]; do
  header=${todo[-1]}
  unset 'todo[-1]'
  [ -n "${reached[$header]:-}" ] && continue
  reached[$header]=1
  check "$header" ""
done
for header in "${public[@]}"; do
  [[ $header != *_private.h && $header != *_inline.h ]] || refuse "$header: a private part is public"
  [ -n "${reached[$header]:-}" ] || refuse "$header: public, and no example needs it"
  "$compiler" -std=c17 -pedantic -Wall -Wextra -Werror -fsyntax-only -I. -x c - <<< "#include \"$header\"" ||
    refuse "$header: does not compile by itself"
done
exit $failed
