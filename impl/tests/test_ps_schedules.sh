#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ten seeds of ps_schedules.sh.
set -euo pipefail
. "$SOURCE_DIR/impl/tests/ps_schedules.sh"
ps_schedules 1 10
