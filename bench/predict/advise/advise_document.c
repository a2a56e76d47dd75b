/* SPDX-License-Identifier: MIT */
/* An advice as one JSON document; what it says in words is made by advice.sql. */
#include "bench/predict/advise/advise.h"

#include "bench/output/format.h"
#include "bench/predict/advise/advise_parts.h"
#include "common/base/numbers.h"
#include "template_advice.h"

#include <math.h>
#include <string.h>

/* What a user of Megatron-LM would try first, and what became of it; "" if there is no such
 * combination. */
static void tell_usual(const ls_advice *advice, size_t memory_limit, char *text, size_t size)
{
    const ls_advised *usual = &advice->usual;
    char needs[32], limit[32], became[200];
    *text = 0;
    if (!usual->config.strategy)
        return;
    const size_t number = ls_advice_find(advice, usual);
    if (number < advice->count && number == 0)
        snprintf(became, sizeof became, "is number 1");
    else if (number < advice->count && advice->ranking[number].played && advice->ranking->played)
        snprintf(became, sizeof became, "is number %zu, %.3g times as fast as number 1", number + 1,
                 advice->ranking[number].samples_per_s / advice->ranking->samples_per_s);
    else if (number < advice->count)
        snprintf(became, sizeof became, "is number %zu, as estimated", number + 1);
    else if (usual->memory > memory_limit)
        snprintf(became, sizeof became, "does not fit: it needs %s of %s a device",
                 ls_format_bytes((double)usual->memory, needs),
                 ls_format_bytes((double)memory_limit, limit));
    else
        snprintf(became, sizeof became, "is as fast as another one of the ranking");
    snprintf(text, size,
             "What Megatron-LM's users try first (%sas few pipeline stages as fit, 1f1b, "
             "distributed optimizer) %s: %s %s",
             advice->devices_per_host > 1 ? "layers split within a host, "
                                          : "no layers split, since a host has one device; ",
             became, usual->config.strategy->name, usual->options);
}

static json_t *break_of(const ls_advice *advice, const ls_break_even *b)
{
    const bool known = isfinite(b->value);
    const char *leads = b->below ? "below" : "above";
    return json_pack("{s:o,s:o*,s:s*,s:o,s:[f,f]}", "axis", ls_text_value(b->axis), "value",
                     known ? json_real(b->value) : NULL, "second_leads", known ? leads : NULL,
                     "with",
                     b->with < advice->count ? json_integer((json_int_t)b->with) : json_null(),
                     "tried", b->low, b->high);
}

static json_t *regret_of(const ls_regret *regret)
{
    return regret->sets ? json_pack("{s:f,s:f,s:I}", "mean", regret->mean, "worst", regret->worst,
                                    "sets", (json_int_t)regret->sets)
                        : NULL;
}

static json_t *advised_json(const ls_advised *one)
{
    return json_pack("{s:O*,s:f,s:[f,f],s:I,s:s*,s:{s:f,s:f,s:f},s:s,s:b,s:s*}", "case", one->facts,
                     "samples_per_s", one->samples_per_s, "ci95", one->ci95[0], one->ci95[1],
                     "memory", (json_int_t)one->memory, "bound_by", one->bound_by, "shares",
                     "compute", one->shares.compute, "network", one->shares.network, "idle",
                     one->shares.idle, "options", one->options, "played", one->played, "grade",
                     ls_strategy_alone(one->config.strategy) ? "none" : NULL);
}

static json_t *document_of(const ls_advice *advice, size_t memory_limit,
                           const ls_advice_words *words)
{
    char usual[1024];
    json_t *ranking = json_array(), *refused = json_array(), *breaks = json_array();
    for (size_t i = 0; i < advice->count; i++)
        json_array_append_new(ranking, advised_json(&advice->ranking[i]));
    for (size_t i = 0; i < advice->refused_count; i++)
        json_array_append_new(refused, json_pack("{s:O,s:s}", "case", advice->refused[i].facts,
                                                 "reason", advice->refused[i].reason));
    for (size_t i = 0; i < advice->break_count; i++)
        json_array_append_new(breaks, break_of(advice, &advice->breaks[i]));
    json_t *warnings = words->guess    ? json_pack("[s]", "guessed")
                       : *words->noise ? json_pack("[s#]", words->noise, /* its word */
                                                   (int)strcspn(words->noise, ":"))
                                       : NULL;
    tell_usual(advice, memory_limit, usual, sizeof usual);
    return json_pack(
        "{s:o,s:o,s:I,s:o,s:o*,s:I,s:s,s:I,s:o*,s:o*,s:o*,s:o*,s:o*,s:o*,s:o*}", "ranking", ranking,
        "refused", refused, "cannot_tell", (json_int_t)(advice->tied > 1 ? advice->tied : 0),
        "break_even", breaks, "break_even_with",
        advice->second ? json_integer((json_int_t)advice->second) : NULL, "searched",
        (json_int_t)advice->tried, "status",
        advice->interrupted ? "interrupted"
        : advice->cut       ? "out of time"
                            : "ok",
        "batch", (json_int_t)advice->batch, "warnings", warnings, "one_device_samples_per_s",
        advice->alone_per_s > 0 ? json_real(advice->alone_per_s) : NULL, "check",
        ls_text_value(words->line), "check_differs",
        words->line && *words->differs ? ls_text_value(words->differs) : NULL, "usual",
        *usual ? ls_text_value(usual) : NULL, "regret", regret_of(&advice->measured),
        "regret_published", regret_of(&advice->published));
}

/* ---- What only the text has ------------------------------------------------------------------ */

static json_t *further_facts(const ls_request *request, const ls_advice *advice,
                             const ls_advice_words *words)
{
    const ls_case *c = request->cases;
    json_t *refused = json_array();
    for (size_t i = 0; i < advice->refused_count; i++) {
        const ls_advised *one = &advice->refused[i];
        json_array_append_new(
            refused, json_pack("{s:s,s:o,s:I}", "strategy", one->config.strategy->name, "options",
                               ls_text_value(one->options), "memory", (json_int_t)one->memory));
    }
    return json_pack("{s:o,s:I,s:b,s:o*,s:o,s:o,s:b,s:s,s:o*,s:i,s:i,s:i}", "refused", refused,
                     "usual", (json_int_t)ls_advice_find(advice, &advice->usual), "profile",
                     words->profile, "guess", ls_text_value(words->guess), "noise",
                     ls_text_value(words->noise), "model", ls_text_value(c->model), "weak",
                     c->scaling == LS_SCALING_WEAK, "devices", c->devices, "platform",
                     ls_text_value(request->prediction.platform), "search_s", LS_ADVICE_SEARCH_S,
                     "cores", words->cores, "device_count", advice->devices);
}

void ls_advice_print_estimates(const ls_advice *advice, bool profile, FILE *out)
{
    json_t *ranking = json_array();
    for (size_t i = 0; i < advice->count; i++)
        json_array_append_new(ranking, advised_json(&advice->ranking[i]));
    json_auto_t *all = json_pack("{s:o,s:{s:b}}", "ranking", ranking, "also", "profile", profile);
    ls_status_free(ls_document_write(ls_template_advice, all, "estimates", NULL, out));
    fflush(out);
}

ls_status ls_advice_write(const ls_request *request, const ls_advice *advice, size_t memory_limit,
                          const ls_advice_words *words, FILE *out)
{
    json_auto_t *all = document_of(advice, memory_limit, words);
    if (strcmp(request->format, "table") == 0) {
        json_object_set_new(all, "also", further_facts(request, advice, words));
        return ls_document_write(ls_template_advice, all, "table", NULL, out);
    }
    json_dumpf(all, out, strcmp(request->format, "json") == 0 ? JSON_INDENT(1) : JSON_COMPACT);
    fputc('\n', out);
    return LS_OK;
}
