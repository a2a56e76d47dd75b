#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares training in bf16 with an independent model in Python: runs test_bf16_arithmetic.py.
set -euo pipefail
: "${LOCKSTEP:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
python3 -B "$here/test_bf16_arithmetic.py" "$LOCKSTEP" "$work"
python3 -B "$here/check_rows.py" "$work/every.rows"
