/* SPDX-License-Identifier: MIT */
/*
 * Gate of strategies whose replicas update alone (ls_strategy_alone). They are not meant to
 * be equal to `single`, so their grade is `none`; but they have a definition, which the oracle
 * replays: after each step every replica of all processes must have its bits there, and so must the
 * loss. Where only a library knows the order of a mean, that is within a bound of float64's.
 */
#include "bench/gate/gate.h"

#include "bench/gate/oracle.h"
#include "bench/train/trial/checked.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

typedef ls_comparison comparison;

/* The parameters of a replica of this process, to c->other. */
static ls_status gather(const comparison *c, int replica)
{
    ls_run *run = c->run[LS_CANDIDATE].run;
    return run->functions->gather_replica(run, replica, ls_job_elements(run->job), c->other);
}

ls_status ls_gate_hash_replicas(comparison *c, uint64_t step, ls_gate *gate)
{
    const size_t bytes = c->variables->elements * sizeof *c->other;
    const ls_range all = {0, c->variables->elements};
    ls_status status = LS_OK;
    for (int i = 0; i < (int)c->plan->device_count && !status; i++) {
        status = gather(c, i);
        c->hashes[i] = ls_hash64(c->other, bytes);
        if (!status)
            status = ls_gate_copies_of(&c->run[LS_CANDIDATE], i, all, c->other, c->own[LS_ORACLE],
                                       step, gate);
    }
    return ls_comm_bring(c->comm, status, c->hashes, c->plan->device_count * sizeof *c->hashes,
                         c->all);
}

/* Says where a replica differs: by element, if it is in this process. */
static ls_status note_replica(comparison *c, uint64_t step, int replica, ls_gate *gate)
{
    if (replica >= (int)c->plan->device_count) {
        ls_gate_wrong(gate,
                      "step %llu: replica %d ends with different parameters than in a run that "
                      "trains one replica at a time",
                      (unsigned long long)step, replica);
        return LS_OK;
    }
    LS_TRY(gather(c, replica));
    const ls_difference d = ls_variables_compare(c->variables, c->other, c->own[LS_ORACLE]);
    if (d.same_bits) /* except the bits of NaN */
        return LS_OK;
    const ls_variable *v = ls_variables_holding(c->variables, d.first);
    ls_gate_wrong(gate,
                  "step %llu: %s element %zu is %.9g on replica %d, but %.9g in a run that trains "
                  "one replica at a time",
                  (unsigned long long)step, v->name, d.first - v->offset,
                  ls_unsigned_nan((double)c->other[d.first]), replica,
                  ls_unsigned_nan((double)c->own[LS_ORACLE][d.first]));
    return LS_OK;
}

ls_status ls_gate_judge_replicas(comparison *c, uint64_t step, ls_gate *gate)
{
    const size_t bytes = c->variables->elements * sizeof *c->own[LS_ORACLE];
    const bool given = c->library && ls_job_fragment(&c->plan->job, step) >= 0;
    const double own = c->loss[LS_CANDIDATE], *loss = &c->loss[LS_ORACLE];
    ls_run *run = c->run[LS_ORACLE].run;
    ls_oracle_give(run, given ? c->own[LS_CANDIDATE] : NULL);
    LS_TRY(ls_session_one_step(&c->run[LS_ORACLE], c->own[LS_ORACLE], &c->loss[LS_ORACLE]));
    if (given) {
        const double sums = (double)c->variables->elements * c->plan->all_devices;
        const float *wide = ls_oracle_wide_sum(run);
        ls_gate_library(step, ls_model_distance(c->variables, c->own[LS_CANDIDATE], wide, sums),
                        "the mean that the strategy computed differs from the true mean of the "
                        "replicas' parameters",
                        gate);
    }
    for (int d = 0; d < c->plan->all_devices && gate->pass; d++) {
        LS_TRY(
            run->functions->gather_replica(run, d, ls_job_elements(run->job), c->own[LS_ORACLE]));
        if (ls_hash64(c->own[LS_ORACLE], bytes) != c->all[d])
            LS_TRY(note_replica(c, step, d, gate));
    }
    if (gate->pass && !ls_values_same(*loss, own))
        ls_gate_wrong(
            gate,
            "step %llu: the loss is %.9g, but %.9g in a run that trains one replica at a time",
            (unsigned long long)step, ls_unsigned_nan(own), ls_unsigned_nan(*loss));
    /* Before the first update the loss is `single`'s: this finds bugs that slices share. A mean of
     * the replicas' own means is another one where they have different numbers of targets. */
    const ls_job *job = &c->plan->job;
    if (gate->pass && gate->steps == 0 && !ls_sync_bn_is_own(c->plan) &&
        !(job->sampling.ragged && job->update.own_mean))
        ls_gate_whole_loss(c->plan, step, own, c->whole_loss, gate);
    return LS_OK;
}

ls_status ls_gate_judge_exchange(comparison *c, uint64_t step, ls_gate *gate)
{
    const ls_job *job = &c->plan->job;
    const int fragment = job->update.period ? ls_job_fragment(job, step) : -1;
    ls_status status = LS_OK;
    if (fragment < 0 || !ls_strategy_reduces(c->plan->strategy) || c->library ||
        c->plan->strategy->average.differ)
        return LS_OK;
    const ls_range due = ls_job_fragment_range(job, fragment);
    for (int i = 0; i < (int)c->plan->device_count && !status; i++) {
        status = gather(c, i);
        c->hashes[i] = ls_hash64(c->other + due.first, due.count * sizeof *c->other);
    }
    LS_TRY(ls_comm_bring(c->comm, status, c->hashes, c->plan->device_count * sizeof *c->hashes,
                         c->stepwise));
    gate->exchanges++;
    for (int d = 1; d < c->plan->all_devices; d++)
        gate->replicas_differ |= c->stepwise[d] != c->stepwise[0];
    if (gate->replicas_differ && gate->pass)
        ls_gate_wrong(
            gate,
            "step %llu: the replicas' parameters differ after an exchange that should make them "
            "equal; if the strategy intends this, its C code must set .average.differ",
            (unsigned long long)step);
    return LS_OK;
}

/* Compares the steps enqueued at once: they may not depend on the host waiting between them. */
static ls_status compare_at_once(comparison *c, uint64_t steps, ls_gate *gate)
{
    const size_t bytes = (size_t)c->plan->all_devices * sizeof *c->all;
    memcpy(c->stepwise, c->all, bytes);
    LS_TRY(
        ls_world_agree(c->comm, ls_session_begin_at(&c->run[LS_CANDIDATE], 0, &c->plan->initial)));
    LS_TRY(ls_gate_put(c->workplace, &c->run[LS_CANDIDATE], steps, LS_GATE_AT_ONCE,
                       ls_gate_alone_share, gate));
    if (gate->interrupted)
        return LS_OK;
    LS_TRY(ls_gate_hash_replicas(c, steps, gate));
    for (int d = 0; d < c->plan->all_devices && gate->pass && !c->library; d++)
        if (c->all[d] != c->stepwise[d])
            ls_gate_wrong(
                gate,
                "in one run of %llu step%s: replica %d ends with different parameters than "
                "when it runs the same steps one at a time",
                (unsigned long long)steps, steps == 1 ? "" : "s", d);
    return ls_gate_agree(c->comm, gate);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Kinds of steps that may not be among the first: an epoch's tail, a period's last step, and, if
 * the run has one, a step that is both. */
static ls_status compare_kinds(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_job *job = &c->plan->job;
    const uint64_t all = (uint64_t)(c->plan->warmup + c->plan->timed);
    const uint64_t epoch = ls_job_tail(job) ? ls_job_steps_per_epoch(job) : 0;
    const uint64_t period = (uint64_t)job->update.period;
    uint64_t first[3] = {epoch, period, 0}; /* numbers, from 1; 0 if there is none */
    if (epoch && period) {
        first[2] = epoch / common_divisor(epoch, period) * period;
        first[0] = first[2] == epoch ? 0 : epoch;
        first[1] = first[2] == period ? 0 : period;
    }
    for (int k = 0; k < 3; k++)
        if (first[k] > steps && (first[k] <= all || first[k] == epoch || first[k] == period))
            LS_TRY(ls_gate_compare_at(c, first[k] - 1, gate));
    const uint64_t each = period / (uint64_t)ls_job_fragments(job);
    for (uint64_t step = each; step < period; step += each) /* of a fragment's exchange */
        if (step > steps && step <= all)
            LS_TRY(ls_gate_compare_at(c, step - 1, gate));
    return LS_OK;
}

/* Where a replica of any process is not finite; all ranks learn it. */
static ls_status note_diverged(comparison *c, ls_gate *gate)
{
    const int size = c->comm ? c->comm->size : 1;
    char reason[LS_REASON_SIZE] = "";
    ls_auto char *all = NULL;
    LS_TRY(ls_allocate("gate", &all, (size_t)size, sizeof reason));
    const size_t elements = c->variables->elements;
    ls_status status = LS_OK;
    for (int i = 0; i < (int)c->plan->device_count && !status && !*reason; i++) {
        status = gather(c, i);
        const size_t e = status ? elements : ls_first_not_finite(c->other, elements);
        ls_values_diverged(c->variables, e < elements ? e : SIZE_MAX, gate->steps, reason);
    }
    status = ls_comm_bring(c->comm, status, reason, sizeof reason, all);
    for (int r = size; r-- > 0 && !status;)
        if (all[(size_t)r * sizeof reason])
            memcpy(gate->diverged, all + (size_t)r * sizeof reason, sizeof reason);
    return status;
}

ls_status ls_gate_compare_replicas(comparison *c, uint64_t steps, ls_gate *gate)
{
    if (!*gate->diverged) /* a loss, which all ranks have */
        LS_TRY(note_diverged(c, gate));
    LS_TRY(ls_gate_keep(c->workplace, &c->run[LS_CANDIDATE], gate));
    if (!steps || !gate->pass || gate->interrupted)
        return LS_OK;
    LS_TRY(ls_gate_evaluation(c, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (gate->pass)
        LS_TRY(compare_at_once(c, steps, gate));
    if (gate->pass && !gate->interrupted)
        LS_TRY(ls_gate_traffic(c->run[LS_CANDIDATE].run, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    return compare_kinds(c, steps, gate);
}

ls_status ls_gate_are_alike(const ls_plan_of_case *plan, bool *out)
{
    uint8_t kinds[LS_JOB_REPLICAS], kind = (uint8_t)plan->devices[0].kind;
    const int size = plan->job.ranks.comm ? plan->job.ranks.comm->size : 1;
    for (size_t i = 1; i < plan->device_count; i++)
        kind = plan->devices[i].kind == plan->devices[0].kind ? kind : UINT8_MAX;
    LS_TRY(ls_comm_bring(plan->job.ranks.comm, LS_OK, &kind, sizeof kind, kinds));
    *out = kind != UINT8_MAX;
    for (int r = 0; r < size; r++)
        *out = *out && kinds[r] == kind;
    return LS_OK;
}
