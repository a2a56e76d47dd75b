/* SPDX-License-Identifier: MIT */
/* What training reached, of a row; see row.h. */
#include "bench/row/row.h"

#include "bench/output/format_parts.h"

#include <math.h>

json_t *ls_row_train(const ls_row_facts *f)
{
    const ls_learned *learned = &f->trial->learned;
    const ls_case *c = f->plan->config;
    json_t *group = json_object();
    if (f->trial->session.step) {
        ls_put_real(group, "loss_first", learned->loss_first);
        ls_put_real(group, "loss_last", learned->loss_last);
        if (f->plan->job.clip > 0)
            ls_put_real(group, "gradient_norm", learned->gradient_norm);
    }
    if (learned->losses_kept) {
        json_t *losses = json_array();
        for (size_t i = 0; i < learned->losses_kept; i++)
            json_array_append_new(
                losses, isfinite(learned->losses[i]) ? json_real(learned->losses[i]) : json_null());
        json_object_set_new(group, "losses", losses);
    }
    ls_put_real(group, "accuracy", learned->accuracy);
    if (learned->evaluated)
        ls_put_integer(group, "evaluated", learned->evaluated);
    if (learned->target_reached) {
        ls_put_integer(group, "steps_to_target", learned->steps_to_target);
        ls_put_real(group, "seconds_to_target", learned->ms_to_target * 1e-3);
    }
    if (c->target_kind != LS_TARGET_NONE) {
        json_t *target = json_object();
        ls_put_real(target, c->target_kind == LS_TARGET_LOSS ? "loss" : "accuracy", c->target);
        json_object_set_new(group, "target", target);
    }
    return group;
}
