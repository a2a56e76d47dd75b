#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The small matrix of schedules.sh under ten seeds.
# shellcheck source=impl/tests/schedules.sh
. "$SOURCE_DIR/impl/tests/schedules.sh"
schedules 1 10
