/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

/** Whether a test runs in the slow tier, with all of its cases; else with one of each kind. */
static inline bool thorough(void)
{
    return getenv("LOCKSTEP_THOROUGH");
}
