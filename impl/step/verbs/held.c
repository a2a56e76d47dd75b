/* SPDX-License-Identifier: MIT */
/* The sum of all replicas' gradients on the member that holds the variables; see step.h. */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

/* Makes a member's sum number `index` readable by the holder; `only`: there is no other sum. */
static ls_span bring(ls_step *s, int member, size_t index, bool only)
{
    ls_replica *holder = ls_step_replica(s, ls_holder(s));
    const ls_span sum = ls_gradient(s, member, index, ls_all(s));
    ls_span target = {ls_holder(s), holder->gradients, sum.bytes};
    if (!ls_cross_devices(s, member, target.member) && !only)
        return sum;
    if (!only)
        ls_step_fail(s, ls_replica_take(holder, "staging", LS_MEMORY_COMMUNICATION, sum.bytes,
                                        &target.memory));
    if (!s->program->status && target.memory != sum.memory)
        ls_step_copy(s, "send", member, target, sum);
    return target;
}

void ls_add_up(ls_step *s, const int *members, int count)
{
    const int holder = ls_holder(s);
    size_t parts = 0, at = 0;
    if (!ls_step_can(s, holder >= 0, "ls_add_up",
                     "cannot be called in this strategy, since no device holds the variables for "
                     "others; set .variables to LS_HELD"))
        return;
    for (int i = 0; i < count; i++)
        parts += ls_sums(s, i);
    ls_auto ls_span *spans = NULL;
    ls_step_fail(s, ls_allocate("step", &spans, parts, sizeof *spans));
    for (int i = 0; i < count && !s->program->status; i++)
        for (size_t k = 0; k < ls_sums(s, i) && !s->program->status; k++)
            spans[at++] = bring(s, members[i], k, parts == 1);
    ls_step_sum(s, holder, ls_no_range, spans, count, ls_step_replica(s, holder)->gradients);
}
