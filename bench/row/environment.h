/* SPDX-License-Identifier: MIT */
/* Environment: the variables that change what a library computes, or how fast, as a row has them.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

/**
 * {NAME: value} for the stream's variables ("NAME=value", each ended by a zero, as in
 * /proc/self/environ) that are in environment.sql's tables, in the order of their names; owned by
 * the caller (json_decref). NULL if there is none, or no memory. Text from outside: bytes that are
 * not printable ASCII become \xNN, and a long value ends in its length and its hash.
 */
json_t *ls_environment_build(FILE *stream);

/** As above, for this process when it was started: without what libraries have set since (Open MPI
 * sets PSM2_DEVICES). NULL also without /proc. */
json_t *ls_environment_own(void);
