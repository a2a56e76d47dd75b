/* SPDX-License-Identifier: MIT */
/*
 * Order and equality of the values of rows. Numbers are compared exactly, an integer with a real,
 * too: 9007199254740993 is more than 9007199254740992, and 1 equals 1.0. A real is the double
 * nearest to what was written, so 0.1 equals 1e-1, and 0.30000000000000004 is more than 0.3.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/** Order of two numbers, as of strcmp. */
int ls_number_order(const json_t *a, const json_t *b);

/** Whether two values are equal, lists and objects member by member; NULL equals only NULL. */
bool ls_value_equal(const json_t *a, const json_t *b);

/** The value with whole reals as integers, so that equal values have equal texts; a new reference.
 */
json_t *ls_value_alike(const json_t *value);
