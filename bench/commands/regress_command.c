/* SPDX-License-Identifier: MIT */
/*
 * `lockstep regress`: reads its options, passes the options of `run` on, and prints the report.
 * Exit status: 0 none is slower or worse, 1 one is, 4 some are undecided, 3 not comparable.
 */
#include "bench/cli/option_table.h"
#include "bench/commands/command.h"
#include "bench/output/results_db.h"
#include "bench/output/standard_output.h"
#include "common/base/whole_file.h"
#include "bench/regress/regress.h"
#include "bench/train/interrupt.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Values --------------------------------------------------------------------------------- */

/* Reads the next item of a list with commas; false after the last, or for NULL. */
static bool next_of(const char **list, char *one, size_t size)
{
    if (!*list)
        return false;
    *list += strspn(*list, ",");
    const size_t length = strcspn(*list, ",");
    snprintf(one, size, "%.*s", (int)length, *list);
    *list += length;
    return length > 0;
}

/* "3%" or "3": a fraction above 0 and below 1. */
static bool read_percent(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end) / 100;
    return *text && strchr("0123456789.", *text) && (!*end || strcmp(end, "%") == 0) && *out > 0 &&
           *out < 1;
}

static ls_status read_fail_on(const char *list, ls_regress_task *task)
{
    for (char one[256]; next_of(&list, one, sizeof one); task->fail_count++) {
        const size_t name = strcspn(one, "=");
        ls_fail_key *key = &task->fail_on[task->fail_count];
        if (strncmp(one, "undecided", name) == 0 && name == strlen("undecided")) {
            if (!one[name] || !ls_parse_integer(one + name + 1, 1, 1000, &task->undecided))
                return ls_fail(
                    LS_CODE_USAGE, "--fail-on", one,
                    "this is not valid; use --fail-on undecided=N with N from 1 to 1000, "
                    "which fails a case after N undecided comparisons in a row");
            task->fail_count--;
            continue;
        }
        if (task->fail_count == LS_FAIL_ON_MOST)
            return ls_fail(LS_CODE_USAGE, "--fail-on", one,
                           "--fail-on has more than %d keys; give fewer keys", LS_FAIL_ON_MOST);
        LS_TRY(ls_row_key_find("--fail-on", one, name, &key->path));
        if (one[name] && !read_percent(one + name + 1, &key->tolerance))
            return ls_fail(LS_CODE_USAGE, "--fail-on", one,
                           "'%s' is not valid; give KEY, or KEY=5%% to allow a change of 5%%",
                           one + name + 1);
    }
    return LS_OK;
}

static ls_status read_own(const ls_option_set *set, ls_regress_task *task)
{
    const char *threshold = ls_option_set_text(set, "threshold", "3%");
    const char *max_time = ls_option_set_text(set, "max-time", NULL);
    if (!read_percent(threshold, &task->threshold))
        return ls_fail(
            LS_CODE_USAGE, "--threshold", threshold,
            "this is not valid; give a percentage above 0%% and below 100%%, such as 3%%");
    if (max_time && (!ls_parse_duration(max_time, &task->max_ns) || task->max_ns < 1000000000))
        return ls_fail(LS_CODE_USAGE, "--max-time", max_time,
                       "this is not valid; give a time of 1s or more, such as 60s or 10min");
    LS_TRY(read_fail_on(ls_option_set_text(set, "fail-on", NULL), task));
    LS_TRY(
        ls_selection_open(ls_option_set_text(set, "where", NULL), NULL, NULL, NULL, &task->where));
    task->instructions = ls_option_set_yes(set, "instructions");
    task->results = ls_option_set_text(set, "results", LS_RESULTS_DEFAULT);
    if (strcmp(task->results, "none") == 0)
        task->results = NULL;
    const char *progress = ls_option_set_text(set, "progress", "auto");
    task->quiet = ls_option_set_yes(set, "quiet") || strcmp(progress, "no") == 0 ||
                  (strcmp(progress, "yes") != 0 && !isatty(2));
    return LS_OK;
}

/* ---- Options of run ------------------------------------------------------------------------- */

/* "--name=a,b" from all values given; owned by the caller. */
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

/* Whether a plan has a key for an option; the programs check everything else in it. */
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

static ls_status collect_options(const ls_option_set *set, ls_regress_task *task)
{
    static const char *const unfit[] = {"dry-run", "print-step", "resume", "columns", "save"};
    const ls_option *table = ls_option_table();
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        char dashed[32];
        snprintf(dashed, sizeof dashed, "--%s", unfit[i]);
        if (ls_option_set_has(set, unfit[i]))
            return ls_fail(LS_CODE_USAGE, "option", dashed,
                           "cannot be used with lockstep regress; remove this option");
    }
    LS_TRY(ls_allocate("options", &task->options, LS_OPTIONS_MOST, sizeof *task->options));
    for (size_t i = 0; table[i].name; i++) {
        if (set->given[i].count == 0 || (table[i].commands & LS_FOR_REGRESS))
            continue;
        char *text = join_values(&table[i], &set->given[i]);
        if (!text)
            return ls_fail_memory("options", 0);
        task->options[task->option_count++] = text;
    }
    const char *plan = ls_option_set_text(set, "plan", NULL);
    task->fixed_steps = plan || ls_option_set_has(set, "steps") || ls_option_set_has(set, "epochs");
    task->plan_gate = plan_mentions(plan, "gate-steps");
    task->plan_blocks = plan_mentions(plan, "blocks");
    return LS_OK;
}

/* ---- What is done --------------------------------------------------------------------------- */

/* The options of the command. */
typedef struct request {
    const ls_option_set *set;
    ls_regress_task *task;
    const char *formats, *out; /* out: NULL means standard output */
    char format[16];           /* the one that is looked at, and where it goes: */
    char path[1024];           /* OUT, or of several OUT.md, OUT.json */
    const ls_format *form;     /* for calibrate */
    ls_regress regress;
    json_t *document;    /* of the comparison; NULL if none yet */
    int exit_status;     /* .. and its exit status */
    json_t *calibration; /* NULL means something else was asked for */
} request;

/* The next format; false after the last. */
static bool next_format(request *r, const char **list)
{
    const bool several = strchr(r->formats, ',');
    if (!next_of(list, r->format, sizeof r->format))
        return false;
    snprintf(r->path, sizeof r->path, "%s%s%s", r->out ? r->out : "", several ? "." : "",
             several ? r->format : "");
    return true;
}

static ls_status write_format(FILE *stream, void *context)
{
    const request *r = context;
    if (r->calibration)
        return ls_rows_write(r->form, &ls_calibration_columns, r->calibration, stream);
    return ls_verdict_write(r->format, r->document, stream);
}

/* What takes hours is complete before a file is opened. */
static ls_status write_formats(request *r)
{
    for (const char *next = r->formats; next_format(r, &next);)
        LS_TRY(r->out ? ls_output_file("--out", r->path, write_format, r)
                      : write_format(ls_output(), r));
    return LS_OK;
}

/* The file of the JSON report; "" if none is written. */
static const char *report_of(request *r)
{
    for (const char *next = r->formats; r->out && next_format(r, &next);)
        if (strcmp(r->format, "json") == 0)
            return r->path;
    return "";
}

static ls_status perform(request *r)
{
    const ls_option_set *set = r->set;
    const char *calibrate = ls_option_set_text(set, "calibrate", NULL);
    const char *mode = calibrate ? "--calibrate N PROGRAM [NEW] [OPTIONS]" : "BASE NEW [OPTIONS]";
    const size_t least = calibrate ? 1 : 2;
    int64_t n = 0;
    for (size_t i = 0; i < set->operand_count; i++)
        if (r->out && ls_same_file(r->out, set->operands[i]))
            return ls_fail(
                LS_CODE_USAGE, "option --out", r->out,
                "this file is to be compared, and would be overwritten; name another file");
    if (set->operand_count > 2)
        return ls_fail(LS_CODE_USAGE, "argument", set->operands[2],
                       "unexpected argument; use lockstep regress %s", mode);
    if (set->operand_count < least)
        return ls_fail(LS_CODE_USAGE, "regress", "command line",
                       "%zu of %zu arguments are given; use lockstep regress %s",
                       set->operand_count, least, mode);
    r->task->side[LS_BASE] = set->operands[0];
    r->task->side[LS_NEW] = set->operands[set->operand_count - 1];
    if (!calibrate) {
        LS_TRY(ls_regress_compare(r->task, &r->regress));
        if (r->task->undecided)
            LS_TRY(ls_regress_count_undecided(report_of(r), r->task->undecided, &r->regress));
        LS_TRY(ls_regress_document(r->task, &r->regress, &r->document, &r->exit_status));
        LS_TRY(write_formats(r));
        ls_regress_tell_error(r->document);
        return LS_OK;
    }
    if (!ls_parse_integer(calibrate, 1, 100000, &n))
        return ls_fail(LS_CODE_USAGE, "--calibrate", calibrate,
                       "this is not a number of comparisons; give 1 to 100000");
    if (ls_regress_is_file(r->task->side[LS_NEW]))
        return ls_fail(
            LS_CODE_USAGE, "--calibrate", r->task->side[LS_NEW],
            "this is a results file, but --calibrate measures a program; name a program in "
            "place of this file");
    LS_TRY(ls_regress_calibrate(r->task, (size_t)n, &r->calibration));
    return write_formats(r);
}

/* "md", or a list with --out; calibrate has the formats of rows. */
static ls_status check_formats(request *r)
{
    const char *good = ls_option_set_text(r->set, "bisect", NULL);
    if (good || ls_option_set_text(r->set, "build", NULL))
        return ls_fail(LS_CODE_USAGE, good ? "--bisect" : "--build", good,
                       "lockstep regress cannot bisect commits; in the folder of lockstep's "
                       "sources, run ci/bisect.sh GOOD BAD --build COMMAND [OPTIONS]");
    if (ls_option_set_text(r->set, "calibrate", NULL))
        return ls_format_find(r->formats, &r->form);
    for (const char *next = r->formats; next_format(r, &next);)
        LS_TRY(ls_verdict_check(r->format));
    if (strchr(r->formats, ',') && !r->out)
        return ls_fail(LS_CODE_USAGE, "--format", r->formats,
                       "several formats need several files; add --out NAME, which writes a file "
                       "NAME.FORMAT for each");
    return LS_OK;
}

static ls_status read_request(request *r)
{
    r->formats = ls_option_set_text(r->set, "format", "table");
    r->out = ls_option_set_text(r->set, "out", NULL);
    LS_TRY(check_formats(r));
    LS_TRY(read_own(r->set, r->task));
    if (r->task->undecided && !*report_of(r)) /* which counts */
        return ls_fail(LS_CODE_USAGE, "--fail-on", "undecided",
                       "undecided=N reads the previous comparison's report from the file of --out; "
                       "use --format json --out FILE, with the same FILE each time");
    LS_TRY(collect_options(r->set, r->task));
    for (const char *next = r->formats; r->out && next_format(r, &next);)
        LS_TRY(ls_file_writable("--out", r->path, 0));
    return LS_OK;
}

ls_status ls_command_regress(const ls_invocation *in, int *exit_status)
{
    ls_regress_task task = {.seed = ls_clock_ns()};
    request r = {.set = in->set, .task = &task};
    ls_status status = read_request(&r);
    ls_interrupt_install();
    if (!status)
        status = perform(&r);
    *exit_status = r.exit_status;
    ls_regress_close(&r.regress);
    json_decref(r.document);
    json_decref(r.calibration);
    for (size_t i = 0; i < task.option_count; i++)
        free(task.options[i]);
    free(task.options);
    ls_selection_close(&task.where);
    return status;
}
