#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The small matrix of schedules.sh with two seeds; one with the thread sanitizer, which reports a missing order even
# if the run comes out right.
# shellcheck source=impl/tests/schedules.sh
. "$SOURCE_DIR/impl/tests/schedules.sh"
seeds=2
[[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || seeds=1
schedules 1 "$seeds"
