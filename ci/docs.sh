#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the API reference of the public headers: ci/docs.sh [FOLDER]; FOLDER is build/docs. Fails if anything public
# is undocumented, or a link in a document leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/docs}
ci/check-links.py
if ! command -v doxygen >/dev/null; then
  echo "ci/docs.sh: doxygen is not installed; apt-get install doxygen" >&2
  exit 3
fi
mkdir -p "$folder"
{
  cat ci/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$folder\""
  echo "INPUT = $(grep -oE '(common|impl)/[a-z0-9_/]+\.h' ci/cmake/PublicHeaders.cmake | tr '\n' ' ')"
} | doxygen -
echo "$folder/html/index.html"
