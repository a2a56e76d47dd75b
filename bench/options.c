/* SPDX-License-Identifier: MIT */
/*
 * Options: see options.h. Arguments and plan fill one set of texts; from it
 *   1. options of the whole command are set in the request;
 *   2. the list of cases starts as the defaults, and each swept option, in the order of the table,
 *      replaces every case that has the option by one case per value;
 *   3. a case that is there already, and one that its strategy cannot run, is left out;
 *   4. an option that concerns none of the cases left is refused.
 */
#include "bench/options.h"

#include "bench/option_set.h"
#include "bench/plan.h"
#include "bench/results_db.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CASES_CAPACITY = 4096 };

/* A command line on its way to a request. */
typedef struct request_parsing {
    ls_option_set set;
    const ls_option_names *names;
    FILE *err;
    ls_request *request;
} request_parsing;

static void default_case(ls_case *one, bool verify, const ls_processes *processes)
{
    memset(one, 0, sizeof *one); /* padding too: cases are compared as bytes */
    memcpy(one->model, "mlp", sizeof "mlp");
    memcpy(one->strategy, "single", sizeof "single");
    memcpy(one->devices, "1", sizeof "1");
    memcpy(one->variable_device, "/cpu:0", sizeof "/cpu:0");
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
    one->augment = true;
    one->colocate_gradients = true;
    one->microbatches = 4;
    one->hybrid_replicas = 2;
    one->local_sgd_every = 10;
    one->ps_servers = 1;
    one->ps_staleness = 2;
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
    request->cores_per_device = 1;
    request->logical_gpus = 1;
    request->timeout_ns = 20000000000u;
    request->progress = -1;
    request->log = (ls_log){err, LS_LOG_NORMAL};
    request->format = strdup("table");
    request->results = strdup(LS_RESULTS_DEFAULT);
    request->cases = malloc(sizeof *request->cases);
    *out = request;
    if (!request->format || !request->results || !request->cases)
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
    free(request->cases);
    free(request->load);
    free(request->save);
    free(request->ps_record);
    free(request->label);
    free(request->results);
    free(request->format);
    free(request->command);
    free(request);
}

/* ---- Conflicts, and options that no case has ----------------------------------------------- */

static ls_setting setting_of(const request_parsing *parsing, const char *name)
{
    const ls_option_given *given = ls_option_set_find(&parsing->set, name);
    ls_setting setting = {.option = ls_option_find(name, strlen(name)), .names = parsing->names};
    if (given->count > 0)
        setting.origin = given->values[0].origin;
    return setting;
}

static bool is_given(const request_parsing *parsing, const char *name)
{
    return ls_option_set_find(&parsing->set, name)->count > 0;
}

static bool is_yes(const request_parsing *parsing, const char *name)
{
    return strcmp(ls_option_set_text(&parsing->set, name, "no"), "yes") == 0;
}

static ls_status refuse_pair(const request_parsing *parsing, const char *name, const char *other)
{
    ls_setting setting = setting_of(parsing, name);
    return ls_setting_refuse(&setting, LS_CODE_USAGE, "conflicts with --%s; give one of them",
                             other);
}

static ls_status check_conflicts(const request_parsing *parsing)
{
    if (is_given(parsing, "steps") && is_given(parsing, "epochs"))
        return refuse_pair(parsing, "steps", "epochs");
    if (is_yes(parsing, "quiet") && is_yes(parsing, "verbose"))
        return refuse_pair(parsing, "quiet", "verbose");
    if (is_yes(parsing, "quiet") && is_yes(parsing, "progress"))
        return refuse_pair(parsing, "quiet", "progress");
    return LS_OK;
}

static ls_status check_concerned(const request_parsing *parsing)
{
    size_t count;
    const ls_option *table = ls_option_table(&count);
    const ls_request *request = parsing->request;
    for (size_t i = 0; i < count; i++) {
        if (parsing->set.given[i].count == 0 || !table[i].applies)
            continue;
        size_t with = 0;
        for (size_t c = 0; c < request->case_count; c++)
            with += table[i].applies(&request->cases[c]);
        ls_setting setting = setting_of(parsing, table[i].name);
        if (with == 0)
            return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                     "concerns no case of this command; it concerns %s",
                                     table[i].concerns);
    }
    return LS_OK;
}

/* ---- The request and the product of its lists ---------------------------------------------- */

static ls_status set_request(const request_parsing *parsing, size_t index)
{
    size_t count;
    const ls_option *option = &ls_option_table(&count)[index];
    const ls_option_given *given = &parsing->set.given[index];
    ls_setting setting = setting_of(parsing, option->name);
    if (option->sweeps)
        return LS_OK;
    setting.text = given->values[0].text;
    setting.request = parsing->request;
    return option->set(&setting);
}

/* Replaces each case that has the option by one case per value. */
static ls_status sweep(const request_parsing *parsing, size_t index)
{
    size_t count, used = 0;
    const ls_option *option = &ls_option_table(&count)[index];
    const ls_option_given *given = &parsing->set.given[index];
    ls_request *request = parsing->request;
    ls_setting setting = setting_of(parsing, option->name);
    size_t most = request->case_count * given->count;
    if (given->count > CASES_CAPACITY || most > CASES_CAPACITY)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "more than %d cases in the product of the lists; shorter lists, "
                                 "or several commands",
                                 CASES_CAPACITY);
    ls_case *cases = malloc(most * sizeof *cases);
    if (!cases)
        return ls_fail_memory("cases", most * sizeof *cases);
    ls_status status = LS_OK;
    for (size_t c = 0; c < request->case_count; c++) {
        bool has = !option->applies || option->applies(&request->cases[c]);
        for (size_t v = 0; v < (has ? given->count : 1) && !status; v++) {
            memcpy(&cases[used], &request->cases[c], sizeof *cases);
            setting.one = &cases[used++];
            setting.text = given->values[v].text;
            setting.origin = given->values[v].origin;
            if (has)
                status = option->set(&setting);
        }
    }
    free(request->cases);
    request->cases = cases;
    request->case_count = used;
    return status;
}

static void fill_defaults(ls_request *request)
{
    for (size_t i = 0; i < request->case_count; i++) {
        ls_case *one = &request->cases[i];
        if (one->reduce == LS_REDUCE_EXACT && one->micro_shards < 0)
            one->micro_shards = 16;
    }
}

static void describe_case(const ls_case *one, char *text, size_t size)
{
    snprintf(text, size, "%s, --strategy %s --devices %s --ranks %d", one->model, one->strategy,
             one->devices, one->ranks);
}

static bool seen_before(const ls_case *cases, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (memcmp(&cases[i], &cases[index], sizeof *cases) == 0)
            return true;
    return false;
}

static ls_status drop_repeated(const request_parsing *parsing)
{
    ls_request *request = parsing->request;
    size_t kept = 0;
    for (size_t i = 0; i < request->case_count; i++) {
        memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
        if (!seen_before(request->cases, kept)) {
            kept++;
            continue;
        }
        char text[1024];
        describe_case(&request->cases[kept], text, sizeof text);
        fprintf(parsing->err, "lockstep: case: %s: listed twice; it runs once\n", text);
    }
    request->case_count = kept;
    return LS_OK;
}

/*
 * Leaves out the cases that their strategies cannot run. What is said about them is kept back
 * until one is found that can, so that a refusal of the whole command is one line.
 */
static ls_status drop_impossible(const request_parsing *parsing)
{
    ls_request *request = parsing->request;
    size_t count = request->case_count, kept = 0, said_size = 0;
    if (!parsing->names->check_case)
        return LS_OK;
    char *said = NULL;
    FILE *notes = open_memstream(&said, &said_size);
    if (!notes)
        return ls_fail_memory("cases", count);
    ls_status first = LS_OK;
    for (size_t i = 0; i < count && ls_status_code(first) <= LS_CODE_USAGE; i++) {
        memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
        ls_status status = parsing->names->check_case(&request->cases[kept], request);
        if (!status) {
            kept++;
            continue;
        }
        char text[1024];
        describe_case(&request->cases[kept], text, sizeof text);
        fprintf(notes, "lockstep: left out: %s: %s\n", text, ls_status_text(status));
        bool worse = ls_status_code(status) > LS_CODE_USAGE;
        first = worse ? ls_status_first(status, first) : ls_status_first(first, status);
    }
    fclose(notes);
    bool refused = kept == 0 || ls_status_code(first) > LS_CODE_USAGE;
    if (!refused && said)
        fputs(said, parsing->err);
    free(said);
    request->case_count = kept;
    if (refused)
        return first;
    ls_status_free(first);
    return LS_OK;
}

static ls_status build_request(request_parsing *parsing)
{
    size_t count;
    const ls_option *table = ls_option_table(&count);
    const char *path = ls_option_set_text(&parsing->set, "plan", NULL);
    if (path)
        LS_TRY(ls_plan_read(path, &parsing->set));
    for (size_t i = 0; i < count; i++)
        if (parsing->set.given[i].count > 0)
            LS_TRY(set_request(parsing, i));
    LS_TRY(check_conflicts(parsing));
    for (size_t i = 0; i < count; i++)
        if (parsing->set.given[i].count > 0 && table[i].sweeps)
            LS_TRY(sweep(parsing, i));
    fill_defaults(parsing->request);
    LS_TRY(drop_repeated(parsing));
    /* Before cases are left out: the lines about them are no part of a refusal. */
    LS_TRY(check_concerned(parsing));
    ls_setting save = setting_of(parsing, "save");
    if (parsing->request->save && parsing->request->case_count > 1)
        return ls_setting_refuse(&save, LS_CODE_USAGE,
                                 "%zu cases cannot be saved to one file; give one case, or leave "
                                 "it out",
                                 parsing->request->case_count);
    ls_setting record = setting_of(parsing, "ps-record");
    if (parsing->request->ps_record && parsing->request->case_count > 1)
        return ls_setting_refuse(&record, LS_CODE_USAGE,
                                 "%zu cases cannot be recorded in one file; give one case, or "
                                 "leave it out",
                                 parsing->request->case_count);
    return drop_impossible(parsing);
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

static ls_status join_command(int argc, char **argv, char **out)
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
    bool verify = strcmp(argv[0], "verify") == 0;
    static const ls_processes alone = {.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
    request_parsing parsing = {.names = names, .err = err};
    LS_TRY(ls_option_set_open(verify ? LS_FOR_VERIFY : LS_FOR_RUN, &parsing.set));
    ls_status status = ls_option_set_read(&parsing.set, argc, argv, 0);
    if (!status)
        status = default_request(verify, names->processes ? names->processes : &alone, err,
                                 &parsing.request);
    if (!status)
        status = join_command(argc, argv, &parsing.request->command);
    if (!status)
        status = build_request(&parsing);
    ls_option_set_close(&parsing.set);
    if (status) {
        ls_request_free(parsing.request);
        return status;
    }
    *out = parsing.request;
    return LS_OK;
}
