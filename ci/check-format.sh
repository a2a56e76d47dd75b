#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fails if a source file is not formatted as clang-format does, has no licence line or exceeds 500 lines; if a comment
# is telegraphic (check-comments.py); if a document's lines are too long; or if README.md exceeds 1,500 words,
# ARCHITECTURE.md 2,200 (tables are not counted: a strategy adds a line to them), all documents 25,000, or a folder's
# README.md (what it contains, where to start) 29 lines.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(find common impl bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) | sort)
scripts=$(find ci bench datasets impl .ci CMakeLists.txt \
  \( -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt \) -type f 2>/dev/null | sort || true)
failed=0
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files || failed=1
documents=$(find . -maxdepth 3 -name '*.md' -not -path './build*' -not -path './report/*' -not -path './.*' | sort)
# shellcheck disable=SC2086
without=$(grep -L 'SPDX-License-Identifier: MIT' $files $scripts $documents .clang-format .gitignore || true)
if [ -n "$without" ]; then
  echo "without an SPDX line:"
  echo "$without"
  failed=1
fi
# Tables may be wider.
# shellcheck disable=SC2086
wide=$(awk 'length > 120 && !/^\|/ { print FILENAME ":" FNR ": " length " characters" }' $documents)
if [ -n "$wide" ]; then
  echo "documents with lines of more than 120 characters:"
  echo "$wide"
  failed=1
fi
# What does not fit into a README.md is a document next to it. bench/peers describes a method, impl/examples a list.
# shellcheck disable=SC2086
long=$(wc -l $files $(find common impl bench -name README.md -not -path '*/peers/*' -not -path '*/examples/*') |
  awk '$2 != "total" && $1 > ($2 ~ /md$/ ? 29 : 500)')
if [ -n "$long" ]; then
  echo "too long (sources 500 lines, README.md 29):"
  echo "$long"
  failed=1
fi
for limit in README.md:1500 ARCHITECTURE.md:2200; do
  words=$(grep -v '^|' "${limit%:*}" | wc -w)
  if [ "$words" -gt "${limit#*:}" ]; then
    echo "${limit%:*} has $words words outside its tables; at most ${limit#*:}, so a detail belongs into a document beside its code"
    failed=1
  fi
done
ci/check-comments.py || failed=1
words=$(find . -name '*.md' -not -path './build*' -not -path './report/*' -not -path './.*' -exec cat {} + | wc -w)
if [ "$words" -gt 25000 ]; then
  echo "the documents have $words words; at most 25000, so remove what --help, a table or git already says"
  failed=1
fi
exit $failed
