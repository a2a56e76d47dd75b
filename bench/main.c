/* SPDX-License-Identifier: MIT */
/*
 * The program `lockstep`: finds the subcommand, runs it, prints a refusal as one line on stderr,
 * and sets the exit status. Output that could not be written is a failure, too.
 */
#include "bench/case/case_facts.h"
#include "bench/cli/option_table.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/output/standard_output.h"
#include "bench/play/platform.h"
#include "bench/row/provenance.h"
#include "bench/row/set_aside.h"
#include "bench/train/interrupt.h"
#include "bench/train/world.h"
#include "build_info.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t hash_request(const ls_request *request)
{
    uint64_t hash = (uint64_t)request->blocks * 2 + request->baseline;
    hash = hash * 31 + (uint64_t)(request->precision * 1e9);
    hash = hash * 16 + (request->load ? 8 : 0) + (request->save ? 4 : 0) +
           (request->ps_record ? 2 : 0) + request->print_step; /* equal on all ranks */
    hash = hash * 4 + (request->checkpoint ? 2 : 0) + (request->resume_from ? 1 : 0);
    hash = hash * 31 + (uint64_t)request->checkpoint_interval;
    for (size_t i = 0; i < request->case_count; i++)
        hash = 31 * hash + ls_case_hash(&request->cases[i]);
    return hash;
}

/* Everything before training, or instead of it. */
static ls_status run_planned(ls_request *request, int *exit_status)
{
    if (request->predict && ls_platform_list(request->prediction.platform, ls_output()))
        return LS_OK;
    if (request->advise)
        return ls_command_advise(request, exit_status);
    if (request->predict)
        return ls_command_predict(request, exit_status);
    if (request->resume)
        LS_TRY(ls_resume(request));
    if (request->case_count == 0) { /* all cases have their rows */
        ls_request_tell(request);
        return LS_OK;
    }
    if (request->dry_run)
        return ls_dry_run(request, exit_status);
    if (request->budget_ns)
        LS_TRY(ls_budget_fit(request));
    return ls_command_run(request, exit_status);
}

/* Only rank 0 reports dropped cases and shows progress; ranks agree on refusals. */
static ls_status run_cases(const ls_invocation *in, int *exit_status)
{
    const ls_processes *processes = in->processes;
    ls_request *request = NULL;
    FILE *quiet = processes->rank > 0 ? fopen("/dev/null", "w") : NULL;
    ls_status status =
        ls_request_parse(in->argc, in->argv, processes, quiet ? quiet : stderr, &request);
    status = ls_world_agree(processes->comm, status);
    if (!status) /* a --plan file may differ between disks */
        status = ls_world_same(processes->comm, "set of options", hash_request(request), NULL);
    if (!status) {
        request->progress = processes->rank > 0 ? 0 : request->progress;
        ls_processes_set_timeout(processes, request->timeout_ns);
        status = run_planned(request, exit_status);
    }
    ls_request_free(request);
    if (quiet)
        fclose(quiet);
    return status;
}

static const ls_command commands[] = {
#define COMMAND(name, operands, help, options, function, ...)                                      \
    {name, operands, help, options, .run = function, __VA_ARGS__},
#include "bench/commands/commands.def"
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static const ls_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static ls_status refuse_command(const char *name)
{
    char valid[256] = "", nearest[LS_NAME_SIZE], hint[LS_NAME_SIZE + 16] = "";
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        ls_text_add(valid, sizeof valid, "%s, ", commands[i].name);
    if (ls_nearest_name(name, valid, nearest))
        snprintf(hint, sizeof hint, "did you mean %s? ", nearest);
    return ls_fail(LS_CODE_USAGE, "command", *name ? name : "''",
                   "unknown command; %svalid are: %shelp", hint, valid);
}

static void print_usage(FILE *stream)
{
    fputs("Usage: lockstep COMMAND [--OPTION VALUE]...\n"
          "       lockstep COMMAND --help | help [COMMAND] | --help | --version\n\n"
          "Trains one model with each way of spreading the work, shows that they compute\n"
          "the same, and measures what each costs.\n\nCommands:\n",
          stream);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(stream, "  %-9s%s\n", commands[i].name, commands[i].help);
    fputs("\nExamples:\n"
          "  lockstep run --strategy mirrored --devices 2\n"
          "  lockstep run --strategy all --devices all --dry-run\n",
          stream);
    fputs("\nExit status: 0 all well; 1 a check failed; 2 wrong usage; 3 something is\n"
          "missing or broken here; 4 regress cannot tell; 130 interrupted;\n"
          "141 no one reads standard output (rows go on to be kept).\n",
          stream);
}

static void print_command_help(FILE *stream, const ls_command *command)
{
    fprintf(stream, "Usage: lockstep %s%s\n\n%s\n", command->name, command->operands,
            command->help);
    if (command->about)
        fprintf(stream, "\n%s", command->about);
    if (command->more)
        command->more(stream);
    for (size_t i = 0; i < 2 && command->examples[i]; i++)
        fprintf(stream, "%s  lockstep %s\n", i ? "" : "\nExamples:\n", command->examples[i]);
    if (!command->options)
        return;
    fputs("\nOptions, as --name VALUE or --name=VALUE; names are not abbreviated. A list of\n"
          "values, separated by commas, makes one case per value. In a list, a comma that\n"
          "is part of a value is written \\, and a backslash is written \\\\.\n",
          stream);
    ls_option_help(stream, command->options);
}

/* Libraries that only other builds have; NULL at the end. */
static const char *const absent[] = {
#ifndef LOCKSTEP_MPI
    "OpenMPI",
#endif
#if !LS_HAS_CUDA
    "CUDA",    "cuBLAS",
#endif
#if !LS_HAS_CUDNN
    "cuDNN",
#endif
#if !LS_HAS_NCCL
    "NCCL",
#endif
    NULL,
};

/* `lockstep --version`: version, commit, build, and the libraries that are in it. */
static void print_version(FILE *stream)
{
    ls_library libraries[LS_LIBRARIES_MOST];
    const size_t count = ls_libraries(libraries);
    fprintf(stream, "lockstep %s\n", LS_VERSION);
    fprintf(stream, "  %-10s %s%s\n", "commit", LS_GIT_COMMIT, LS_GIT_DIRTY ? " (changed)" : "");
    fprintf(stream, "  %-10s %s\n", "build", LS_BUILD_TYPE);
    fprintf(stream, "  %-10s %s\n", "compiler", LS_COMPILER);
    fprintf(stream, "  %-10s %s\n", "flags", LS_COMPILER_FLAGS);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %-10s %s\n", libraries[i].name, libraries[i].version);
    for (size_t i = 0; absent[i]; i++)
        fprintf(stream, "  %-10s not in this build\n", absent[i]);
}

static ls_status help(int argc, char **argv)
{
    if (argc == 2 && ls_manual_print(ls_output(), argv[1], commands, COMMAND_COUNT))
        return LS_OK;
    if (argc > 2)
        return ls_fail(LS_CODE_USAGE, "argument", argv[2],
                       "unexpected argument; use lockstep help COMMAND");
    const ls_command *command = argc > 1 ? find_command(argv[1]) : NULL;
    if (argc > 1 && !command)
        return refuse_command(argv[1]);
    if (command)
        print_command_help(ls_output(), command);
    else
        print_usage(ls_output());
    return LS_OK;
}

/* ---- Launchers ------------------------------------------------------------------------------- */

/* The value of an option ("--timeout") before the command line is parsed; NULL if not given. */
static const char *early_option(int argc, char **argv, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        const char *value = argv[i] + length;
        if (strncmp(argv[i], name, length) != 0)
            continue;
        if (*value == '=')
            return value + 1;
        if (!*value && i + 1 < argc)
            return argv[i + 1];
    }
    return NULL;
}

/* Whether each task of a launcher is meant to run alone. */
static bool runs_alone(int argc, char **argv)
{
    const char *value = early_option(argc, argv, "--launcher");
    return value && strcmp(value, "none") == 0;
}

/* Delay of other tasks: if one ended first, the launcher might end rank 0 before its report. */
static const uint64_t behind_ns = 1000000000;

/* The launcher's variables announce several tasks, but this process found no others. All of them
 * get here; rank 0 returns first. */
static ls_status check_launch(const ls_processes *processes, const char *command)
{
    const int size = ls_processes_launched_size();
    char tasks[32];
    if (processes->size > 1 || size == 1)
        return LS_OK;
    if (processes->rank > 0)
        ls_clock_sleep(behind_ns);
    if (!ls_processes_built())
        return ls_fail(LS_CODE_MISSING, "MPI", command,
                       "a launcher started %d ranks, but this build has no MPI to connect the "
                       "ranks; build with -DLOCKSTEP_MPI=ON, start without a launcher, or run each "
                       "task alone with --launcher none",
                       size);
    snprintf(tasks, sizeof tasks, "%d tasks", size);
    if (ls_processes_stepped())
        return ls_fail(
            LS_CODE_MISSING, "launcher", tasks,
            "srun started several tasks, but MPI does not connect them as ranks; start with "
            "%smpirun in the allocation, or run each task alone with --launcher none",
            ls_processes_take_pmi() ? "MPICH's " : "srun --mpi=pmix, or ");
    return ls_fail(
        LS_CODE_MISSING, "launcher", tasks,
        "a launcher started several tasks, but MPI does not connect them as ranks; start with the "
        "mpirun of this program's MPI, or run each task alone with --launcher none");
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Reads the options, but for a request of cases, which reads its own. */
static ls_status read_and_run(const ls_command *command, ls_invocation *in, int *exit_status)
{
    ls_closing(ls_option_set_close) ls_option_set set = {0};
    if (command->run == run_cases || !command->options)
        return command->run(in, exit_status);
    LS_TRY(ls_option_set_open(command->options | command->passed, &set));
    LS_TRY(ls_option_set_read(&set, in->argc, in->argv, command->operands_most));
    in->set = &set;
    return command->run(in, exit_status);
}

/* Refuses arguments that are not UTF-8, since rows are JSON and contain the command line; and a
 * file on standard output, which would be mixed with rows, and opened by that name would be
 * standard error's (standard_output.h). */
static ls_status check_argument(const char *argument)
{
    json_auto_t *text = json_string(argument);
    const char *value = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    if (!text)
        return ls_fail(
            LS_CODE_USAGE, "argument", argument,
            "this argument is not valid UTF-8; rows are JSON, so write arguments in UTF-8");
    if (ls_output_is_named(value ? value + 1 : argument))
        return ls_fail(LS_CODE_USAGE, "argument", argument,
                       "standard output is only for rows; name a file");
    return LS_OK;
}

static ls_status dispatch(const ls_processes *processes, int argc, char **argv, int *exit_status)
{
    const char *first = argv[0];
    for (int i = 0; i < argc; i++)
        LS_TRY(check_argument(argv[i]));
    bool wants_help = strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0;
    bool wants_version = strcmp(first, "--version") == 0;
    if ((wants_help || wants_version) && argc > 1)
        return ls_fail(LS_CODE_USAGE, "argument", argv[1],
                       "unexpected argument after %s; remove this argument", first);
    if (wants_version) {
        print_version(ls_output());
        return LS_OK;
    }
    if (wants_help || strcmp(first, "help") == 0)
        return help(argc, argv);
    if (first[0] == '-')
        return ls_fail(
            LS_CODE_USAGE, "option", first,
            "a command must come first, as in lockstep run %s; lockstep --help lists the commands",
            first);
    const ls_command *command = find_command(first);
    if (!command)
        return refuse_command(first);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_command_help(ls_output(), command);
            return LS_OK;
        }
    }
    ls_invocation in = {processes, argc, argv, NULL};
    if (!command->everywhere)
        return processes->rank > 0 ? LS_OK : read_and_run(command, &in, exit_status);
    if (!runs_alone(argc, argv))
        LS_TRY(check_launch(processes, command->name));
    /* all ranks must get here, otherwise MPI would wait for ever */
    LS_TRY(read_and_run(command, &in, exit_status));
    return ls_world_agree(processes->comm, LS_OK);
}

/* Opens descriptors 0 to 2 if closed, so that no file opened later becomes one of them. */
static void hold_standard_streams(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", descriptor == 1 ? O_RDONLY : O_RDWR);
}

/* All ranks must be the same build with the same command line. */
static ls_status compare_ranks(const ls_processes *processes, int argc, char **argv)
{
    static const char build[] =
        LS_VERSION " " LS_GIT_COMMIT " " LS_BUILD_TYPE " " LS_COMPILER " " LS_COMPILER_FLAGS;
    char text[4096] = "";
    for (int i = 1; i < argc; i++)
        ls_text_add(text, sizeof text, "%s%s", i > 1 ? " " : "", argv[i]);
    LS_TRY(ls_world_same(processes->comm, "build", ls_hash64(build, sizeof build), build));
    return ls_world_same(processes->comm, "command line", ls_hash64(text, strlen(text)), text);
}

static void print_line(const char *line)
{
    fprintf(stderr, "lockstep: %s", line);
}

/* The timeout until the command's own is known; and how much longer a rank waits in MPI_Init, plus
 * a bit more per rank, so that one rank reports before the launcher ends the others. */
static const uint64_t first_timeout_ns = 60000000000, late_ns = 3500000000, turn_ns = 100000000;

static void tell_late(void)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    fprintf(stderr,
            "lockstep: MPI: rank %d of %d on %s: not every rank has come to MPI_Init; is each of "
            "them lockstep, and does it run? --timeout gives them longer\n",
            ls_processes_launched_rank(), ls_processes_launched_size(), host);
    _Exit(LS_CODE_MISSING);
}

static ls_status meet(int argc, char **argv, ls_processes *processes)
{
    const char *value = early_option(argc, argv, "--timeout");
    uint64_t timeout_ns = 0;
    if (!value || !ls_parse_duration(value, &timeout_ns) || !timeout_ns)
        timeout_ns = first_timeout_ns; /* what is not valid is refused later */
    LS_TRY(ls_processes_start(timeout_ns + late_ns +
                                  (uint64_t)ls_processes_launched_rank() % 10 * turn_ns,
                              tell_late, processes));
    ls_processes_set_timeout(processes, timeout_ns);
    ls_processes_watch(processes, ls_interrupted, print_line);
    return LS_OK;
}

/* Connects to the other ranks if a launcher started some; only rank 0 has standard output. */
static ls_status start(int argc, char **argv, ls_processes *processes)
{
    if (runs_alone(argc, argv))
        return LS_OK;
    if (ls_processes_built() && ls_processes_launched())
        LS_TRY(meet(argc, argv, processes));
    if (processes->size == 1) /* unconnected tasks: the launcher's number */
        processes->rank = ls_processes_launched_rank();
    if (processes->rank > 0 && !freopen("/dev/null", "w", ls_output()))
        return ls_fail(LS_CODE_MISSING, "standard output", NULL,
                       "ranks above 0 write to /dev/null, which cannot be opened: %s; mount /dev, "
                       "or raise the limit on open files (ulimit -n)",
                       strerror(errno));
    return compare_ranks(processes, argc, argv);
}

/* With less, the program may end in a segmentation fault. */
static ls_status check_stack(void)
{
    static const rlim_t least = 256 << 10;
    struct rlimit stack;
    char where[32];
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= least)
        return LS_OK;
    snprintf(where, sizeof where, "%llu KiB", (unsigned long long)stack.rlim_cur >> 10);
    return ls_fail(LS_CODE_MISSING, "stack", where,
                   "this stack is too small; raise its limit, for example with ulimit -s 8192");
}

/* Rank 0 prints a failure. If ranks have lost each other, one of them prints which are missing, and
 * each what it waited for. */
static int report(const ls_processes *processes, ls_status status)
{
    int exit_status = (int)ls_status_code(status);
    if (ls_processes_lost(processes))
        ls_processes_autopsy(processes);
    else if (processes->rank == 0 && exit_status != LS_CODE_UNREAD)
        ls_log_stderr("%s", ls_status_text(status));
    ls_status_free(status);
    return exit_status;
}

int main(int argc, char **argv)
{
    ls_set_aside_show();
    hold_standard_streams();
    ls_status status = ls_output_open();
    signal(SIGPIPE, SIG_IGN);       /* writing to a closed pipe fails: rows are kept nevertheless */
    signal(SIGXFSZ, SIG_IGN);       /* so does growing a file past a limit */
    ls_interrupt_end_at_once(NULL); /* commands that keep what is half done install their own */
    if (argc < 2) {
        if (ls_processes_launched_rank() == 0)
            print_usage(stderr);
        return LS_CODE_USAGE;
    }
    int exit_status = 0;
    ls_processes processes = ls_processes_alone();
    if (!status)
        status = check_stack();
    if (status) /* the ranks are not connected yet */
        processes.rank = ls_processes_launched_rank();
    if (!status)
        status = start(argc, argv, &processes);
    if (!status)
        status = dispatch(&processes, argc - 1, argv + 1, &exit_status);
    ls_status printed = ls_output_close();
    if (!exit_status)
        status = ls_status_first(status, printed);
    else
        ls_status_free(printed);
    const bool at_once = ls_status_is_final(status) || (exit_status & LS_EXIT_AT_ONCE);
    exit_status &= ~LS_EXIT_AT_ONCE;
    if (status)
        exit_status = report(&processes, status);
    ls_processes_end(&processes, !ls_processes_lost(&processes), exit_status);
    if (at_once)
        _exit(exit_status);
    return exit_status;
}
