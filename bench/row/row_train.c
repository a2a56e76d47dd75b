/* SPDX-License-Identifier: MIT */
/* The group `train` of a row: losses, learning rates, accuracy; see row.h. */
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "common/kernel/rate_inline.h"

/* The learning rates: a function of the step, which of servers is a worker's. */
static void put_learning_rates(const ls_row_facts *f, json_t *row)
{
    ls_rate_schedule schedule = f->plan->job.update.schedule;
    schedule.updates = 1;
    ls_put_train_lr_last(row, ls_rate_of_step(&schedule, f->trial->learned.step_last));
    for (size_t i = 0; i < f->trial->learned.losses_kept; i++)
        ls_row_append(row, LS_F_train_lrs,
                      json_real(ls_rate_of_step(&schedule, (uint64_t)f->plan->warmup + i)));
}

void ls_row_put_train(const ls_row_facts *f, json_t *row)
{
    const ls_learned *learned = &f->trial->learned;
    const ls_case *c = f->plan->config;
    if (f->trial->session.step) {
        ls_put_train_loss_first(row, learned->loss_first);
        ls_put_train_loss_last(row, learned->loss_last);
        put_learning_rates(f, row);
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
