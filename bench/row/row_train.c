/* SPDX-License-Identifier: MIT */
/* What a trial's training reached, saved and took; see row.h. */
#include "bench/row/row.h"

#include "bench/rows/put.h"
#include "bench/train/session.h"
#include "common/kernel/step_inline.h"

#include <math.h>
#include <unistd.h>

/* Targets of the last step's batch. */
static void put_targets(const ls_row_facts *f, json_t *row)
{
    const ls_job *job = &f->plan->job;
    const uint64_t step = f->trial->learned.step_last;
    const ls_sample_order order = {job->data->train.samples, job->seed, job->sampling.shuffle};
    ls_order_epoch cache = {.epoch = UINT64_MAX};
    int64_t targets = 0;
    const uint64_t first = ls_job_samples(job, step);
    const uint64_t end = ls_job_samples(job, step + 1);
    for (uint64_t i = first; i < end; i++) {
        uint32_t sample;
        ls_order_samples(&order, i, 1, &cache, &sample);
        targets += ls_targets_of(ls_random_stream(0, "lengths"), sample, job->model->need.targets);
    }
    ls_put_train_targets(row, targets);
}

static void put_train(const ls_row_facts *f, json_t *row)
{
    const ls_learned *learned = &f->trial->learned;
    const ls_case *c = f->plan->config;
    if (f->trial->session.step > f->plan->job.start) {
        ls_put_train_loss_first(row, learned->loss_first);
        ls_put_train_loss_last(row, learned->loss_last);
        ls_rate_schedule schedule = f->plan->job.update.schedule;
        const uint64_t first = f->plan->job.start + (uint64_t)f->plan->warmup;
        schedule.updates = 1; /* a function of the step, which of servers is a worker's */
        ls_put_train_lr_last(row, ls_rate_of_step(&schedule, learned->step_last));
        for (size_t i = 0; i < learned->losses_kept; i++)
            ls_row_append(row, LS_F_train_lrs, json_real(ls_rate_of_step(&schedule, first + i)));
        if (f->plan->job.sampling.ragged)
            put_targets(f, row);
        if (f->plan->job.update.clip > 0)
            ls_put_train_gradient_norm(row, learned->gradient_norm);
    }
    if (learned->losses_kept)
        ls_put_train_losses(row, ls_reals(learned->losses, learned->losses_kept));
    ls_put_train_accuracy(row, learned->accuracy);
    ls_put_train_evaluated(row, ls_nonzero(learned->evaluated));
    if (learned->target_reached) {
        ls_put_train_steps_to_target(row, learned->steps_to_target);
        ls_put_train_seconds_to_target(row, learned->ms_to_target * 1e-3);
    }
    if (c->target_kind == LS_TARGET_LOSS)
        ls_put_train_target_loss(row, c->target);
    else if (c->target_kind != LS_TARGET_NONE)
        ls_put_train_target_accuracy(row, c->target);
}

/* What replicas that update alone exchange at ends of periods. */
static void put_exchange(const ls_row_facts *f, json_t *row)
{
    if (!f->plan->job.update.period || !ls_strategy_reduces(f->plan->strategy))
        return;
    if (f->trial) {
        ls_put_exchange_count(row, f->trial->learned.exchanged.count);
        if (f->plan->job.exchange.wire != LS_WIRE_FLOAT32)
            ls_put_exchange_wire_error(row, f->trial->learned.exchanged.wire_error);
    }
    if (f->gate && f->gate->exchanges)
        ls_put_exchange_replicas_equal(row, !f->gate->replicas_differ);
}

static void put_checkpoint(const ls_row_facts *f, json_t *row)
{
    const ls_saved *saved = f->trial ? &f->trial->saved : NULL;
    if (saved && saved->count) {
        ls_put_checkpoint_step(row, saved->step);
        ls_put_checkpoint_bytes(row, saved->bytes);
        ls_put_checkpoint_count(row, saved->count);
        ls_put_checkpoint_blocked_ms(row, (double)saved->time_ns * 1e-6);
    }
    if (ls_plan_is_resumed(f->workplace))
        ls_put_checkpoint_resumed_step(row, f->plan->job.start);
}

/* Changes of members. */
static void put_elastic(const ls_row_facts *f, json_t *row)
{
    const ls_elastic *all = f->plan->elastic;
    const ls_changes *changes = f->trial ? &f->trial->changes : NULL;
    uint64_t moved = 0;
    if (!changes || !changes->end)
        return;
    for (size_t i = changes->begin; i < changes->end; i++) {
        json_t *event = ls_row_make(row, LS_G_elastic_events);
        ls_put_elastic_events_step(event, all->events[i].step);
        ls_put_elastic_events_kind(event, ls_elastic_words[all->events[i].kind]);
        ls_put_elastic_events_replica(event, all->events[i].replica);
        ls_put_elastic_events_members(event, changes->members[i]);
        ls_put_elastic_events_moved_bytes(event, changes->moved_bytes[i]);
        moved += changes->moved_bytes[i];
    }
    ls_put_elastic_moved_bytes(row, moved);
    ls_put_elastic_paused_ms(row, (double)changes->paused_ns * 1e-6);
    ls_put_elastic_void_steps(row, changes->void_steps);
}

void ls_row_put_trained(const ls_row_facts *f, json_t *row)
{
    put_exchange(f, row);
    if (f->trial)
        put_train(f, row);
    put_checkpoint(f, row);
    put_elastic(f, row);
}

/* ---- Noise ----------------------------------------------------------------------------------- */

void ls_row_put_noise(const ls_row_facts *f, json_t *row)
{
    const ls_noise *noise = &f->trial->noise;
    const ls_noise_found found = ls_noise_judge(noise, 1.0 / (double)sysconf(_SC_CLK_TCK));
    /* Threads of other ranks, which this process cannot subtract, may run on its cores: they wait
     * while it trains alone. */
    const bool has_siblings =
        !f->plan->job.ranks.comm && f->workplace->request->processes->parts > 1;
    if (isfinite(found.others) && !has_siblings) {
        int cores[64];
        const size_t count = ls_noise_list(&noise->devices[found.device].cores, cores, 64);
        ls_put_noise_others(row, found.others);
        ls_put_noise_cores(row, json_array());
        for (size_t c = 0; c < count; c++)
            ls_row_append(row, LS_F_noise_cores, json_integer(cores[c]));
    }
    ls_put_noise_stolen(row, found.stolen);
    ls_put_noise_throttled(row, found.throttled);
    ls_put_noise_heat(row, noise->hot_last - noise->hot_first);
    ls_put_noise_mhz_first(row, noise->mhz_first);
    ls_put_noise_mhz_last(row, noise->mhz_last);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

json_t *ls_row_add_memory(json_t *row, const char *name, const ls_memory_ledger *ledger,
                          const size_t formula[LS_MEMORY_USES])
{
    json_t *device = ls_row_make(row, LS_G_memory_devices);
    size_t peak = 0;
    ls_put_memory_devices_device(device, name);
    for (int use = 0; use < LS_MEMORY_USES; use++) {
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_parameters + use),
                       (int64_t)ledger->in_use[use]);
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_formula_parameters + use),
                       (int64_t)formula[use]);
        peak += formula[use];
    }
    ls_put_memory_devices_formula_peak(device, peak);
    for (int type = 0; type < LS_MEMORY_TYPES; type++)
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_types_float32 + type),
                       (int64_t)ledger->of_type[type]);
    ls_put_memory_devices_reserved(device, ledger->reserved);
    ls_put_memory_devices_peak(device, ledger->in_use_peak);
    return device;
}

void ls_row_put_memory(const ls_row_facts *f, json_t *row)
{
    const ls_trial *trial = f->trial;
    ls_run *run = trial->session.run;
    for (size_t i = 0; i < trial->session.device_count; i++) {
        const ls_memory_formula formula = run->functions->memory(run, i);
        json_t *device = ls_row_add_memory(row, ls_device_describe(trial->session.devices[i])->text,
                                           &trial->reported.ledgers[i], formula.bytes);
        ls_put_memory_devices_allocations(device, trial->reported.ledgers[i].allocations);
    }
    if (trial->timed.done)
        ls_put_memory_growth_per_step(row, ls_growth_per_step(&trial->growth));
    if (trial->reported.rss_peak && !f->shared)
        ls_put_memory_rss_peak(row, trial->reported.rss_peak);
}
