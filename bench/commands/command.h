/* SPDX-License-Identifier: MIT */
/*
 * Commands: what main.c dispatches to. A refusal comes back as a status, which main prints; a
 * command that ran sets its exit status (0, or 1 for a failed check, 3, 130) and returns LS_OK.
 * argv[0] is the subcommand's name.
 */
#pragma once

#include "bench/case/case.h"
#include "common/base/status.h"

#include <stdio.h>

/**
 * A bit beside the exit status: a device has fallen over, and libraries that clean up at exit could
 * wait for it for ever. So main ends the process without that.
 */
enum { LS_EXIT_AT_ONCE = 0x100 };

/** `run` and `verify`. Borrows the request. */
ls_status ls_command_run(const ls_request *request, int *exit_status);

/**
 * --dry-run: prints a line for each case on stdout (--format table, md, json or jsonl; bytes are of
 * all devices of a process), and totals on stderr. Opens devices and strategies one case after the
 * other, trains nothing, and makes no file. The exit status is 3 where a case cannot be opened.
 */
ls_status ls_dry_run(ls_request *request, int *exit_status);

/**
 * --resume: leaves out as many repeats of each case as request.results has ok rows of the same case
 * (all that a row's group `case` says; with a budget, all but the steps), commit and machine: host,
 * processor, cores, memory limit, GPU. Says on stderr how many. May leave none. All processes
 * together; rank 0's file counts.
 */
ls_status ls_resume(ls_request *request);

/** Fits the request's numbers of steps to a plan's budget, which begins here: times some steps of
 * each case, on parameters that are thrown away. */
ls_status ls_budget_fit(ls_request *request);

/** Called on every rank: all run collectives, rank 0 alone the other operations. */
ls_status ls_command_micro(const ls_processes *processes, int argc, char **argv, int *exit_status);
/** Called on every rank; rank 0 prints each rank's devices. */
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
