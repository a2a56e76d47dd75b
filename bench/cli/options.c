/* SPDX-License-Identifier: MIT */
/*
 * Options: see options.h. Arguments and plan fill sets of texts; the texts set the request's
 * options, which apply to the whole command, and make cases (cases.c).
 */
#include "bench/cli/options.h"

#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Sets defaults from the table, if the text there is a value: "the model's" is not, and leaves
 * zero. Texts have no such default; nor has `memory`, whose default depends on the devices' kind.
 */
static void set_defaults(ls_request *request, unsigned command)
{
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name; i++) {
        ls_setting setting = {.option = &table[i],
                              .text = table[i].fallback,
                              .processes = request->processes,
                              .one = table[i].sweeps ? request->cases : NULL,
                              .request = table[i].sweeps ? NULL : request};
        if (table[i].declared || table[i].set == ls_set_text || table[i].whole ||
            table[i].set == ls_set_memory)
            continue;
        ls_status_free(table[i].set(&setting));
        setting.text = ls_option_fallback(&table[i], command); /* a list, as `all`, sets nothing */
        if (setting.text != table[i].fallback)
            ls_status_free(table[i].set(&setting));
    }
    request->max_time_ns = 60000000000u;
    request->cases->ranks = request->processes->size;
    if (request->verify)
        request->cases->gate_steps = -1;
}

static ls_status default_request(unsigned command, const ls_processes *processes, FILE *err,
                                 ls_request **out)
{
    ls_request *request;
    LS_TRY(ls_allocate("options", &request, 1, sizeof *request));
    *out = request;
    request->verify = command & LS_FOR_VERIFY;
    request->predict = command & (LS_FOR_PREDICT | LS_FOR_ADVISE);
    request->advise = command & LS_FOR_ADVISE;
    request->trace = command & LS_FOR_TRACE;
    request->log = (ls_log){err, LS_LOG_NORMAL};
    /* including padding: compared as bytes */
    LS_TRY(ls_allocate("options", &request->cases, 1, sizeof *request->cases));
    LS_TRY(ls_allocate("options", &request->given, 1, sizeof *request->given));
    LS_TRY(ls_allocate("options", &request->plan, 1, sizeof *request->plan));
    request->processes = processes;
    request->case_count = 1;
    set_defaults(request, command);
    return LS_OK;
}

/* Whether the field of the request is a text that it owns. */
static bool is_text(const ls_option *option)
{
    return option->set == ls_set_text || option->set == ls_set_columns ||
           option->set == ls_set_format || option->set == ls_set_results;
}

void ls_request_free(ls_request *request)
{
    const ls_option *table = ls_option_table();
    if (!request)
        return;
    for (size_t i = 0; table[i].name; i++)
        if (!table[i].sweeps && is_text(&table[i]))
            free(*(char **)((char *)request + table[i].offset));
    if (request->given)
        ls_option_set_close(request->given);
    free(request->given);
    ls_experiment_close(request->plan);
    free(request->cases);
    free(request->command);
    free(request->notes);
    free(request);
}

/* ---- Conflicts ------------------------------------------------------------------------------ */

static ls_status check_conflicts(const ls_request *request)
{
    static const struct {
        const char *name, *other;
        bool given; /* excludes the other one whatever its value */
    } excluded[] = {
#define EXCLUDED(...) {__VA_ARGS__},
#include "bench/cli/option_entries.def"
    };
    static const struct {
        const char *name, *value; /* value: NULL means any */
        const char *other, *why;
    } needed[] = {
#define NEEDED(...) {__VA_ARGS__},
#include "bench/cli/option_entries.def"
    };
    const ls_option_set *set = request->given;
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++) {
        const char *name = excluded[i].name, *other = excluded[i].other;
        const ls_setting setting = ls_request_setting(request, set, name);
        if (strcmp(ls_option_set_text(set, name, "no"), "no") != 0 &&
            (excluded[i].given ? ls_option_set_has(set, other) : ls_option_set_yes(set, other)))
            return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                     "cannot be used with --%s; remove one of the two", other);
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *text = ls_option_set_text(set, needed[i].name, NULL), *value = needed[i].value;
        const ls_setting setting = ls_request_setting(request, set, needed[i].name);
        if (text && (!value || strcmp(text, value) == 0) &&
            !ls_option_set_has(set, needed[i].other))
            return ls_setting_refuse(&setting, LS_CODE_USAGE, "%s", needed[i].why);
    }
    const ls_setting resume = ls_request_setting(request, set, "resume");
    if (ls_option_set_yes(set, "resume") && !request->results)
        return ls_setting_refuse(&resume, LS_CODE_USAGE,
                                 "looks for earlier rows in a results file, but --results none is "
                                 "given; use --results FILE");
    return LS_OK;
}

/* ---- The request ---------------------------------------------------------------------------- */

/* Says which keys of the plan's cases the command line replaces: a line for each option. */
static void tell_replaced(const ls_request *request)
{
    const ls_experiment_replaced *all = request->plan->replaced;
    for (size_t i = 0; i < request->plan->replaced_count; i++) {
        size_t before = 0, after = 0;
        char more[64] = "";
        for (size_t k = 0; k < request->plan->replaced_count; k++)
            if (k != i && strcmp(all[k].option, all[i].option) == 0)
                (*(k < i ? &before : &after))++;
        if (before > 0)
            continue;
        if (after > 0)
            snprintf(more, sizeof more, " and %zu more values of this plan", after);
        ls_log_line(&request->log, LS_LOG_NORMAL,
                    "plan: %s: --%s of the command line replaces this value%s", all[i].origin,
                    all[i].by, more);
    }
}

static ls_status build_request(ls_request *request)
{
    const ls_option *table = ls_option_table();
    const char *path = ls_option_set_text(request->given, "plan", NULL);
    if (path)
        LS_TRY(ls_experiment_read(path, request->given, request->plan));
    for (size_t i = 0; table[i].name; i++) {
        const ls_option_given *given = &request->given->given[i];
        ls_setting setting = ls_request_setting(request, request->given, table[i].name);
        if (!given->count || table[i].sweeps)
            continue;
        setting.text = given->values[0].text;
        setting.request = request;
        LS_TRY(table[i].set(&setting));
    }
    tell_replaced(request);
    LS_TRY(check_conflicts(request));
    if (request->log.level == LS_LOG_QUIET)
        request->progress = 0;
    return ls_cases_build(request);
}

/* ---- What cases were given several values of ------------------------------------------------- */

/* Adds the fields of `case` of options with more than `most` values. */
static void add_swept(json_t *out, const ls_option_set *set, size_t most)
{
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name && set && set->given; i++) {
        char field[64];
        if (set->given[i].count > most)
            json_object_set_new(out, ls_declared_field(table[i].name, field), json_true());
    }
}

json_t *ls_request_swept(const ls_request *request)
{
    json_t *out = json_object();
    add_swept(out, request->given, 1);
    for (size_t i = 0; request->plan && i < request->plan->cases.count; i++)
        add_swept(out, &request->plan->cases.items[i].set, 0);
    return out;
}

/* ---- The command line as text --------------------------------------------------------------- */

/* Quoted for a shell where it needs that. */
static void write_quoted(FILE *stream, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=.,:/+@%";
    ls_auto char *shown = ls_text_shown(text, LS_ESCAPE_LINE);
    if (shown && strcmp(shown, text) != 0) {
        /* as bash, ksh and zsh read what a terminal would not show */
        fputs("$'", stream);
        for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
            if (*c < ' ' || *c >= 0x7f)
                fprintf(stream, "\\x%02x", *c);
            else
                fprintf(stream, *c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
        }
        fputc('\'', stream);
        return;
    }
    if (*text && text[strspn(text, plain)] == 0) {
        fputs(text, stream);
        return;
    }
    fputc('\'', stream);
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", stream);
        else
            fputc(*c, stream);
    }
    fputc('\'', stream);
}

void ls_write_option(FILE *stream, const ls_option *option, const char *text)
{
    ls_auto char *value = NULL;
    size_t size = 0;
    FILE *whole = open_memstream(&value, &size);
    if (!whole)
        return;
    ls_option_put_value(whole, option, text);
    if (fclose(whole) == 0) { /* what begins with "--" is an option unless it follows "=" */
        fprintf(stream, " --%s%c", option->name, value[0] == '-' ? '=' : ' ');
        write_quoted(stream, value);
    }
}

ls_status ls_command_line(int argc, char **argv, char **out)
{
    size_t size = 0;
    FILE *stream = open_memstream(out, &size);
    if (!stream)
        return ls_fail_memory("options", 0);
    fputs("lockstep", stream);
    for (int i = 0; i < argc; i++) {
        fputc(' ', stream);
        write_quoted(stream, argv[i]);
    }
    return fclose(stream) == 0 ? LS_OK : ls_fail_memory("options", size);
}

static ls_status parse(int argc, char **argv, unsigned command, ls_request *request)
{
    const ls_option *strategy = ls_option_find("strategy", command);
    LS_TRY(ls_option_set_open(command, request->given));
    LS_TRY(ls_option_set_read(request->given, argc, argv, 0));
    if (request->advise && !ls_option_set_has(request->given, "strategy"))
        LS_TRY(ls_option_set_append(request->given, strategy, ls_option_fallback(strategy, command),
                                    NULL));
    LS_TRY(ls_command_line(argc, argv, &request->command));
    return build_request(request);
}

ls_status ls_request_parse(int argc, char **argv, const ls_processes *processes, FILE *err,
                           ls_request **out)
{
    const unsigned command = strcmp(argv[0], "verify") == 0    ? LS_FOR_VERIFY
                             : strcmp(argv[0], "trace") == 0   ? LS_FOR_RUN | LS_FOR_TRACE
                             : strcmp(argv[0], "predict") == 0 ? LS_FOR_RUN | LS_FOR_PREDICT
                             : strcmp(argv[0], "advise") == 0  ? LS_FOR_RUN | LS_FOR_ADVISE
                                                               : LS_FOR_RUN;
    static const ls_processes alone = {.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
    ls_request *request = NULL;
    char *notes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&notes, &size);
    if (!stream)
        return ls_fail_memory("options", 0);
    ls_status status = default_request(command, processes ? processes : &alone, stream, &request);
    if (!status)
        status = parse(argc, argv, command, request);
    if (fclose(stream) != 0 && !status)
        status = ls_fail_memory("options", size);
    if (status) {
        free(notes);
        ls_request_free(request);
        return status;
    }
    request->log.stream = err;
    request->notes = notes;
    *out = request;
    return LS_OK;
}

void ls_request_tell(const ls_request *request)
{
    FILE *stream = request->log.stream;
    if (*request->notes) /* first clears a line of progress, as ls_log_line does */
        fprintf(stream, "%s%s", isatty(fileno(stream)) ? "\033[K" : "", request->notes);
}
