#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and runs the unit tests of one folder, for use while working there: ci/test-one.sh AREA
#   AREA   a folder, as common/comm, impl/step or bench/row, with its subfolders; one without tests of its own has those
#          of the folder above it. Tests of minutes (label `long`) are left out, and named.
# Uses the folder `build`, and configures it if it is missing. Only libraries of folders that AREA includes are built.
set -euo pipefail
cd "$(dirname "$0")/.."
area=${1:-}
area=${area%/}

areas() { find common impl bench -path '*/tests/test_*.c' ! -path '*/mpi/*' | sed 's,/tests/.*,,' | sort -u; }
if [ $# -ne 1 ] || [ ! -d "$area" ] || ! [[ $area =~ ^(common|impl|bench)(/|$) ]] || [[ $area == */tests* ]]; then
  echo "test-one.sh: '$area' is no folder with unit tests; one of: $(areas | paste -sd ' ')" >&2
  exit 2
fi
until areas | grep -E "^$area(/|\$)" >/dev/null; do
  area=$(dirname "$area")
done
if [ -e build/CMakeCache.txt ]; then
  cmake build >/dev/null # finds new tests
else
  cmake --preset release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_WERROR=ON >/dev/null
fi
# The labels of a test are `unit`, its folder and, if it takes minutes, `long`.
named() { ctest --test-dir build -N -R '^unit\.' -L "^$area(/|\$)" "$@" | sed -nE 's/^ *Test +#[0-9]+: unit\.//p'; }
mapfile -t tests < <(named -LE '^long$')
mapfile -t long < <(named -L '^long$')
if [ ${#tests[@]} -gt 0 ]; then
  cmake --build build --target "${tests[@]}"
  ctest --test-dir build -R '^unit\.' -L "^$area(/|\$)" -LE '^long$' -j"$(($(nproc) + 1))" --output-on-failure
fi
if [ ${#tests[@]} -eq 0 ] && [ ${#long[@]} -eq 0 ]; then
  echo "test-one.sh: the build in build/ has no tests; configure it with -DLOCKSTEP_TESTS=ON" >&2
  exit 3
fi
[ ${#long[@]} -eq 0 ] || echo "not run, takes minutes: ${long[*]} (build/NAME)"
