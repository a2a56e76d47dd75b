/* SPDX-License-Identifier: MIT */
/*
 * Cases: see options.h.
 *   1. `all` is expanded.
 *   2. For each mapping of the plan's `cases:` (or once) the list of cases starts with the default,
 * and each swept option, in the order of the table, replaces every case that has the option by one
 *      case per value: the mapping's own values, or the values for all cases.
 *   3. What changes nothing is set to its default (ls_case_settle).
 *   4. Excluded cases (`exclude:`) and duplicates are removed.
 *   5. An option that applies to no remaining case is refused.
 *   6. Cases that their strategies cannot run are removed; the rest is repeated.
 */
#include "bench/cli/options.h"

#include "bench/case/case_facts.h"
#include "bench/cli/option_table.h"
#include "bench/case/profile.h"
#include "bench/case/workplace.h"
#include "common/base/escape.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

/* A list of cases that is being built. */
typedef struct case_list {
    ls_case *items;
    size_t count;
} case_list;

static void free_list(case_list *list)
{
    free(list->items);
}

ls_setting ls_request_setting(const ls_request *request, const ls_option_set *set, const char *name)
{
    const ls_option_given *given = ls_option_set_find(set, name);
    ls_setting setting = {.option = ls_option_find(name, set->command),
                          .processes = request->processes};
    if (given->count > 0)
        setting.origin = given->values[0].origin;
    return setting;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* How many devices of the best kind are here. */
static ls_status count_devices(const ls_request *request, size_t *count)
{
    const ls_machine_options options = ls_request_machine(request);
    ls_machine *machine;
    LS_TRY(ls_machine_open(&options, &machine));
    const int gpus = ls_machine_count(machine, LS_DEVICE_GPU);
    *count = (size_t)(gpus ? gpus : ls_machine_count(machine, LS_DEVICE_CPU));
    ls_machine_close(machine);
    return LS_OK;
}

/* Replaces `all` by its expansion. */
static ls_status expand(const ls_request *request, ls_option_set *set, const char *name)
{
    const ls_option *option = ls_option_find(name, set->command);
    ls_option_given *given = &set->given[option - ls_option_table()];
    const ls_option_given old = *given;
    ls_status status = LS_OK;
    *given = (ls_option_given){0};
    for (size_t v = 0; v < old.count; v++) {
        const ls_option_value *value = &old.values[v];
        const bool all = strcmp(value->text, "all") == 0;
        size_t count = all && option->registry ? ls_registry_count(option->registry) : 1;
        if (all && !option->registry && !status)
            status = count_devices(request, &count);
        for (size_t i = 0; i < count && !status; i++) {
            char number[24];
            snprintf(number, sizeof number, "%zu", i + 1);
            const char *text = !all               ? value->text
                               : option->registry ? ls_registry_name(option->registry, i)
                                                  : number;
            status = ls_option_set_append(set, option, text, value->origin);
        }
        free(value->text);
        free(value->origin);
    }
    free(old.values);
    return status;
}

static ls_status expand_set(const ls_request *request, ls_option_set *set)
{
    LS_TRY(expand(request, set, "strategy"));
    return expand(request, set, "devices");
}

/* ---- Products ------------------------------------------------------------------------------- */

/* The set that sets an option: the mapping's (NULL if there is none), otherwise the set of all
 * cases. A mapping's `steps` also overrides `epochs` of all cases, and the reverse. */
static const ls_option_set *set_with(const ls_request *request, const ls_experiment_part *part,
                                     size_t index)
{
    const char *other = ls_option_table()[index].instead;
    if (part && part->set.given[index].count)
        return &part->set;
    if (part && other && ls_option_set_has(&part->set, other))
        return NULL;
    return request->given->given[index].count ? request->given : NULL;
}

static ls_status refuse_many(const ls_request *request, const ls_experiment_part *part,
                             const ls_setting *setting)
{
    double product = 1; /* as if each case had every option */
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name; i++) {
        const ls_option_set *set = table[i].sweeps ? set_with(request, part, i) : NULL;
        product *= set ? (double)set->given[i].count : 1;
    }
    return ls_setting_refuse(setting, LS_CODE_USAGE,
                             "this list and the other lists together make more than %d cases "
                             "(%.0f); use shorter lists, or several commands",
                             LS_CASES_MOST, product);
}

/* Replaces each case that has the option by one case per value. */
static ls_status sweep(const ls_request *request, const ls_experiment_part *part, size_t index,
                       case_list *list)
{
    size_t used = 0;
    const ls_option *option = &ls_option_table()[index];
    const ls_option_set *set = set_with(request, part, index);
    const ls_option_given *given = &set->given[index];
    ls_setting setting = ls_request_setting(request, set, option->name);
    size_t most = list->count * given->count;
    if (given->count > LS_CASES_MOST || most > LS_CASES_MOST)
        return refuse_many(request, part, &setting);
    ls_case *cases;
    LS_TRY(ls_allocate("cases", &cases, most, sizeof *cases));
    ls_status status = LS_OK;
    for (size_t c = 0; c < list->count; c++) {
        bool has = ls_option_applies(option, &list->items[c]);
        for (size_t v = 0; v < (has ? given->count : 1) && !status; v++) {
            memcpy(&cases[used], &list->items[c], sizeof *cases);
            setting.one = &cases[used++];
            setting.text = given->values[v].text;
            setting.origin = given->values[v].origin;
            if (has)
                status = option->set(&setting);
        }
    }
    free(list->items);
    *list = (case_list){cases, used};
    return status;
}

/* Refuses an option that no case has. */
static ls_status check_concerned(const ls_request *request, const ls_option_set *set,
                                 const ls_case *cases, size_t case_count)
{
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name; i++) {
        char concerned[256];
        if (set->given[i].count == 0)
            continue;
        size_t with = 0;
        for (size_t c = 0; c < case_count; c++)
            with += ls_option_applies(&table[i], &cases[c]);
        ls_setting setting = ls_request_setting(request, set, table[i].name);
        if (with == 0)
            return ls_setting_refuse(
                &setting, LS_CODE_USAGE,
                "applies to no case of this command, but only to %s; choose such a case, or "
                "remove this option",
                ls_option_concerns(&table[i], concerned, sizeof concerned));
    }
    return LS_OK;
}

static ls_status check_steps(const ls_request *request, const ls_option_set *set)
{
    const ls_setting setting = ls_request_setting(request, set, "steps");
    if (ls_option_set_has(set, "steps") && ls_option_set_has(set, "epochs"))
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "cannot be used with --epochs; remove one of the two");
    return LS_OK;
}

/* Appends the cases of one mapping (NULL means the options of all cases) to the request's. */
static ls_status add_product(ls_request *request, const ls_experiment_part *part,
                             const ls_case *first)
{
    const ls_option *table = ls_option_table();
    ls_closing(free_list) case_list list = {NULL, 1};
    LS_TRY(ls_allocate("cases", &list.items, 1, sizeof *list.items));
    memcpy(list.items, first, sizeof *first); /* including padding */
    for (size_t i = 0; table[i].name; i++)
        if (table[i].sweeps && set_with(request, part, i))
            LS_TRY(sweep(request, part, i, &list));
    const size_t scaling = (size_t)(ls_option_find("scaling", LS_FOR_RUN) - table);
    for (size_t i = 0; i < list.count; i++) {
        if (ls_profile_is(list.items[i].model) && !set_with(request, part, scaling))
            list.items[i].scaling = LS_SCALING_WEAK; /* its times are for a device's batch */
        ls_case_settle(&list.items[i]);
    }
    if (part)
        LS_TRY(check_concerned(request, &part->set, list.items, list.count));
    const size_t total = request->case_count + list.count;
    if (total > LS_CASES_MOST)
        return ls_fail(LS_CODE_USAGE, "plan", part->origin,
                       "the plan has %zu cases up to here, but a command takes at most %d; use "
                       "several plans and commands",
                       total, LS_CASES_MOST);
    LS_TRY(ls_enlarge("cases", &request->cases, total, sizeof *request->cases));
    memcpy(&request->cases[request->case_count], list.items, list.count * sizeof *list.items);
    request->case_count = total;
    return LS_OK;
}

/* ---- What is left out ----------------------------------------------------------------------- */

/* Whether the case has this value: setting it would change nothing. */
static ls_status has_value(const ls_request *request, const ls_option *option,
                           const ls_option_value *value, const ls_case *one, bool *out)
{
    ls_case copy;
    memcpy(&copy, one, sizeof copy);
    const ls_setting setting = {.option = option,
                                .text = value->text,
                                .origin = value->origin,
                                .processes = request->processes,
                                .one = &copy};
    *out = ls_option_applies(option, one);
    if (*out)
        LS_TRY(option->set(&setting));
    ls_case_settle(&copy);
    *out = *out && ls_case_same(&copy, one);
    return LS_OK;
}

/* Whether the case matches the mapping: it has a value of each option. */
static ls_status matches(const ls_request *request, const ls_experiment_part *part,
                         const ls_case *one, bool *out)
{
    const ls_option *table = ls_option_table();
    *out = true;
    for (size_t i = 0; table[i].name; i++) {
        const ls_option_given *given = &part->set.given[i];
        bool any = given->count == 0, has;
        for (size_t v = 0; v < given->count; v++) {
            LS_TRY(has_value(request, &table[i], &given->values[v], one, &has));
            any |= has;
        }
        *out &= any;
    }
    return LS_OK;
}

/* Removes cases that `exclude:` matches, and reports mappings that match none. */
static ls_status drop_excluded(ls_request *request)
{
    const ls_experiment_parts *parts = &request->plan->exclude;
    for (size_t p = 0; p < parts->count; p++) {
        const ls_experiment_part *part = &parts->items[p];
        size_t kept = 0;
        for (size_t i = 0; i < request->case_count; i++) {
            bool drop;
            memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
            LS_TRY(matches(request, part, &request->cases[kept], &drop));
            kept += !drop;
        }
        if (kept == request->case_count)
            ls_log_line(&request->log, LS_LOG_NORMAL,
                        "exclude: %s: no case matches this condition, so it excludes nothing; "
                        "correct or remove it",
                        part->origin);
        request->case_count = kept;
        if (kept == 0)
            return ls_fail(LS_CODE_USAGE, "plan", part->origin,
                           "no case is left after this condition; exclude fewer cases");
    }
    return LS_OK;
}

/* Appends the values of an option that are this case's, in their given spelling: " --lr 0.1 =
 * 1e-1". */
static ls_status add_spellings(const ls_request *request, size_t index, const ls_case *one,
                               char *text, size_t size)
{
    const ls_experiment_parts *parts = &request->plan->cases;
    const ls_option *option = &ls_option_table()[index];
    const ls_option_value *found[8];
    size_t count = 0, known;
    for (size_t p = 0; p <= parts->count; p++) {
        const ls_option_set *set = p < parts->count ? &parts->items[p].set : request->given;
        for (size_t v = 0; v < set->given[index].count; v++) {
            const ls_option_value *value = &set->given[index].values[v];
            bool has;
            LS_TRY(has_value(request, option, value, one, &has));
            for (known = 0; known < count && strcmp(found[known]->text, value->text) != 0; known++)
                continue;
            if (!has || known < count || count == sizeof found / sizeof *found)
                continue;
            ls_text_add(text, size, "%s%s%s%s", count ? " = " : " --", count ? "" : option->name,
                        count ? "" : " ", value->text);
            found[count++] = value;
        }
    }
    return LS_OK;
}

/* Says how often the case is listed, and which values of lists list it. */
static ls_status report_repeated(const ls_request *request, const ls_case *one, size_t times)
{
    char text[1024];
    const ls_option *table = ls_option_table();
    snprintf(text, sizeof text, "%s, --strategy %s", one->model, one->strategy->name);
    for (size_t i = 0; table[i].name; i++)
        if (table[i].sweeps && strcmp(table[i].name, "model") != 0 &&
            strcmp(table[i].name, "strategy") != 0)
            LS_TRY(add_spellings(request, i, one, text, sizeof text));
    ls_log_line(&request->log, LS_LOG_NORMAL,
                "case: %s: this case is listed %zu times and runs once", text, times);
    return LS_OK;
}

static ls_status drop_repeated(ls_request *request)
{
    size_t kept = 0;
    ls_auto size_t *times = NULL;
    LS_TRY(ls_allocate("cases", &times, request->case_count, sizeof *times));
    for (size_t i = 0; i < request->case_count; i++) {
        memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
        size_t first = 0; /* the first one that is the same */
        while (first < kept && !ls_case_same(&request->cases[first], &request->cases[kept]))
            first++;
        if (times[first]++ == 0)
            kept++;
    }
    request->case_count = kept;
    for (size_t i = 0; i < kept; i++)
        if (times[i] > 1)
            LS_TRY(report_repeated(request, &request->cases[i], times[i]));
    return LS_OK;
}

/* Removes the cases that their strategies cannot run; refused where none is left. */
static ls_status drop_impossible(ls_request *request)
{
    const size_t count = request->case_count;
    size_t kept = 0;
    ls_status first = LS_OK;
    for (size_t i = 0; i < count; i++) {
        memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
        ls_status status = /* of advise, strategy and options are not chosen yet */
            request->advise ? LS_OK : ls_case_check(&request->cases[kept], request);
        if (!status) {
            kept++;
            continue;
        }
        char text[1024];
        snprintf(text, sizeof text, "%s, --strategy %s --devices %s --ranks %d",
                 request->cases[kept].model, request->cases[kept].strategy->name,
                 request->cases[kept].devices, request->cases[kept].ranks);
        ls_log_line(&request->log, LS_LOG_NORMAL, "left out: %s: %s", text, ls_status_text(status));
        first = ls_status_first(first, status);
    }
    request->case_count = kept;
    if (!kept)
        return first;
    ls_status_free(first);
    return LS_OK;
}

/* Refuses options that allow a single case only: all cases would write the same file. */
static ls_status check_single(const ls_request *request, const char *name, const char *what)
{
    const ls_setting setting = ls_request_setting(request, request->given, name);
    if (!ls_option_set_has(request->given, name) ||
        (request->case_count == 1 && request->plan->repeat < 2))
        return LS_OK;
    return ls_setting_refuse(&setting, LS_CODE_USAGE,
                             "this command has several cases, which cannot all be %s; run a single "
                             "case, or remove this option",
                             what);
}

/* Sets the time budget, which decides the number of timed steps. */
static ls_status set_budget(ls_request *request)
{
    request->budget_ns = request->plan->budget_ns;
    request->steps_given = ls_option_set_has(request->given, "steps");
    for (size_t p = 0; p < request->plan->cases.count; p++)
        request->steps_given |= ls_option_set_has(&request->plan->cases.items[p].set, "steps");
    for (size_t i = 0; request->budget_ns && i < request->case_count; i++)
        if (request->verify || request->cases[i].epochs > 0)
            return ls_fail(
                LS_CODE_USAGE, "plan", request->plan->budget_at,
                "`budget:` chooses the number of timed steps, but %s; remove `budget:`, or %s",
                request->verify ? "lockstep verify times no steps"
                                : "a case has a number of epochs",
                request->verify ? "use lockstep run" : "remove `epochs:` or --epochs");
    return LS_OK;
}

/* Makes all cases, before any is removed. */
static ls_status make_products(ls_request *request)
{
    const ls_experiment_parts *parts = &request->plan->cases;
    ls_case first;
    memcpy(&first, request->cases, sizeof first);
    request->case_count = 0;
    LS_TRY(expand_set(request, request->given));
    LS_TRY(check_steps(request, request->given));
    if (!parts->count)
        return add_product(request, NULL, &first);
    for (size_t p = 0; p < parts->count; p++) {
        LS_TRY(expand_set(request, &parts->items[p].set));
        LS_TRY(check_steps(request, &parts->items[p].set));
        LS_TRY(add_product(request, &parts->items[p], &first));
    }
    return LS_OK;
}

ls_status ls_cases_build(ls_request *request)
{
    const ls_experiment *plan = request->plan;
    LS_TRY(make_products(request));
    LS_TRY(check_concerned(request, request->given, request->cases, request->case_count));
    LS_TRY(set_budget(request));
    if ((int64_t)request->case_count * plan->repeat > LS_CASES_MOST)
        return ls_fail(LS_CODE_USAGE, "plan", plan->repeat_at,
                       "`repeat:` makes %zu cases into %lld, but a command takes at most %d; use a "
                       "smaller number",
                       request->case_count, (long long)request->case_count * plan->repeat,
                       LS_CASES_MOST);
    LS_TRY(drop_excluded(request));
    LS_TRY(drop_repeated(request));
    LS_TRY(check_single(request, "save", "saved to one file"));
    LS_TRY(check_single(request, "ps-record", "recorded in one file"));
    LS_TRY(check_single(request, "checkpoint", "written to one folder"));
    LS_TRY(drop_impossible(request));
    const size_t once = request->case_count, size = sizeof *request->cases;
    const size_t times = plan->repeat ? (size_t)plan->repeat : 1;
    LS_TRY(ls_enlarge("cases", &request->cases, times * once, size));
    for (size_t t = 1; t < times; t++)
        memcpy(&request->cases[t * once], request->cases, once * size);
    request->case_count = times * once;
    return LS_OK;
}
