#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and runs the unit tests of one folder, or one test, for use while working there: ci/test-one.sh AREA|TEST
#   AREA   a folder, as common/comm, impl/step or bench/row, with its subfolders; one without tests of its own has those
#          of the folder above it. Tests of minutes (label `long`) are left out, and named.
#   TEST   a file, as bench/tests/test_run.sh or common/comm/tests/test_comm.c
# Uses the folder `build`, configures it if it is missing, and adds tests to it if it has none. Only what AREA or TEST
# needs is built.
set -euo pipefail
cd "$(dirname "$0")/.."
area=${1:-}
area=${area%/}

areas() { find common impl bench -path '*/tests/test_*.c' ! -path '*/mpi/*' | sed 's,/tests/.*,,' | sort -u; }
if [ $# -ne 1 ] || ! { [[ $area =~ /tests/test_[^/]*\.(c|sh)$ ]] && [ -f "$area" ] ||
  { [ -d "$area" ] && [[ $area =~ ^(common|impl|bench)(/|$) ]] && [[ $area != */tests* ]]; }; }; then
  echo "test-one.sh: '$area' is neither a test's file nor a folder with unit tests; use one of: $(areas | paste -sd ' ')" >&2
  exit 2
fi
options=(-DLOCKSTEP_TESTS=ON)
[ -e build/CMakeCache.txt ] || options+=(-DLOCKSTEP_WERROR=ON)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset release "${options[@]}" >"$log" 2>&1; then # finds new tests, too
  tail -n 20 "$log" >&2
  echo "test-one.sh: build/ cannot be configured with tests (see the lines above); run ci/install.sh test, which installs what they need" >&2
  exit 3
fi
if [ -f "$area" ]; then
  name=$(basename "${area%.*}")
  case $area in
  *.c) cmake --build build --target "$name" ;;
  *) cmake --build build --target lockstep lockstep_added ps_replay ;;
  esac
  ctest --test-dir build -R "\\.$name\$" --output-on-failure --no-tests=error
  exit
fi
until areas | grep -E "^$area(/|\$)" >/dev/null; do
  area=$(dirname "$area")
done
# The labels of a test are `unit`, its folder and, if it takes minutes, `long`.
named() { ctest --test-dir build -N -R '^unit\.' -L "^$area(/|\$)" "$@" | sed -nE 's/^ *Test +#[0-9]+: unit\.//p'; }
mapfile -t tests < <(named -LE '^long$')
mapfile -t long < <(named -L '^long$')
if [ ${#tests[@]} -gt 0 ]; then
  cmake --build build --target "${tests[@]}"
  ctest --test-dir build -R '^unit\.' -L "^$area(/|\$)" -LE '^long$' -j"$(($(nproc) + 1))" --output-on-failure
fi
[ ${#long[@]} -eq 0 ] || echo "not run, takes minutes: ${long[*]} (build/NAME)"
