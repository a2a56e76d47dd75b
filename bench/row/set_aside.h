/* SPDX-License-Identifier: MIT */
/*
 * Set aside: OpenMP's variables in the environment (OMP_*, GOMP_*, KMP_*), which many job scripts
 * export for other programs. Left to OpenMP's library, they bind the first thread to one core, make
 * teams smaller or their stacks too small, and print. A program that links this file hides them
 * from all libraries until main shows them again.
 */
#pragma once

#include <stdbool.h>

/** Call it first in main: from here on the variables have their given values, for the row and for
 * programs that are started. */
void ls_set_aside_show(void);

/** Whether a variable ("NAME=value", of environ) is one of them. */
bool ls_is_set_aside(const char *variable);
