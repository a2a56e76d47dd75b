/* SPDX-License-Identifier: MIT */
/*
 * Options: see options.h. Arguments and plan fill sets of texts; from them options of the whole
 * command are set in the request, and cases are made (cases.h).
 */
#include "bench/cli/options.h"

#include "bench/cli/cases.h"
#include "bench/cli/option_table.h"
#include "bench/output/results_db.h"
#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ls_request_parsing request_parsing;

static void default_case(ls_case *one, bool verify, const ls_processes *processes)
{
    memset(one, 0, sizeof *one); /* padding too: cases are compared as bytes */
    memcpy(one->model, "mlp", sizeof "mlp");
    one->strategy = &ls_strategy_single;
    memcpy(one->devices, "1", sizeof "1");
    memcpy(one->allreduce, "auto", sizeof "auto");
    one->bucket_bytes = -1;
    one->flip_device = -1;
    one->delay_rank = -1;
    memcpy(one->comm, processes->comm ? "mpi" : "thread",
           processes->comm ? sizeof "mpi" : sizeof "thread");
    one->batch = -1;
    one->steps = 100;
    one->epochs = -1;
    one->warmup = 10;
    one->learning_rate = -1;
    one->seed = 1;
    one->shuffle = true;
    one->micro_shards = -1;
    one->gate_steps = verify ? -1 : 10;
    one->capture = true;
    one->ranks = processes->size;
}

static ls_status default_request(bool verify, const ls_processes *processes, FILE *err,
                                 ls_request **out)
{
    ls_request *request = calloc(1, sizeof *request);
    if (!request)
        return ls_fail_memory("options", sizeof *request);
    request->verify = verify;
    request->blocks = 5;
    request->waterfall = true;
    request->trace_steps = 3;
    request->cores_per_device = 1;
    request->logical_gpus = 1;
    request->timeout_ns = 20000000000u;
    request->max_time_ns = 60000000000u;
    request->progress = -1;
    request->log = (ls_log){err, LS_LOG_NORMAL};
    request->format = strdup("table");
    request->results = strdup(LS_RESULTS_DEFAULT);
    request->cases = malloc(sizeof *request->cases);
    request->given = calloc(1, sizeof *request->given);
    request->plan = calloc(1, sizeof *request->plan);
    *out = request;
    if (!request->format || !request->results || !request->cases || !request->given ||
        !request->plan)
        return ls_fail_memory("options", sizeof *request->cases);
    request->processes = processes;
    default_case(request->cases, verify, processes);
    request->case_count = 1;
    return LS_OK;
}

void ls_request_free(ls_request *request)
{
    if (!request)
        return;
    if (request->given)
        ls_option_set_close(request->given);
    free(request->given);
    ls_plan_file_close(request->plan);
    free(request->cases);
    free(request->load);
    free(request->save);
    free(request->ps_record);
    free(request->out);
    free(request->label);
    free(request->columns);
    free(request->results);
    free(request->format);
    free(request->command);
    free(request);
}

/* ---- Conflicts ------------------------------------------------------------------------------ */

static bool is_given(const request_parsing *parsing, const char *name)
{
    return ls_option_set_find(parsing->set, name)->count > 0;
}

static bool is_yes(const request_parsing *parsing, const char *name)
{
    return strcmp(ls_option_set_text(parsing->set, name, "no"), "yes") == 0;
}

static ls_status check_conflicts(const request_parsing *parsing)
{
    static const struct {
        const char *name, *other;
        bool given; /* the other one in any way, not only with yes */
    } pairs[] = {{"quiet", "verbose", false},
                 {"quiet", "progress", false},
                 {"until-precision", "epochs", true}, /* it trains as long as it takes */
                 {"until-precision", "save", true},
                 {"until-precision", "ps-record", true},
                 {"dry-run", "columns", true}, /* rows have keys, and there are none */
                 {"print-step", "columns", true},
                 {"resume", "load", true}, /* a row does not have what these are */
                 {"resume", "save", true},
                 {"resume", "ps-record", true}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *name = pairs[i].name, *other = pairs[i].other;
        const ls_setting setting = ls_parsing_setting(parsing, parsing->set, name);
        if (is_given(parsing, name) && strcmp(ls_option_set_text(parsing->set, name, ""), "no") &&
            (pairs[i].given ? is_given(parsing, other) : is_yes(parsing, other)))
            return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                     "conflicts with --%s; give one of them", other);
    }
    const ls_setting most = ls_parsing_setting(parsing, parsing->set, "max-time");
    if (is_given(parsing, "max-time") && !is_given(parsing, "until-precision"))
        return ls_setting_refuse(&most, LS_CODE_USAGE,
                                 "ends --until-precision, which is not given; give both or none");
    const ls_setting resume = ls_parsing_setting(parsing, parsing->set, "resume");
    if (is_yes(parsing, "resume") && !parsing->request->results)
        return ls_setting_refuse(&resume, LS_CODE_USAGE,
                                 "looks for rows in the results, and --results is none; a file");
    return LS_OK;
}

/* ---- The request ---------------------------------------------------------------------------- */

static ls_status set_request(const request_parsing *parsing, size_t index)
{
    size_t count;
    const ls_option *option = &ls_option_table(&count)[index];
    const ls_option_given *given = &parsing->set->given[index];
    ls_setting setting = ls_parsing_setting(parsing, parsing->set, option->name);
    if (option->sweeps)
        return LS_OK;
    setting.text = given->values[0].text;
    setting.request = parsing->request;
    return option->set(&setting);
}

static ls_status build_request(request_parsing *parsing)
{
    size_t count;
    ls_option_table(&count);
    const char *path = ls_option_set_text(parsing->set, "plan", NULL);
    if (path)
        LS_TRY(ls_plan_read(path, parsing->set, parsing->plan));
    for (size_t i = 0; i < count; i++)
        if (parsing->set->given[i].count > 0)
            LS_TRY(set_request(parsing, i));
    LS_TRY(check_conflicts(parsing));
    if (parsing->request->log.level == LS_LOG_QUIET)
        parsing->request->progress = 0;
    return ls_cases_build(parsing);
}

/* ---- The command line as text -------------------------------------------------------------- */

/* Writes an argument as a shell would take it back. */
static void write_quoted(FILE *stream, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=.,:/+@%";
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

ls_status ls_command_line(int argc, char **argv, char **out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return ls_fail_memory("options", 0);
    fputs("lockstep", stream);
    for (int i = 0; i < argc; i++) {
        fputc(' ', stream);
        write_quoted(stream, argv[i]);
    }
    if (fclose(stream) != 0) {
        free(text);
        return ls_fail_memory("options", size);
    }
    *out = text;
    return LS_OK;
}

ls_status ls_request_parse(int argc, char **argv, const ls_option_names *names, FILE *err,
                           ls_request **out)
{
    const bool verify = strcmp(argv[0], "verify") == 0, trace = strcmp(argv[0], "trace") == 0;
    const unsigned command = verify  ? LS_FOR_VERIFY
                             : trace ? LS_FOR_RUN | LS_FOR_TRACE
                                     : LS_FOR_RUN;
    static const ls_processes alone = {.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
    request_parsing parsing = {.names = names};
    ls_status status = default_request(verify, names->processes ? names->processes : &alone, err,
                                       &parsing.request);
    if (!status)
        status = ls_option_set_open(command, parsing.request->given);
    if (!status)
        parsing.request->trace = trace;
    parsing.set = parsing.request ? parsing.request->given : NULL;
    parsing.plan = parsing.request ? parsing.request->plan : NULL;
    if (!status)
        status = ls_option_set_read(parsing.set, argc, argv, 0);
    if (!status)
        status = ls_command_line(argc, argv, &parsing.request->command);
    if (!status)
        status = build_request(&parsing);
    if (status) {
        ls_request_free(parsing.request);
        return status;
    }
    *out = parsing.request;
    return LS_OK;
}
