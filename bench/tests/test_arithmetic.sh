#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the numbers of a run with an independent float64 model in Python: runs test_arithmetic.py.
set -euo pipefail
: "${LOCKSTEP:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$(dirname "$0")/test_arithmetic.py" "$LOCKSTEP" "$work"
python3 -B "$(dirname "$0")/check_rows.py" "$work/every.rows"
