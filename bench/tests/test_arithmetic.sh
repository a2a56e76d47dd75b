#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The numbers of a run against an independent model of it in Python with float64: see
# test_arithmetic.py, which this starts.
set -euo pipefail
: "${LOCKSTEP:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$(dirname "$0")/test_arithmetic.py" "$LOCKSTEP" "$work"
python3 -B "$(dirname "$0")/check_rows.py" "$work/every.rows"
