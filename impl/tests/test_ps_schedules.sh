#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ten seeds of ps_schedules.sh; three under the thread sanitizer.
set -euo pipefail
. "$SOURCE_DIR/impl/tests/ps_schedules.sh"
seeds=10
[[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || seeds=3
ps_schedules 1 "$seeds"
