#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Predicts published figures of training (reports/published.yaml): fits what its calibrating rows determine, predicts
# the others, and prints a JSON line each on standard output, then a table, what was fitted, and the mean error of the
# tests on standard error. Usage: ci/published.sh [ID...] (beginnings of ids; none: all). LOCKSTEP: the program, with
# lockstep-simgrid beside it. All of them take 6 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B ci/published.py "${LOCKSTEP:-build/lockstep}" "$@"
