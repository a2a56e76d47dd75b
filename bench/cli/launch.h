/* SPDX-License-Identifier: MIT */
/*
 * Launch: tasks that a launcher started, by its environment variables, but that MPI does not
 * connect are refused, or each run alone on purpose (`--launcher none`).
 */
#pragma once

#include "common/comm/processes.h"

/** The value of an option ("--timeout") before the command line is read; NULL: not given. */
const char *ls_launch_option(int argc, char **argv, const char *name);

/** Whether `--launcher none` is given. */
bool ls_launch_none(int argc, char **argv);

/**
 * LS_CODE_MISSING where the variables say that this is one of several tasks, and MPI connected it
 * to none. All tasks call this; rank 0 returns first, since the first to end may end them all.
 */
ls_status ls_launch_check(const ls_processes *processes, const char *command);
