/* SPDX-License-Identifier: MIT */
/* The group `train` of a row: losses, learning rates, accuracy; see row.h. */
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "common/kernel/step_inline.h"

/* The learning rates: a function of the step, which of servers is a worker's. */
static void put_learning_rates(const ls_row_facts *f, json_t *row)
{
    ls_rate_schedule schedule = f->plan->job.update.schedule;
    const uint64_t first = f->plan->job.start + (uint64_t)f->plan->warmup;
    schedule.updates = 1;
    ls_put_train_lr_last(row, ls_rate_of_step(&schedule, f->trial->learned.step_last));
    for (size_t i = 0; i < f->trial->learned.losses_kept; i++)
        ls_row_append(row, LS_F_train_lrs, json_real(ls_rate_of_step(&schedule, first + i)));
}

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

void ls_row_put_train(const ls_row_facts *f, json_t *row)
{
    const ls_learned *learned = &f->trial->learned;
    const ls_case *c = f->plan->config;
    if (f->trial->session.step > f->plan->job.start) {
        ls_put_train_loss_first(row, learned->loss_first);
        ls_put_train_loss_last(row, learned->loss_last);
        put_learning_rates(f, row);
        if (f->plan->job.sampling.ragged)
            put_targets(f, row);
        if (f->plan->job.update.clip > 0)
            ls_put_train_gradient_norm(row, learned->gradient_norm);
    }
    if (learned->losses_kept)
        ls_put_train_losses(row, ls_reals(learned->losses, learned->losses_kept));
    ls_put_train_accuracy(row, learned->accuracy);
    if (learned->evaluated)
        ls_put_train_evaluated(row, learned->evaluated);
    if (learned->target_reached) {
        ls_put_train_steps_to_target(row, learned->steps_to_target);
        ls_put_train_seconds_to_target(row, learned->ms_to_target * 1e-3);
    }
    if (c->target_kind == LS_TARGET_LOSS)
        ls_put_train_target_loss(row, c->target);
    else if (c->target_kind != LS_TARGET_NONE)
        ls_put_train_target_accuracy(row, c->target);
}

void ls_row_put_exchange(const ls_row_facts *f, json_t *row)
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
