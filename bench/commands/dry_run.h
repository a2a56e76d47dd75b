/* SPDX-License-Identifier: MIT */
/* Dry run: the cases of a command with their estimated time and memory, in place of training. */
#ifndef LS_BENCH_COMMANDS_DRY_RUN_H
#define LS_BENCH_COMMANDS_DRY_RUN_H

#include "bench/case/case.h"

/**
 * Prints a line a case on stdout (--format table, json or jsonl; bytes are of all devices of a
 * process), and on stderr what they are together. Opens devices and strategies one case after the
 * other, trains nothing, and makes no file. The exit status is 3 where a case cannot be opened.
 */
ls_status ls_dry_run(ls_request *request, int *exit_status);

#endif
