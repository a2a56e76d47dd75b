/* SPDX-License-Identifier: MIT */
/*
 * Commands: what main.c dispatches to. A refusal comes back as a status, which main prints; a
 * command that ran sets its exit status (0, or 1 for a failed check, 3, 130) and returns LS_OK.
 * argv[0] is the subcommand's name.
 */
#ifndef LS_BENCH_COMMANDS_COMMAND_H
#define LS_BENCH_COMMANDS_COMMAND_H

#include "bench/case/case.h"
#include "common/base/status.h"

#include <stdio.h>

/**
 * In an exit status beside the status itself: a device has fallen over, and what its libraries do
 * when a process ends in order could wait for it. So main leaves without them.
 */
enum { LS_EXIT_AT_ONCE = 0x100 };

/** `run` and `verify`. Borrows the request. */
ls_status ls_command_run(const ls_request *request, int *exit_status);

/** On every rank; collectives are of all, the rest is rank 0's. */
ls_status ls_command_micro(const ls_processes *processes, int argc, char **argv, int *exit_status);
/** On every rank; rank 0 prints what each has. */
ls_status ls_command_devices(const ls_processes *processes, int argc, char **argv,
                             int *exit_status);
ls_status ls_command_results(int argc, char **argv, int *exit_status);
ls_status ls_command_regress(int argc, char **argv, int *exit_status);
void ls_command_regress_help(FILE *stream);
/** What `results --help` says before the options: the verbs, and two examples. */
void ls_command_results_help(FILE *stream);
ls_status ls_command_report(int argc, char **argv, int *exit_status);
ls_status ls_command_list(int argc, char **argv, int *exit_status);

/** `lockstep --version`: version, commit, build, and the libraries that are in it. */
void ls_version_print(FILE *stream);

#endif
