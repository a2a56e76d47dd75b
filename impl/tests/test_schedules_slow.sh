#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The small matrix of schedules.sh with the rest of two hundred seeds.
# shellcheck source=impl/tests/schedules.sh
. "$SOURCE_DIR/impl/tests/schedules.sh"
schedules 11 200
