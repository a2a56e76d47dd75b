/* SPDX-License-Identifier: MIT */
/*
 * towers: in-graph replication, as in the multi-tower tutorials. One program runs a tower on each
 * device. The variables are on the variable device, where gradients are summed and applied. The
 * tower on that device uses them in place; every other tower has a copy.
 *
 * --towers-staged: variables are updated range by range, and towers fetch each range for the next
 * step as soon as it is updated. --colocate-gradients no: a tower runs forward, and sends what
 * backward reads to its shadow on the variable device.
 *
 * Reduction order: in fast mode ((g0 + g1) + g2) + ... by tower number; in exact mode the rest of
 * the tree over the towers' finished subtrees (slice.h).
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

enum { STAGED_RANGES = 4 };

static bool is_staged(const ls_step *s)
{
    return ls_declared_number(&ls_step_job(s)->options, &ls_option_towers_staged);
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->division.backward_held = !ls_declared_number(&job->options, &ls_option_colocate_gradients);
}

static int ranges(const ls_step *s)
{
    return is_staged(s) ? STAGED_RANGES : 1;
}

static ls_range part(const ls_step *s, int i)
{
    const size_t all = ls_all(s).count, first = ls_comm_share(all, i, ranges(s));
    return (ls_range){first, ls_comm_share(all, i + 1, ranges(s)) - first};
}

/* Fetches a range of the variables, unless it is empty (poly has three elements). */
static void fetch(ls_step *s, int tower, ls_range range)
{
    if (range.count)
        ls_message(s, ls_parameters(s, tower, range), ls_parameters(s, ls_holder(s), range),
                   LS_REPLACE);
}

/* For each piece: forward on the tower, backward on its shadow. */
static void run_with_shadow(ls_step *s, int tower)
{
    const int shadow = ls_shadow(s, tower);
    ls_span output, copy;
    for (size_t p = 0; p < ls_pieces(s, tower).count; p++) {
        ls_run_piece(s, tower, p, LS_PASS_FORWARD);
        for (size_t k = 0; ls_kept(s, tower, p, k, &output); k++) {
            ls_kept(s, shadow, p, k, &copy);
            ls_message(s, copy, output, LS_REPLACE);
        }
        ls_run_piece(s, shadow, p, LS_PASS_BACKWARD);
    }
}

static void build(ls_step *s)
{
    const int n = ls_replicas(s), holder = ls_holder(s);
    const bool ahead = is_staged(s), shadowed = ls_step_job(s)->division.backward_held;
    int from[LS_JOB_REPLICAS]; /* the members with the gradients */
    for (int t = 0; t < n; t++) {
        from[t] = shadowed && t != holder ? ls_shadow(s, t) : t;
        if (t != holder && !ahead)
            fetch(s, t, ls_all(s));
        if (from[t] == t) {
            ls_forward(s, t, ls_all(s));
            ls_backward(s, t, ls_all(s));
        } else {
            run_with_shadow(s, t);
        }
    }
    ls_add_up(s, from, n);
    ls_clip_gradients(s, LS_TOGETHER);
    for (int i = 0; i < ranges(s); i++) {
        ls_update(s, holder, part(s, i));
        for (int t = 0; t < n && ahead; t++)
            if (t != holder)
                fetch(s, t, part(s, i));
    }
}

static ls_status check(const ls_outline *outline)
{
    if (outline->ranks != 1)
        return ls_fail(
            LS_CODE_USAGE, "strategy", "towers",
            "this strategy runs on one rank, not on %d; use --ranks 1, or --strategy mirrored",
            outline->ranks);
    return LS_OK;
}

/* For each tower except the holder: the variables, by range; and back its sums, or what backward
 * reads. */
static ls_traffic formula(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const uint64_t elements = ls_all(s).count, flat = elements * sizeof(float);
    const uint64_t fetches = elements < (uint64_t)ranges(s) ? elements : (uint64_t)ranges(s);
    ls_traffic sum = {0};
    for (int t = 0; t < ls_replicas(s); t++) {
        ls_span kept;
        if (t == ls_holder(s))
            continue;
        ls_traffic_add(&sum, (ls_traffic){flat, fetches}, 1);
        if (!job->division.backward_held)
            ls_traffic_add(&sum, (ls_traffic){flat, 1}, ls_sums(s, t));
        for (size_t p = 0; job->division.backward_held && p < ls_pieces(s, t).count; p++)
            for (size_t k = 0; ls_kept(s, t, p, k, &kept); k++)
                ls_traffic_add(&sum, (ls_traffic){kept.bytes, 1}, 1);
    }
    return sum;
}

const ls_strategy ls_strategy_towers = {
    .name = "towers",
    .help = "in-graph: one program drives a tower per device, variables on the variable device",
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL, .parameters.on[LS_MEMBER] = LS_HELD},
    .options = (const ls_declared_option *const[]){&ls_option_variable_device,
                                                   &ls_option_colocate_gradients,
                                                   &ls_option_towers_staged, NULL},
    .resolve = resolve,
    .check = check,
    .build = build,
    .witness.formula = formula,
    .witness.sum = ls_sum_in_order,
};
