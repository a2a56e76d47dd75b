/* SPDX-License-Identifier: MIT */
/*
 * Commands: what main.c dispatches to. A refusal is returned as a status, which main prints; a
 * command that ran sets its exit status (0, or 1 for a failed check, 3, 130) and returns LS_OK.
 * argv[0] is the subcommand's name.
 */
#pragma once

#include "bench/cli/option_set.h"

#include <stdio.h>

/** How a subcommand was called. */
typedef struct ls_invocation {
    const ls_processes *processes;
    int argc;
    char **argv;
    const ls_option_set *set; /**< options and operands; NULL where it reads argv itself */
} ls_invocation;

/** A subcommand, as in commands.def. */
typedef struct ls_command {
    const char *name;
    const char *operands; /**< after the name in the usage line */
    const char *help;
    unsigned options;           /**< LS_FOR_*; 0 if it has no options */
    unsigned passed;            /**< LS_FOR_*: options that it takes, too, and help leaves out */
    size_t operands_most;       /**< operands that it takes, if it has options */
    const char *about;          /**< more of --help; may be NULL */
    void (*more)(FILE *stream); /**< prints more of --help; may be NULL */
    const char *examples[2];
    bool everywhere; /**< runs on every rank, otherwise on rank 0 alone */
    ls_status (*run)(const ls_invocation *in, int *exit_status);
} ls_command;

/**
 * Prints the manual page or a shell's completion, of the given commands and the option table, if
 * `kind` is "--man", "--bash" or "--zsh". Builds call it by `lockstep help --man`, which users need
 * not know. False for any other `kind`.
 */
bool ls_manual_print(FILE *stream, const char *kind, const ls_command *commands, size_t count);

/**
 * A bit in addition to the exit status: a device was lost, and libraries that clean up at exit
 * could wait for it for ever. So main exits without that.
 */
enum { LS_EXIT_AT_ONCE = 0x100 };

/** `run` and `verify`. Borrows the request. */
ls_status ls_command_run(const ls_request *request, int *exit_status);

/**
 * --dry-run: prints a line for each case on stdout (--format table, md, json or jsonl; bytes are
 * sums over all devices of a process), and totals on stderr. Opens devices and strategies one case
 * after another, trains nothing, and creates no file. The exit status is 3 if a case cannot be
 * opened.
 */
ls_status ls_dry_run(ls_request *request, int *exit_status);

/**
 * --resume: skips as many repeats of each case as request.results has ok rows of the same case
 * (everything in a row's group `case`; with a budget, all but the steps), commit and machine: host,
 * processor, cores, memory limit, GPU. Prints the number on stderr. May leave none. All processes
 * call it; rank 0's file counts.
 */
ls_status ls_resume(ls_request *request);

/** Fits the request's numbers of steps to a plan's budget, which begins here: times some steps of
 * each case, on parameters that are thrown away. */
ls_status ls_budget_fit(ls_request *request);

/** `advise`. Borrows the request. */
ls_status ls_command_advise(const ls_request *request, int *exit_status);

/** `predict`. Borrows the request, whose cases it changes into what is played. */
ls_status ls_command_predict(ls_request *request, int *exit_status);

/** Called on every rank: all run collectives, rank 0 alone the other operations. */
ls_status ls_command_micro(const ls_invocation *in, int *exit_status);
void ls_command_micro_help(FILE *stream);
/** Called on every rank; rank 0 prints each rank's devices. */
ls_status ls_command_devices(const ls_invocation *in, int *exit_status);
ls_status ls_command_results(const ls_invocation *in, int *exit_status);
ls_status ls_command_regress(const ls_invocation *in, int *exit_status);
/** Prints what `results --help` has before the options: the verbs, and two examples. */
void ls_command_results_help(FILE *stream);
ls_status ls_command_report(const ls_invocation *in, int *exit_status);
ls_status ls_command_list(const ls_invocation *in, int *exit_status);
/** Prints one section of `list` (its title), or all of them (NULL). LS_CODE_USAGE lists the
 * titles. */
ls_status ls_list_print(FILE *stream, const char *kind);
