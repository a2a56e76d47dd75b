/* SPDX-License-Identifier: MIT */
/*
 * Launch: what is made of what a launcher's variables say before anybody is met: tasks that MPI
 * does not bring together are refused, or run each alone on purpose (`--launcher none`).
 */
#pragma once

#include "common/comm/processes.h"

/** The value of an option ("--timeout") before the command line is read; NULL: not given. */
const char *ls_launch_option(int argc, char **argv, const char *name);

/** Whether `--launcher none` is given. */
bool ls_launch_none(int argc, char **argv);

/**
 * LS_CODE_MISSING where the variables say that this is one of several tasks, and it met none. All
 * of them are to come here; rank 0 returns first, since the first that ends may be the end of all.
 */
ls_status ls_launch_check(const ls_processes *processes, const char *command);
