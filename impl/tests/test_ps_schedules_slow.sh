#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Three hundred seeds of ps_schedules.sh.
set -euo pipefail
. "$SOURCE_DIR/impl/tests/ps_schedules.sh"
ps_schedules 1 300
