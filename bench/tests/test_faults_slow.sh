#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fault matrix, each cell 20 times: what a rank happens to do when another one goes varies.
set -euo pipefail
REPEATS=20 exec bash "$(dirname "$0")/test_faults.sh"
