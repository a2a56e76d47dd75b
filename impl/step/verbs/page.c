/* SPDX-License-Identifier: MIT */
/*
 * One page that covers every strategy's own page (test_pages.sh compares them, task by task):
 * passes up to an exchange, whose gradients are summed as they become final; each member's update
 * of the elements it owns; then the elements go to the members that need them. A buffer that
 * already is as needed is not moved.
 */
#include "impl/step/verbs/build.h"

/* Passes of replicas that are whole, bucket by bucket. */
static void run_whole(ls_step *s, int buckets)
{
    for (int r = 0; r < ls_replicas(s) && !buckets; r++) {
        ls_forward(s, r, ls_all(s));
        ls_backward(s, r, ls_all(s));
    }
    for (int b = buckets; b-- > 0;) {
        ls_need(s, b, LS_PASS_FORWARD);
        for (int r = 0; r < ls_replicas(s); r++)
            ls_forward(s, r, ls_bucket(s, b));
    }
    for (int b = 0; b < buckets; b++) {
        ls_need(s, b, LS_PASS_BACKWARD);
        for (int r = 0; r < ls_replicas(s); r++)
            ls_backward(s, r, ls_bucket(s, b));
        ls_give(s, b);
    }
}

/* Passes of a divided replica, or of all together, which also exchange. */
static void run_divided(ls_step *s, int replica)
{
    ls_pass pass;
    for (size_t i = 0; ls_next_pass(s, replica, i, &pass); i++)
        ls_run_pass(s, replica, &pass);
}

void ls_build(ls_step *s)
{
    const int buckets = s->plan->group_count ? ls_bucket_count(s) : 0;
    const bool divided = s->plan->parts.count;
    const bool by_node = divided && ls_step_by_node(s);
    if (by_node)
        run_divided(s, LS_EVERY_REPLICA);
    for (int e = 0; !by_node && ls_next_exchange(s, e); e++) {
        for (int r = 0; r < ls_replicas(s) && divided; r++)
            run_divided(s, r);
        for (int b = 0; b < buckets && divided; b++)
            ls_give(s, b);
        if (!divided)
            run_whole(s, buckets);
    }
    ls_clip_gradients(s, LS_TOGETHER);
    for (int m = 0; m < ls_members(s); m++) {
        const ls_planned_group *g = ls_step_planned_group(s->plan, s->plan->members[m].place);
        for (int b = g->before; buckets && b < g->before + (int)g->buckets.count; b++)
            ls_update(s, m, ls_share(s, m, b));
        if (!buckets)
            ls_update(s, m, ls_all(s));
    }
    ls_settle(s);
}
