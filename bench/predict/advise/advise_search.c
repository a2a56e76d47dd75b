/* SPDX-License-Identifier: MIT */
/*
 * The search of an advice: which combinations of a strategy and its options are estimated.
 *
 * Axes that divide the model (how many replicas, what divides them) are all combined, with the
 * first value of every other axis: the starts. From each start, best first, the other axes are
 * changed one after the other, and a change is kept if it is faster or, while the case does not fit
 * into the memory, needs less; until none is. All combinations of options that only save memory
 * (EASES) are tried where it is short. Other combinations are not tried: for 64 devices there are
 * thousands. Starts that are four times as slow as the best so far are not changed. The most
 * replicas, which are built the fastest, come first: if time ends, deep pipelines are left.
 */
#include "bench/case/case_facts.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/predict/advise/advise_parts.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each value is a start; numbers up to a replica's samples, whose effect rises and then falls;
 * where memory is short; in all pairs. */
enum { DIVIDES = 1, PIECES = 2, EASES = 4, TOGETHER = 8 };
#define POWERS "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096"

enum { INNER = 2, REPLICAS, STAGES, MICROBATCHES = 7, OUTER = 9, ALLREDUCE = 11 }; /* of axes[] */

/* An option that changes a strategy's speed or its memory, and the values that are tried: of cases
 * that have it with the values of the earlier axes. */
static const struct axis {
    const char *strategy; /* NULL means any that has the option */
    const char *option;
    unsigned is; /* the kinds above */
    const char *values[14];
} axes[] = {
    {"towers", "towers-staged", DIVIDES, {"no", "yes"}},
    {"ps", "ps-mode", DIVIDES, {"sync", "async", "ssp"}},
    [INNER] = {"hybrid",
               "hybrid-inner",
               DIVIDES,
               {"zero", "tensor-parallel", "pipeline", "model-parallel", "context-parallel"}},
    [REPLICAS] = {"hybrid",
                  "hybrid-replicas",
                  DIVIDES,
                  {"512", "256", "128", "64", "32", "16", "12", "8", "6", "5", "4", "3", "2", "1"}},
    [STAGES] = {"hybrid",
                "hybrid-stages",
                DIVIDES,
                {"1", "2", "3", "4", "6", "8", "12", "16", "32"}},
    {NULL, "pipeline-schedule", TOGETHER, {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2"}},
    {NULL, "pipeline-chunks", TOGETHER, {"2", "3", "4"}},
    [MICROBATCHES] = {NULL, "pipeline-microbatches", PIECES, {POWERS}},
    {NULL, "tensor-parallel-sequence", 0, {"no", "yes"}},
    [OUTER] = {NULL, "hybrid-outer", 0, {"mirrored", "zero"}},
    {NULL, "zero-stage", 0, {"1", "2", "3"}},
    [ALLREDUCE] = {NULL,
                   "allreduce",
                   0,
                   {"ring", "halving-doubling", "hierarchical", "tree", "flat", "canonical"}},
    {"mirrored", "bucket-bytes", 0, {"auto", "1GiB"}},
    {NULL, "gradient-accumulation-steps", PIECES | EASES, {POWERS}},
    {NULL, "recompute", EASES, {"none", "mlp", "full"}},
};
enum {
    AXES = sizeof axes / sizeof *axes,
    VALUES = sizeof axes->values / sizeof *axes->values,
    NO_PICK = -1, /* the axis has its first value */
    LARGE = 16,   /* samples of a micro-batch */
    TEXT = 24
};

/* A combination: the number of the value of each axis. */
typedef struct picks {
    int of[AXES];
} picks;

static int value_of(size_t axis, const char *value)
{
    for (int v = 0; v < VALUES && axes[axis].values[v]; v++)
        if (strcmp(axes[axis].values[v], value) == 0)
            return v;
    return NO_PICK;
}

/* Whether a case has the axis: its strategy, with the options so far, and the user left it open.
 * Micro-batches of stages are their pieces; a wire, and bf16 without replicas, imply an all-reduce.
 */
static bool has_axis(const ls_advising *a, const ls_case *config, size_t axis)
{
    const char *name = axes[axis].option, *strategy = axes[axis].strategy;
    const ls_option *option = ls_option_find(name, LS_FOR_RUN);
    ls_job job = {0};
    ls_case_job(config, &job);
    const bool implied =
        job.exchange.gradient_wire ||
        (job.kernels.precision == LS_PRECISION_BF16 && !ls_strategy_reduces(config->strategy));
    if ((axes[axis].is == (PIECES | EASES) && job.division.microbatches) ||
        (implied && axis == ALLREDUCE))
        return false;
    return (!strategy || strcmp(strategy, config->strategy->name) == 0) &&
           !ls_option_set_has(a->workplace->request->given, name) &&
           ls_option_applies(option, config);
}

/* Whether so many replicas can share the devices, or so many stages the places of a replica, with
 * two or more for each. A single replica is only tried in stages of split layers: else it is what
 * the inner strategy does alone. */
static bool can_share(const ls_advising *a, const ls_case *config, size_t axis, const char *value)
{
    ls_job job = {0};
    int64_t number, among = a->devices;
    if ((axis != STAGES && axis != REPLICAS) || !ls_parse_integer(value, 1, INT32_MAX, &number))
        return true;
    ls_case_job(config, &job);
    if (axis == STAGES) {
        const int copies = job.mesh.size[ls_mesh_outer(&job.mesh)];
        among /= copies;
        if (copies == 1 && number == 1)
            return false;
    } else if (number == 1 && !ls_job_slices(&job)) {
        return false;
    }
    return number < among && among % number == 0;
}

/* The samples of a replica, the most pieces that there can be. */
static int64_t samples_of(const ls_advising *a, const ls_case *config)
{
    ls_job job = {0};
    ls_case_job(config, &job);
    const int64_t copies =
        job.mesh.rest == LS_MEMBER ? a->devices : job.mesh.size[ls_mesh_outer(&job.mesh)];
    const bool shared = config->scaling == LS_SCALING_STRONG && copies > 1;
    const int64_t samples = shared ? a->out->batch / copies : a->out->batch;
    return samples > 1 ? samples : 1;
}

/* Stages of a case. */
static int64_t stages_of(const ls_advising *a, const ls_job *job)
{
    return job->mesh.size[LS_STAGE] > 1
               ? job->mesh.size[LS_STAGE]
               : ls_mesh_of(job->mesh, (int)a->devices).size[job->mesh.rest];
}

/* The value of an axis of a case; NULL if there is no such value. With chunks, micro-batches are a
 * multiple of the stages. The last number of pieces is a replica's samples, which may be no power
 * of two. */
static const char *text_of(const ls_advising *a, const ls_case *config, size_t axis, int value,
                           char text[TEXT])
{
    int64_t number, before = 0;
    const char *found = value >= 0 && value < VALUES ? axes[axis].values[value] : NULL;
    if (!found || !(axes[axis].is & PIECES))
        return found;
    const int64_t most = samples_of(a, config);
    if (value > 0)
        (void)ls_parse_integer(axes[axis].values[value - 1], 1, INT32_MAX, &before);
    if (!ls_parse_integer(found, 1, INT32_MAX, &number) || before >= most)
        return NULL;
    ls_job job = {0};
    ls_case_job(config, &job);
    number = number < most ? number : most;
    const int64_t groups = job.division.chunks ? number / stages_of(a, &job) : 0;
    snprintf(text, TEXT, "%lld", (long long)(groups ? groups * stages_of(a, &job) : number));
    return text;
}

/* The first value: of micro-batches twice the stages and 16 samples each at most. */
static int first_of(const ls_advising *a, const ls_case *config, size_t axis)
{
    char text[TEXT];
    int64_t number;
    int value = 0;
    ls_job job = {0};
    if (axis != MICROBATCHES)
        return 0;
    ls_case_job(config, &job);
    while (text_of(a, config, axis, value + 1, text) &&
           ls_parse_integer(axes[axis].values[value], 1, INT32_MAX, &number) &&
           (number < 2 * stages_of(a, &job) || samples_of(a, config) / number > LARGE))
        value++;
    return value;
}

/* Sets the options of the first `count` axes. False: the case has no such value. */
static ls_status set_picks(const ls_advising *a, const ls_case *base, const picks *p, size_t count,
                           ls_advised *out, bool *valid)
{
    char text[TEXT];
    *out = (ls_advised){0};
    memcpy(&out->config, base, sizeof *base);
    *valid = true;
    for (size_t i = 0; i < count; i++) {
        if (!has_axis(a, &out->config, i))
            continue;
        const int pick = p->of[i] == NO_PICK ? first_of(a, &out->config, i) : p->of[i];
        const char *value = text_of(a, &out->config, i, pick, text);
        *valid = *valid && value && can_share(a, &out->config, i, value);
        if (!*valid)
            return LS_OK;
        if (axes[i].is & EASES && pick == 0)
            continue;
        LS_TRY(ls_advising_set(&out->config, axes[i].option, value));
        ls_text_add(out->options, sizeof out->options, "%s--%s %s", *out->options ? " " : "",
                    axes[i].option, value);
    }
    return LS_OK;
}

/* ---- What is tried --------------------------------------------------------------------------- */

/* A combination that was estimated, or refused. */
typedef struct tried {
    const ls_case *base;
    picks picks;
    char options[LS_ADVISED_OPTIONS];
    double rate;   /* samples/s; 0 means refused */
    size_t memory; /* bytes of the fullest device; 0 if not known */
    bool start;
} tried;

typedef struct search {
    ls_advising *a;
    tried *items; /* [count] */
    size_t count;
} search;

/* Whether a combination is the better one: faster, else with less memory. */
static bool is_better(const tried *x, const tried *y)
{
    static const double same = 1e-9;
    if (x->rate > y->rate * (1 + same) || y->rate > x->rate * (1 + same))
        return x->rate > y->rate;
    if (!x->memory || !y->memory)
        return x->memory > y->memory;
    return x->memory < y->memory;
}

/* Estimates a combination, unless that was done. Its number in the list; SIZE_MAX means no case. */
static ls_status try_picks(search *s, const ls_case *base, const picks *p, size_t *number)
{
    ls_advised advised;
    bool valid;
    LS_TRY(set_picks(s->a, base, p, AXES, &advised, &valid));
    *number = SIZE_MAX;
    if (!valid)
        return LS_OK;
    for (*number = s->count; (*number)-- > 0;)
        if (s->items[*number].base == base &&
            strcmp(s->items[*number].options, advised.options) == 0)
            return LS_OK;
    LS_TRY(ls_grow("advice", &s->items, s->count, sizeof *s->items));
    LS_TRY(ls_advising_estimate(s->a, &advised));
    *number = s->count++;
    s->items[*number] =
        (tried){.base = base, .picks = *p, .rate = advised.quick_per_s, .memory = advised.memory};
    memcpy(s->items[*number].options, advised.options, sizeof advised.options);
    return LS_OK;
}

/* Whether so much time is over that what is left is not tried. */
static bool is_over(search *s, double seconds)
{
    const bool over = ls_advising_spent(s->a) > seconds;
    s->a->out->cut = s->a->out->cut || over;
    return over;
}

/* All combinations of the axes of a kind, from axis `index` on: the best one replaces `best`; NULL
 * if they are starts. */
static ls_status try_combinations(search *s, const ls_case *base, unsigned kind, picks *p,
                                  size_t index, size_t *best)
{
    ls_advised so_far;
    bool valid;
    size_t number;
    while (index < AXES && !(axes[index].is & kind))
        index++;
    if (index == AXES) {
        if (is_over(s, best ? LS_ADVICE_SEARCH_S : LS_ADVICE_STARTS_S))
            return LS_OK;
        LS_TRY(try_picks(s, base, p, &number));
        if (number != SIZE_MAX && !best)
            s->items[number].start = true;
        else if (number != SIZE_MAX && is_better(&s->items[number], &s->items[*best]))
            *best = number;
        return LS_OK;
    }
    LS_TRY(set_picks(s->a, base, p, index, &so_far, &valid));
    if (!has_axis(s->a, &so_far.config, index))
        return try_combinations(s, base, kind, p, index + 1, best);
    const int before = p->of[index];
    for (int v = 0; v < VALUES && axes[index].values[v]; v++)
        if (can_share(s->a, &so_far.config, index, axes[index].values[v])) {
            p->of[index] = v;
            LS_TRY(try_combinations(s, base, kind, p, index + 1, best));
        }
    p->of[index] = before;
    return LS_OK;
}

/* Tries the values of an axis in one direction, beginning at the value of the best case, which it
 * replaces. For numbers, whose effect rises and then falls, it stops where they no longer help. */
static ls_status try_values(search *s, size_t axis, int step, size_t *best)
{
    const ls_case *base = s->items[*best].base;
    picks p = s->items[*best].picks;
    ls_advised so_far;
    bool valid;
    LS_TRY(set_picks(s->a, base, &p, axis, &so_far, &valid));
    if (!has_axis(s->a, &so_far.config, axis))
        return LS_OK;
    int value = p.of[axis] == NO_PICK ? first_of(s->a, &so_far.config, axis) : p.of[axis];
    for (value += step; value >= 0 && value < VALUES && axes[axis].values[value]; value += step) {
        size_t number;
        p.of[axis] = value;
        if (is_over(s, LS_ADVICE_SEARCH_S))
            return LS_OK;
        LS_TRY(try_picks(s, base, &p, &number));
        if (number == SIZE_MAX)
            return LS_OK;
        if (is_better(&s->items[number], &s->items[*best]))
            *best = number;
        else if (axes[axis].is & PIECES)
            return LS_OK;
    }
    return LS_OK;
}

static ls_status tune(search *s, size_t best)
{
    for (size_t from = SIZE_MAX; from != best;) {
        from = best;
        picks p = s->items[best].picks;
        LS_TRY(try_combinations(s, s->items[best].base, TOGETHER, &p, 0, &best));
        for (size_t i = 0; i < AXES; i++) {
            if (axes[i].is & (DIVIDES | EASES | TOGETHER))
                continue;
            LS_TRY(try_values(s, i, 1, &best));
            LS_TRY(try_values(s, i, -1, &best));
        }
        const tried *found = &s->items[best];
        bool is_short = found->memory > s->a->predictor->memory_limit; /* or was */
        p = found->picks;
        for (size_t i = 0; i < AXES; i++)
            is_short |= axes[i].is & EASES && p.of[i] > 0;
        if (is_short)
            LS_TRY(try_combinations(s, found->base, EASES, &p, 0, &best));
    }
    return LS_OK;
}

/* The best start that was not tuned yet; SIZE_MAX if none is left. */
static size_t find_start(const search *s)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].start && s->items[i].memory &&
            (best == SIZE_MAX || is_better(&s->items[i], &s->items[best])))
            best = i;
    return best;
}

static ls_status tune_all(search *s)
{
    static const double far = 4;
    for (size_t at = find_start(s); at != SIZE_MAX; at = find_start(s)) {
        double fastest = 0;
        if (is_over(s, LS_ADVICE_SEARCH_S))
            return LS_OK;
        for (size_t i = 0; i < s->count; i++)
            fastest = s->items[i].rate > fastest ? s->items[i].rate : fastest;
        s->items[at].start = false;
        if (!(s->items[at].rate > 0) || s->items[at].rate * far >= fastest)
            LS_TRY(tune(s, at));
    }
    return LS_OK;
}

/* ---- What a user of Megatron-LM would try first ---------------------------------------------- */

/* The case of a strategy. NULL if it is not asked for, or an option that is set below was given. */
static const ls_case *find_open(const ls_advising *a, const char *strategy)
{
    static const char *const open[] = {"hybrid-inner", "hybrid-replicas", "hybrid-stages",
                                       "hybrid-outer", "zero-stage"};
    const ls_request *request = a->workplace->request;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (ls_option_set_has(request->given, open[i]))
            return NULL;
    for (size_t i = 0; i < request->case_count; i++)
        if (strcmp(request->cases[i].strategy->name, strategy) == 0)
            return &request->cases[i];
    return NULL;
}

/* Replicas of `stages` stages of `split` devices each. *number is SIZE_MAX if there can be none. */
static ls_status try_usual(search *s, int64_t split, int64_t stages, size_t *number)
{
    picks p;
    char replicas[TEXT], text[TEXT];
    const bool whole = split * stages == 1; /* each device has the whole model */
    const ls_case *base = find_open(s->a, whole ? "zero" : "hybrid");
    *number = SIZE_MAX;
    if (!base || s->a->devices % (split * stages))
        return LS_OK;
    memset(&p, 0xff, sizeof p); /* NO_PICK */
    if (whole)
        return try_picks(s, base, &p, number);
    snprintf(replicas, sizeof replicas, "%lld", (long long)(s->a->devices / (split * stages)));
    snprintf(text, sizeof text, "%lld", (long long)stages);
    p.of[INNER] = value_of(INNER, split > 1 ? "tensor-parallel" : "pipeline");
    p.of[OUTER] = value_of(OUTER, "zero");
    p.of[REPLICAS] = value_of(REPLICAS, replicas);
    p.of[STAGES] = value_of(STAGES, text);
    if (p.of[REPLICAS] == NO_PICK || (split > 1 && p.of[STAGES] == NO_PICK))
        return LS_OK;
    return try_picks(s, base, &p, number);
}

/* Layers split over the devices of a host, if it has several; as few stages as fit into the memory,
 * one forward, one backward; and replicas that share the update. If nothing fits, the combination
 * that needs least. */
static ls_status find_usual(search *s, size_t *found)
{
    const int64_t host = s->a->predictor->devices_per_host;
    size_t best = SIZE_MAX, number;
    for (int64_t split = host < s->a->devices ? host : s->a->devices;
         split >= (host > 1 ? 2 : 1) && best == SIZE_MAX; split--) {
        if (s->a->devices % split)
            continue;
        for (int64_t stages = 1; split * stages <= s->a->devices; stages *= 2) {
            LS_TRY(try_usual(s, split, stages, &number));
            const bool known = number != SIZE_MAX && s->items[number].memory;
            if (known && (best == SIZE_MAX || is_better(&s->items[number], &s->items[best])))
                best = number;
            if (known && s->items[number].rate > 0)
                break;
        }
    }
    *found = best;
    return LS_OK;
}

/* With the number of micro-batches that suits it. */
static ls_status tune_usual(search *s, size_t best)
{
    if (best == SIZE_MAX)
        return LS_OK;
    LS_TRY(try_values(s, MICROBATCHES, 1, &best));
    LS_TRY(try_values(s, MICROBATCHES, -1, &best));
    ls_advised *usual = &s->a->out->usual;
    memcpy(&usual->config, s->items[best].base, sizeof usual->config);
    memcpy(usual->options, s->items[best].options, sizeof usual->options);
    usual->memory = s->items[best].memory;
    return LS_OK;
}

static ls_status try_all(search *s)
{
    const ls_request *request = s->a->workplace->request;
    size_t usual = SIZE_MAX;
    for (int late = 0; late < 2; late++) { /* hybrid has most starts */
        if (late)
            LS_TRY(find_usual(s, &usual));
        for (size_t i = 0; i < request->case_count; i++) {
            picks p;
            bool takes;
            const ls_case *base = &request->cases[i];
            if ((strcmp(base->strategy->name, "hybrid") == 0) != late)
                continue;
            memset(&p, 0xff, sizeof p); /* NO_PICK */
            LS_TRY(ls_advising_takes(s->a, base, &takes));
            if (takes)
                LS_TRY(try_combinations(s, base, DIVIDES, &p, 0, NULL));
        }
    }
    LS_TRY(tune_usual(s, usual));
    return tune_all(s);
}

ls_status ls_advising_search(ls_advising *a)
{
    search s = {.a = a};
    const ls_status status = try_all(&s);
    a->out->tried = s.count;
    free(s.items);
    return status;
}
