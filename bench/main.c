/* SPDX-License-Identifier: MIT */
/*
 * The program `lockstep`: finds the subcommand, runs it, prints a refusal as one line on stderr,
 * and turns all that into the exit status. Output that could not be written is a failure, too.
 */
#include "bench/command.h"
#include "bench/option_table.h"
#include "bench/options.h"

#include "common/base/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_status run_cases(int argc, char **argv, int *exit_status)
{
    ls_request *request = NULL;
    LS_TRY(ls_request_parse(argc, argv, ls_option_names_registered(), stderr, &request));
    ls_status status = ls_command_run(request, exit_status);
    ls_request_free(request);
    return status;
}

typedef struct command_entry {
    const char *name;
    const char *operands; /* after the name in the usage line */
    const char *help;
    unsigned options; /* LS_FOR_*; 0: it has none */
    /* NULL: known, but not in this version. */
    ls_status (*run)(int argc, char **argv, int *exit_status);
} command_entry;

static const command_entry commands[] = {
    {"run", " [--OPTION VALUE]...", "train and measure; one row per case", LS_FOR_RUN, run_cases},
    {"verify", " [--OPTION VALUE]...",
     "the same cases without timing: which equal the reference, how closely", LS_FOR_VERIFY,
     run_cases},
    {"micro", " OPERATION [--OPTION VALUE]...",
     "gemm, copy, optimizer, floor; allreduce and other collectives: rates, roofs", LS_FOR_MICRO,
     ls_command_micro},
    {"devices", " [SPEC]... [--OPTION VALUE]...",
     "what this machine has, and how device names resolve", LS_FOR_DEVICES, ls_command_devices},
    {"list", " [KIND]", "strategies, models, layers, data sets, ... with one line each", 0,
     ls_command_list},
    {"results", " list|show ID [--OPTION VALUE]...", "rows of the results database", LS_FOR_RESULTS,
     ls_command_results},
    {"report", "", "plots and one page from results (not in this version)", 0, NULL},
    {"regress", "", "compares two sets of results (not in this version)", 0, NULL},
    {"trace", "", "steps as a trace file (not in this version)", 0, NULL},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static const char *command_name(size_t index, const void *context)
{
    (void)context;
    return commands[index].name;
}

static const command_entry *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static ls_status refuse_command(const char *name)
{
    char hint[64] = "";
    const char *nearest = ls_nearest_name(name, command_name, COMMAND_COUNT, NULL);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s? ", nearest);
    return ls_fail(LS_CODE_USAGE, "command", *name ? name : "''",
                   "unknown command; %svalid are: run, verify, micro, devices, list, results, "
                   "report, regress, trace, help",
                   hint);
}

static void print_usage(FILE *stream)
{
    fputs(
        "Usage: lockstep COMMAND [--OPTION VALUE]...\n"
        "       lockstep COMMAND --help | help [COMMAND] | --help | --version\n\n"
        "Trains one model with each way of spreading the work, shows that they compute the same,\n"
        "and measures what each costs.\n\nCommands:\n",
        stream);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\nExit status: 0 all well; 1 a check failed; 2 wrong usage; 3 something is missing or\n"
          "broken here; 4 regress cannot tell; 130 interrupted.\n",
          stream);
}

static void print_command_help(FILE *stream, const command_entry *command)
{
    fprintf(stream, "Usage: lockstep %s%s\n\n%s\n", command->name, command->operands,
            command->help);
    if (!command->options)
        return;
    fputs(
        "\nOptions, as --name VALUE or --name=VALUE; names are not abbreviated. A list of values,\n"
        "separated by commas, makes one case per value.\n",
        stream);
    ls_option_help(stream, command->options);
}

static ls_status help(int argc, char **argv)
{
    if (argc > 2)
        return ls_fail(LS_CODE_USAGE, "argument", argv[2], "unexpected; lockstep help [COMMAND]");
    const command_entry *command = argc > 1 ? find_command(argv[1]) : NULL;
    if (argc > 1 && !command)
        return refuse_command(argv[1]);
    if (command)
        print_command_help(stdout, command);
    else
        print_usage(stdout);
    return LS_OK;
}

static ls_status dispatch(int argc, char **argv, int *exit_status)
{
    const char *first = argv[0];
    bool wants_help = strcmp(first, "--help") == 0, wants_version = strcmp(first, "--version") == 0;
    if ((wants_help || wants_version) && argc > 1)
        return ls_fail(LS_CODE_USAGE, "argument", argv[1], "unexpected after %s; give it alone",
                       first);
    if (wants_version) {
        ls_version_print(stdout);
        return LS_OK;
    }
    if (wants_help || strcmp(first, "help") == 0)
        return help(argc, argv);
    if (first[0] == '-')
        return ls_fail(LS_CODE_USAGE, "option", first,
                       "unknown option; a command comes first: lockstep run %s, or --help, "
                       "--version",
                       first);
    const command_entry *command = find_command(first);
    if (!command)
        return refuse_command(first);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_command_help(stdout, command);
            return LS_OK;
        }
    }
    if (!command->run)
        return ls_fail(LS_CODE_USAGE, "command", command->name,
                       "not in this version; run, verify, micro, devices, list and results are");
    return command->run(argc, argv, exit_status);
}

/* Makes descriptors 0 to 2 exist, so that no file that is opened later becomes one of them. */
static void hold_standard_streams(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", descriptor == 1 ? O_RDONLY : O_RDWR);
}

/* Whether this process is rank 0, or was not started by a launcher: one refusal is enough. */
static bool speaks_for_all(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *rank = getenv(variables[i]);
        if (rank && strtol(rank, NULL, 10) > 0)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write that fails, and is reported as such */
    if (argc < 2) {
        print_usage(stderr);
        return LS_CODE_USAGE;
    }
    int exit_status = 0;
    ls_status status = ls_hooks_check();
    if (!status)
        status = dispatch(argc - 1, argv + 1, &exit_status);
    bool unwritten = ferror(stdout) != 0;
    unwritten |= fclose(stdout) != 0;
    if (!status && unwritten && exit_status == 0)
        status = ls_fail(LS_CODE_MISSING, "standard output", NULL,
                         "not all of it could be written; a full disk or a closed pipe?");
    if (status) {
        exit_status = (int)ls_status_code(status);
        if (speaks_for_all())
            fprintf(stderr, "lockstep: %s\n", ls_status_text(status));
        ls_status_free(status);
    }
    return exit_status;
}
