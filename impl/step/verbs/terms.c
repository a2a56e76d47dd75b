/* SPDX-License-Identifier: MIT */
/*
 * Sums that are left over between two exchanges of a step, of a member's share: subtrees of exact
 * mode's tree (slice.h). Behind each exchange its finished subtrees are copied behind the others,
 * and folded (ls_fold); so few are left. They are in slots, each as large as the shares of all
 * buckets.
 */
#include "impl/step/verbs/terms.h"

static bool is_taken(const ls_terms *t, size_t slot)
{
    for (size_t k = 0; k < t->count; k++)
        if (t->items[k].at == slot)
            return true;
    return false;
}

void ls_terms_take(ls_terms *t, ls_rank_group of, int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    ls_addition added[LS_SUBTREES];
    const size_t count = ls_canonical_subtrees(of.group, of.groups, shards, nodes);
    t->step_count = 0;
    for (size_t k = 0; k < count; k++) {
        size_t slot = 0, sums = 0;
        while (is_taken(t, slot))
            slot++;
        t->slots = slot < t->slots ? t->slots : slot + 1;
        t->items[t->count++] = (ls_term){nodes[k], slot};
        t->count = ls_fold(t->items, t->count, shards, added, &sums);
        t->steps[t->step_count++] = (struct ls_term_step){false, slot, k};
        for (size_t i = 0; i < sums; i++)
            t->steps[t->step_count++] = (struct ls_term_step){true, added[i].into, added[i].from};
    }
}
