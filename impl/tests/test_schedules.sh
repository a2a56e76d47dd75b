#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The small matrix of schedules.sh under two seeds; one under the thread sanitizer, which needs an
# order to happen once, and not to come out wrong, to tell that nothing forces it.
# shellcheck source=impl/tests/schedules.sh
. "$SOURCE_DIR/impl/tests/schedules.sh"
seeds=2
[[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || seeds=1
schedules 1 "$seeds"
