#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fault matrix, each cell 20 times: what a rank is doing when another one is lost varies.
set -euo pipefail
REPEATS=20 exec bash "$(dirname "$0")/test_faults.sh"
