#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the tables of results/README.md from the committed rows; --check only compares (results_tables.py).
exec python3 -B "$(dirname "$0")/results_tables.py" "$@"
