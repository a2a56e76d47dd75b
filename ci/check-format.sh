#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fails where a source file is not as clang-format writes it or lacks its licence line, or where a document's
# lines are too long.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(find common impl bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) | sort)
scripts=$(find ci bench datasets impl .ci CMakeLists.txt \
  \( -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt \) -type f 2>/dev/null | sort || true)
failed=0
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files || failed=1
documents=$(find . -maxdepth 3 -name '*.md' -not -path './build*' -not -path './.*' | sort)
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
exit $failed
