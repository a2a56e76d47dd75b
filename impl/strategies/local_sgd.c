/* SPDX-License-Identifier: MIT */
/*
 * local-sgd: every replica trains alone on its part of the batch; every H steps, replicas average
 * their parameters (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019), or make
 * the average's distance the gradient of an outer optimizer (Douillard et al., "DiLoCo",
 * arXiv 2311.08105). A gradient is the mean over the replica's own samples. The inner optimizer's
 * state is never exchanged. Parameters, or distances, are summed in the order of the all-reduce,
 * bucket by bucket. With F fragments (arXiv 2501.18512), one is exchanged every H / F steps.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

#include "common/base/numbers.h"

#include <stdio.h>
#include <string.h>

/* ---- Options --------------------------------------------------------------------------------- */

/* The kind is how many buffers of the strategy's own it needs: theta, then v. */
typedef struct outer_rule {
    enum { AVERAGE, SGD, NESTEROV } kind;
    double rate, momentum;
} outer_rule;

static const char valid[] = "is not valid; use average, sgd:lr=1 or nesterov:lr=0.7,mu=0.9";

static ls_status take_value(const char *text, const char *item, size_t length, outer_rule *out)
{
    double *const value = strncmp(item, "lr=", 3) == 0 && out->kind != AVERAGE    ? &out->rate
                          : strncmp(item, "mu=", 3) == 0 && out->kind == NESTEROV ? &out->momentum
                                                                                  : NULL;
    char number[64] = "";
    if (value && length < sizeof number)
        memcpy(number, item + 3, length - 3);
    if (!value || !ls_parse_real(number, value))
        return ls_fail(LS_CODE_USAGE, "outer optimizer", text, "%s", valid);
    if (!(out->rate > 0) || !(out->momentum >= 0 && out->momentum < 1))
        return ls_fail(LS_CODE_USAGE, "outer optimizer", text,
                       "is out of range; lr must be above 0, and mu from 0 to below 1");
    return LS_OK;
}

static ls_status parse_outer(const char *text, outer_rule *out)
{
    static const char *const names[] = {"average", "sgd", "nesterov"};
    const size_t length = strcspn(text, ":");
    *out = (outer_rule){.kind = NESTEROV, .rate = 0.7, .momentum = 0.9};
    while (strlen(names[out->kind]) != length || strncmp(names[out->kind], text, length) != 0)
        if (out->kind-- == AVERAGE)
            return ls_fail(LS_CODE_USAGE, "outer optimizer", text, "%s", valid);
    if (out->kind != NESTEROV)
        out->rate = 1, out->momentum = 0;
    for (const char *item = text[length] ? text + length + 1 : NULL; item;) {
        const size_t size = strcspn(item, ",");
        LS_TRY(take_value(text, item, size, out));
        item = item[size] ? item + size + 1 : NULL;
    }
    return LS_OK;
}

static ls_status check_outer(const char *text)
{
    outer_rule rule;
    return parse_outer(text, &rule);
}

static const ls_declared_option every = {"local-sgd-every",
                                         "H",
                                         "10",
                                         "steps",
                                         "after which replicas average their parameters",
                                         .low = 1,
                                         .high = 1000000};
static const ls_declared_option outer = {
    "local-sgd-outer",
    "average|sgd:lr=1|nesterov:lr=0.7,mu=0.9",
    "average",
    "",
    "what the mean of the replicas' parameters is to all: the next ones, or an outer gradient",
    .type = LS_DECLARED_TEXT,
    .high = 64,
    .continues = true,
    .check = check_outer};
static const ls_declared_option fragments = {"local-sgd-fragments",
                                             "F",
                                             "1",
                                             "",
                                             "parts of the parameters, exchanged in turn",
                                             .low = 1,
                                             .high = LS_JOB_FRAGMENTS,
                                             .when = "--local-sgd-outer sgd or nesterov"};

static const ls_declared_option wire = {
    "local-sgd-wire",
    "float32|bf16|int8",
    "float32",
    "",
    "how distances travel: rounded to 16 bits, or to 8 with a scale for 512",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"float32", "bf16", "int8", NULL}, /* as ls_wire_form */
    .when = "--local-sgd-outer sgd or nesterov"};

static outer_rule rule_of(const ls_declared_values *values)
{
    outer_rule rule;
    ls_status_free(parse_outer(ls_declared_text(values, &outer), &rule)); /* it was checked */
    return rule;
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    (void)ranks;
    return option == &every || option == &outer || rule_of(values).kind != AVERAGE;
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.own_mean = true;
    job->update.owned = (int)rule_of(&job->options).kind;
    job->update.fragments = (int)ls_declared_number(&job->options, &fragments);
    job->exchange.wire = (ls_wire_form)ls_declared_number(&job->options, &wire);
}

static ls_status check(const ls_outline *o)
{
    const ls_job_update *update = &o->job->update;
    if (update->fragments > 1 && update->period % update->fragments)
        return ls_fail(LS_CODE_USAGE, "option", "--local-sgd-fragments",
                       "%d does not divide --local-sgd-every %d; use %d steps", update->fragments,
                       update->period,
                       (update->period / update->fragments + 1) * update->fragments);
    if (o->job->exchange.wire && strcmp(o->allreduce, "auto") != 0 &&
        strcmp(o->allreduce, "owners") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "%s would round more than once an element that --local-sgd-wire rounds; use "
                       "owners or auto",
                       o->allreduce);
    if (update->owned && strcmp(o->allreduce, "library") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library adds in an order of its own, which an outer optimizer's replay "
                       "cannot follow; use ring, tree, halving-doubling, flat or auto");
    return LS_OK;
}

/* ---- The step -------------------------------------------------------------------------------- */

enum { THETA, MOMENTUM }; /* buffers of its own */

static const ls_own_buffer owns[] = {{"outer parameters", LS_OWNED_PARAMETERS},
                                     {"outer momentum", LS_OWNED_ZEROS}};

/* theta -= lr D, or v = mu v + D, theta -= lr (D + mu v); D is in place of the parameters, which
 * become theta. */
static void outer_step(ls_step *s, int r, ls_range range, const outer_rule *rule)
{
    const ls_span p = ls_parameters(s, r, range), theta = ls_own(s, r, THETA, range);
    if (rule->kind == NESTEROV) {
        const ls_span v = ls_own(s, r, MOMENTUM, range);
        ls_combine(s, "momentum", v,
                   &(ls_combination){.a = rule->momentum, .x = v, .b = 1, .y = p});
        ls_combine(s, "look ahead", p,
                   &(ls_combination){.a = 1, .x = p, .b = rule->momentum, .y = v});
    }
    ls_combine(s, "outer update", theta,
               &(ls_combination){.a = 1, .x = theta, .b = -rule->rate, .y = p});
    ls_combine(s, "go on", p, &(ls_combination){.a = 1, .x = theta});
}

/* Of each bucket that is due: d = theta - theta_r on every replica; D, the mean of all d; the outer
 * optimizer's step with D as its gradient. */
static void exchange(ls_step *s, const outer_rule *rule)
{
    const int n = ls_replicas(s);
    for (int b = 0; b < ls_buckets_of(s, 0); b++) {
        const ls_range range = ls_bucket(s, 0, b);
        if (!ls_is_due(s, b))
            continue;
        for (int r = 0; r < n; r++) {
            const ls_span p = ls_parameters(s, r, range), theta = ls_own(s, r, THETA, range);
            ls_combine(s, "distance", p, &(ls_combination){.a = 1, .x = theta, .b = -1, .y = p});
        }
        ls_mean(s, b);
        for (int r = 0; r < n; r++)
            outer_step(s, r, range, rule);
    }
}

static void build(ls_step *s)
{
    const outer_rule rule = rule_of(&ls_step_job(s)->options);
    for (int r = 0; r < ls_replicas(s); r++) {
        ls_forward(s, r);
        ls_backward(s, r, ls_all(s));
        ls_clip_alone(s, r);
        if (ls_sums(s, r)) /* a tail batch may leave a replica without samples */
            ls_update(s, r, ls_all(s));
    }
    if (!ls_due(s).count)
        return;
    if (rule.kind == AVERAGE)
        ls_average(s);
    else
        exchange(s, &rule);
}

/* The same exchange by plain loops, for the gate. */
static void replay(const ls_replayed *all)
{
    const outer_rule rule = rule_of(&all->job->options);
    const float rate = (float)rule.rate, mu = (float)rule.momentum;
    const size_t end = all->due.first + all->due.count;
    for (int r = 0; r < all->replicas; r++)
        for (size_t i = all->due.first; i < end; i++)
            all->parameters[r][i] = all->own[THETA][r][i] - all->parameters[r][i];
    const float *mean = all->mean(all);
    for (int r = 0; r < all->replicas; r++) {
        float *theta = all->own[THETA][r], *v = all->own[MOMENTUM] ? all->own[MOMENTUM][r] : NULL;
        for (size_t i = all->due.first; i < end; i++) {
            if (v)
                v[i] = mu * v[i] + mean[i];
            const float step = v ? mean[i] + mu * v[i] : mean[i];
            theta[i] -= rate * step;
            all->parameters[r][i] = theta[i];
        }
    }
}

const ls_strategy ls_strategy_local_sgd = {
    .name = "local-sgd",
    .help = "replicas that average their parameters every H steps, not equivalent",
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&every, &outer, &wire, &fragments, NULL},
    .has = has,
    .average.period = &every,
    .owns = owns,
    .resolve = resolve,
    .check = check,
    .build = build,
    .witness.formula = ls_moved_traffic, /* of what is due */
    .witness.exchange = replay,
    .witness.sum = ls_sum_by_algorithm,
};
