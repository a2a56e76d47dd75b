#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ten seeds of ps_schedules.sh; one under the thread sanitizer.
set -euo pipefail
. "$SOURCE_DIR/impl/tests/ps_schedules.sh"
seeds=10
[[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || seeds=1
ps_schedules 1 "$seeds"
