/* SPDX-License-Identifier: MIT */
/* Plan: options from a YAML file: a mapping from option names to values or lists of values. */
#ifndef LS_BENCH_PLAN_H
#define LS_BENCH_PLAN_H

#include "bench/option_set.h"

/**
 * Adds the file's options to the set. A refusal names file, line and column: a syntax error, an
 * unknown key, a key given twice or on the command line too, a value that is neither text nor a
 * list of it. LS_CODE_MISSING where the file cannot be read.
 */
ls_status ls_plan_read(const char *path, ls_option_set *set);

#endif
