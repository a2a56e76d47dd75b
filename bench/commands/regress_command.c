/* SPDX-License-Identifier: MIT */
/*
 * `lockstep regress`: reads its options, hands those of `run` on, and prints the report. Exit: 0
 * none is slower or worse, 1 one is, 4 some cannot be told, 3 not to be compared.
 */
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/commands/command.h"
#include "bench/regress/regress.h"
#include "bench/train/interrupt.h"
#include "common/base/clock.h"
#include "common/base/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ls_command_regress_help(FILE *stream)
{
    fputs("\nBASE, NEW: two programs, or two results files (.jsonl, .db).\n"
          "Programs run in turns, block by block; a block is PROGRAM run, with the options\n"
          "of `run` that are given here (lockstep run --help), --plan among them.\n"
          "  regress --calibrate N PROGRAM              how often it says what\n"
          "  regress --bisect GOOD BAD --build COMMAND  which commit made it slower\n"
          "\nExit: 0 none slower or worse, 1 one is, 4 some cannot be told, 3 cannot compare.\n",
          stream);
}

/* ---- Values --------------------------------------------------------------------------------- */

/* "3%", or "3": a share above 0 and below 1. */
static bool read_percent(const char *text, double *out)
{
    char number[32];
    const size_t length = strlen(text);
    const size_t digits = length > 0 && text[length - 1] == '%' ? length - 1 : length;
    if (digits == 0 || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = 0;
    if (!ls_parse_real(number, out))
        return false;
    *out /= 100;
    return *out > 0 && *out < 1;
}

static ls_status read_fail_on(const char *text, ls_regress_task *task)
{
    while (text && *text) {
        const size_t length = strcspn(text, ","), name = strcspn(text, ",=");
        ls_fail_key *one = &task->fail_on[task->fail_count];
        if (task->fail_count++ == LS_FAIL_ON_MOST)
            return ls_fail(LS_CODE_USAGE, "--fail-on", text, "more than %d keys", LS_FAIL_ON_MOST);
        LS_TRY(ls_row_key_find("--fail-on", text, name, &one->key));
        if (name < length) {
            char tolerance[32];
            snprintf(tolerance, sizeof tolerance, "%.*s", (int)(length - name - 1),
                     text + name + 1);
            if (!read_percent(tolerance, &one->tolerance))
                return ls_fail(LS_CODE_USAGE, "--fail-on", text,
                               "'%s' is not valid; KEY, or KEY=5%% to allow 5%%", tolerance);
        }
        text += length + (text[length] == ',');
    }
    return LS_OK;
}

static ls_status read_own(const ls_option_set *set, ls_regress_task *task, ls_row_filter **where)
{
    const char *threshold = ls_option_set_text(set, "threshold", "3%");
    const char *max_time = ls_option_set_text(set, "max-time", NULL);
    const char *keys = ls_option_set_text(set, "where", NULL);
    if (!read_percent(threshold, &task->threshold))
        return ls_fail(LS_CODE_USAGE, "--threshold", threshold,
                       "is not valid; a share as 3%%, above 0 and below 100%%");
    if (max_time && (!ls_parse_duration(max_time, &task->max_ns) || task->max_ns < 1000000000))
        return ls_fail(LS_CODE_USAGE, "--max-time", max_time,
                       "is not valid; a time of 1s or more: 60s, 10min");
    LS_TRY(read_fail_on(ls_option_set_text(set, "fail-on", NULL), task));
    if (keys) {
        LS_TRY(ls_row_filter_open(keys, where));
        task->where = *where;
    }
    task->instructions = strcmp(ls_option_set_text(set, "instructions", "no"), "yes") == 0;
    task->results = ls_option_set_text(set, "results", LS_RESULTS_DEFAULT);
    if (strcmp(task->results, "none") == 0)
        task->results = NULL;
    const char *progress = ls_option_set_text(set, "progress", "auto");
    task->quiet = strcmp(ls_option_set_text(set, "quiet", "no"), "yes") == 0 ||
                  strcmp(progress, "no") == 0 || (strcmp(progress, "yes") != 0 && !isatty(2));
    return LS_OK;
}

/* ---- Options of run ------------------------------------------------------------------------- */

/* "--name=a,b" of all that was given for it; owned by the caller. */
static char *join_values(const ls_option *option, const ls_option_given *given)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    fprintf(stream, "--%s=", option->name);
    for (size_t i = 0; i < given->count; i++)
        fprintf(stream, "%s%s", i ? "," : "", given->values[i].text);
    fclose(stream);
    return text;
}

/* Whether a plan says something about an option; what else is wrong with it the programs say. */
static bool plan_mentions(const char *path, const char *word)
{
    char line[4096];
    bool found = false;
    FILE *stream = path ? fopen(path, "r") : NULL;
    while (stream && !found && fgets(line, sizeof line, stream))
        found = line[strspn(line, " ")] != '#' && strstr(line, word);
    if (stream)
        fclose(stream);
    return found;
}

static bool has(const ls_option_set *set, const char *name)
{
    return ls_option_set_find(set, name)->count > 0 ||
           plan_mentions(ls_option_set_text(set, "plan", NULL), name);
}

static ls_status collect_options(const ls_option_set *set, ls_regress_task *task)
{
    static const char *const unfit[] = {"dry-run", "print-step", "resume", "columns", "save"};
    size_t count;
    const ls_option *table = ls_option_table(&count);
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        char dashed[32];
        snprintf(dashed, sizeof dashed, "--%s", unfit[i]);
        if (ls_option_set_find(set, unfit[i])->count > 0)
            return ls_fail(LS_CODE_USAGE, "option", dashed,
                           "leaves nothing to compare; leave it out");
    }
    task->options = calloc(count + 1, sizeof *task->options);
    if (!task->options)
        return ls_fail_memory("options", count * sizeof *task->options);
    for (size_t i = 0; i < count; i++) {
        if (set->given[i].count == 0 || (table[i].commands & LS_FOR_REGRESS))
            continue;
        char *text = join_values(&table[i], &set->given[i]);
        if (!text)
            return ls_fail_memory("options", 0);
        task->options[task->option_count++] = text;
    }
    task->fixed_steps =
        has(set, "steps") || has(set, "epochs") || ls_option_set_find(set, "plan")->count > 0;
    task->fixed_gate = has(set, "gate-steps");
    task->fixed_blocks = has(set, "blocks");
    return LS_OK;
}

/* ---- What is done --------------------------------------------------------------------------- */

/* Each of several formats to a file of its own: OUT.md, OUT.json. */
static ls_status write_formats(const char *formats, const char *out, const json_t *document,
                               FILE *stream)
{
    char format[16], path[1024];
    if (!strchr(formats, ','))
        return ls_verdict_write(formats, document, stream);
    for (const char *next = formats; *next; next += strspn(next, ",")) {
        const int length = (int)strcspn(next, ",");
        snprintf(format, sizeof format, "%.*s", length, next);
        snprintf(path, sizeof path, "%s.%s", out, format);
        next += length;
        FILE *one = fopen(path, "w");
        if (!one)
            return ls_fail(LS_CODE_MISSING, "--out", path, "cannot be written: %s",
                           strerror(errno));
        ls_status status = ls_verdict_write(format, document, one);
        const bool unwritten = ferror(one) != 0;
        if ((fclose(one) != 0 || unwritten) && !status)
            status = ls_fail(LS_CODE_MISSING, "--out", path, "not all of it could be written");
        if (status)
            return status;
    }
    return LS_OK;
}

static ls_status print_comparison(const ls_regress_task *task, const char *formats, const char *out,
                                  FILE *stream, int *exit_status)
{
    ls_regress regress;
    ls_status status = ls_regress_compare(task, &regress);
    if (!status) {
        json_t *document = ls_regress_document(task, &regress);
        status = write_formats(formats, out, document, stream);
        json_decref(document);
        *exit_status = ls_regress_exit(&regress);
        for (size_t i = 0; i < regress.count; i++)
            if (regress.cases[i].error)
                fprintf(stderr, "lockstep: regress: %s: %s\n", regress.cases[i].name,
                        regress.cases[i].error);
    }
    ls_regress_close(&regress);
    return status;
}

static ls_status check_operands(const ls_option_set *set, const char *mode, size_t wanted)
{
    if (set->operand_count == wanted)
        return LS_OK;
    if (set->operand_count > wanted)
        return ls_fail(LS_CODE_USAGE, "argument", set->operands[wanted],
                       "unexpected; lockstep regress %s", mode);
    return ls_fail(LS_CODE_USAGE, "regress", "command line",
                   "%zu of %zu arguments are given; "
                   "lockstep regress %s",
                   set->operand_count, wanted, mode);
}

static ls_status perform(const ls_option_set *set, ls_regress_task *task, FILE *stream,
                         int *exit_status)
{
    const char *format = ls_option_set_text(set, "format", "table");
    const char *calibrate = ls_option_set_text(set, "calibrate", NULL);
    const char *good = ls_option_set_text(set, "bisect", NULL);
    const char *build = ls_option_set_text(set, "build", NULL);
    int64_t n;
    if (!good != !build)
        return ls_fail(LS_CODE_USAGE, "option", good ? "--bisect" : "--build",
                       "goes with the other; lockstep regress --bisect GOOD BAD --build COMMAND");
    if (good) {
        LS_TRY(check_operands(set, "--bisect GOOD BAD --build COMMAND [OPTIONS]", 1));
        const ls_bisection bisection = {good, set->operands[0], build, format};
        return ls_regress_bisect(task, &bisection, stream, exit_status);
    }
    if (calibrate) {
        LS_TRY(check_operands(set, "--calibrate N PROGRAM [OPTIONS]", 1));
        if (!ls_parse_integer(calibrate, 1, 100000, &n))
            return ls_fail(LS_CODE_USAGE, "--calibrate", calibrate,
                           "is no number of comparisons; 1 to 100000");
        task->side[LS_BASE] = task->side[LS_NEW] = set->operands[0];
        return ls_regress_calibrate(task, (size_t)n, format, stream);
    }
    LS_TRY(check_operands(set, "BASE NEW [OPTIONS]", 2));
    for (int side = 0; side < LS_SIDES; side++)
        task->side[side] = set->operands[side];
    return print_comparison(task, format, ls_option_set_text(set, "out", NULL), stream,
                            exit_status);
}

/* Writes to --out; a file that is not whole does not stay. */
static ls_status perform_into(const ls_option_set *set, ls_regress_task *task, int *exit_status)
{
    const char *path = ls_option_set_text(set, "out", NULL);
    if (!path || strchr(ls_option_set_text(set, "format", "table"), ','))
        return perform(set, task, stdout, exit_status);
    FILE *stream = fopen(path, "w");
    if (!stream)
        return ls_fail(LS_CODE_MISSING, "--out", path, "cannot be written: %s", strerror(errno));
    ls_status status = perform(set, task, stream, exit_status);
    const bool unwritten = ferror(stream) != 0;
    if (fclose(stream) != 0 || unwritten)
        status = ls_status_first(
            status, ls_fail(LS_CODE_MISSING, "--out", path, "not all of it could be written"));
    struct stat facts;
    if (status && stat(path, &facts) == 0 && S_ISREG(facts.st_mode))
        remove(path);
    return status;
}

/* "md", or a list with --out. */
static ls_status check_formats(const ls_option_set *set)
{
    const char *formats = ls_option_set_text(set, "format", "table");
    char one[16];
    for (const char *next = formats; *next; next += strspn(next, ",")) {
        const int length = (int)strcspn(next, ",");
        snprintf(one, sizeof one, "%.*s", length, next);
        LS_TRY(ls_verdict_check(one));
        next += length;
    }
    if (strchr(formats, ',') && ls_option_set_find(set, "out")->count == 0)
        return ls_fail(LS_CODE_USAGE, "--format", formats,
                       "several formats go to files; --out NAME writes NAME.FORMAT");
    return LS_OK;
}

/* Drops "--", which may stand before the options of run. */
static int without_dashes(int argc, char **argv, char **out)
{
    int count = 0;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--") != 0)
            out[count++] = argv[i];
    return count;
}

ls_status ls_command_regress(int argc, char **argv, int *exit_status)
{
    ls_option_set set;
    ls_row_filter *where = NULL;
    ls_regress_task task = {.seed = ls_clock_ns()};
    char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    if (!arguments)
        return ls_fail_memory("options", 0);
    ls_status status = ls_option_set_open(LS_FOR_REGRESS | LS_FOR_RUN, &set);
    if (!status)
        status = ls_option_set_read(&set, without_dashes(argc, argv, arguments), arguments, 2);
    free(arguments);
    if (!status)
        status = check_formats(&set);
    if (!status)
        status = read_own(&set, &task, &where);
    if (!status)
        status = collect_options(&set, &task);
    ls_interrupt_install();
    if (!status)
        status = perform_into(&set, &task, exit_status);
    for (size_t i = 0; i < task.option_count; i++)
        free(task.options[i]);
    free(task.options);
    ls_row_filter_close(where);
    ls_option_set_close(&set);
    return status;
}
