#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From a bare Debian 12 or 13 to first results: installs what is missing, builds, trains `mlp` on Fashion-MNIST for 5
# epochs, shows the row and where it is saved. As root, or with sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
begin=$SECONDS
ci/install.sh build
cmake --preset release -DLOCKSTEP_TESTS=OFF >build.log 2>&1 || { tail -n 20 build.log >&2; exit 3; }
echo "building on $(nproc) cores"
tenths='/^\[[0-9]+\/[0-9]+\]/ { done = int(10 * $2 / $3); if (done > n) print 10 * (n = done) "%"; fflush() }'
cmake --build --preset release 2>&1 | tee -a build.log | awk -F '[][/]' "$tenths" || # Ninja's lines begin [DONE/ALL]
  { tail -n 40 build.log >&2; exit 3; }
rm -f build.log
echo "built build/lockstep in $((SECONDS - begin)) s; training:"
build/lockstep run --model mlp --epochs 5 --label quickstart
echo
echo "The row is kept in results/lockstep.db:"
echo "  build/lockstep results list"
build/lockstep results list | tail -n 3
echo "One page of them, with pictures; open it in a browser:"
build/lockstep report --where label=quickstart --out report
echo "Next: build/lockstep run --help, build/lockstep list, build/lockstep devices. ($((SECONDS - begin)) s in all)"
