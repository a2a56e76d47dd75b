#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The arm64 program, cross-compiled and run under emulation, passes its tests and has this program's bits.
exec "${SOURCE_DIR:?folder of the sources}/ci/fresh-arm64.sh"
