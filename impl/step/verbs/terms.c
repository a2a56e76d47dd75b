/* SPDX-License-Identifier: MIT */
/*
 * Sums that are left over between two exchanges of a step, of a member's share: subtrees of exact
 * mode's tree (slice.h). Behind each exchange its finished subtrees are copied behind the others,
 * and folded (ls_fold); so few are left. They are in slots, each as large as the shares of all
 * buckets.
 */
#include "common/comm/comm_sums.h"
#include "impl/step/verbs/build.h"

/* Terms over the shards, ascending; each is in the slot `at`. All zero: none. */
typedef struct left_over {
    ls_term items[LS_SUBTREES];
    size_t count;
    size_t slots; /* how many were in use at once */
    struct change {
        bool adds; /* adds slot `from` to `slot`; else sets `slot` to finished sum `from` */
        size_t slot, from;
    } steps[3 * LS_SUBTREES]; /* [step_count] what the latest ones taken changed */
    size_t step_count;
} left_over;

static bool is_taken(const left_over *t, size_t slot)
{
    for (size_t k = 0; k < t->count; k++)
        if (t->items[k].at == slot)
            return true;
    return false;
}

/* Takes the finished subtrees of one of `of.groups` parts of the shards, the next one that was not
 * taken. */
static void take(left_over *t, ls_rank_group of, int64_t shards)
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
        t->steps[t->step_count++] = (struct change){false, slot, k};
        for (size_t i = 0; i < sums; i++)
            t->steps[t->step_count++] = (struct change){true, added[i].into, added[i].from};
    }
}

/* A group has the shards of its exchanges one after the other, so each exchange counts as a group.
 */
ls_rank_group ls_step_dealt_to(const ls_step_plan *plan, int member, int exchange)
{
    const int exchanges = ls_slice_kept(plan->job), groups = plan->mesh.size[LS_GROUP];
    const int group = groups > 1 ? ls_step_plan_set(plan, member) : 0;
    return groups * exchanges > 1
               ? (ls_rank_group){group * exchanges + exchange, groups * exchanges}
               : (ls_rank_group){0};
}

size_t ls_group_share_before(const ls_planned_group *g, size_t buckets, const ls_comm *comm)
{
    size_t sum = 0;
    for (size_t b = 0; b < buckets; b++)
        sum += ls_bucket_share(&g->buckets, b, comm->rank, comm->size).count;
    return sum;
}

size_t ls_group_slots(const ls_step_plan *plan, const ls_planned_group *g, int member)
{
    const ls_job *job = plan->job;
    left_over terms = {0};
    if (!ls_step_folds(job) || g - plan->groups >= ls_step_plan_sets(plan))
        return 0;
    for (int kind = 0; kind < LS_BATCHES; kind++) {
        terms.count = 0;
        for (int e = 0; e < ls_slice_kept(job) && ls_shards_of(job, kind); e++)
            take(&terms, ls_step_dealt_to(plan, member, e), ls_shards_of(job, kind));
    }
    return terms.slots;
}

/* Where a member has slots of sums of its share of a bucket. */
typedef struct slots {
    float *first;
    size_t count; /* elements from a slot to the next */
} slots;

static slots slots_of(const ls_step *s, int member, int bucket)
{
    const int set = ls_step_plan_set(s->plan, member);
    const ls_planned_group *g = &s->plan->groups[set];
    const ls_end *end = &s->resources->ends[LS_GROUPS + set].items[member];
    return (slots){(float *)end->terms + ls_group_share_before(g, (size_t)bucket, end->comm),
                   ls_group_share_before(g, g->buckets.count, end->comm)};
}

static float *slot_at(const slots *of, size_t slot)
{
    return of->first + slot * of->count;
}

/* Sets `terms` to the sums that are left over behind the exchange. */
static void find_terms(const ls_step *s, int member, left_over *terms)
{
    *terms = (left_over){0};
    for (int e = 0; e <= s->exchange; e++)
        take(terms, ls_step_dealt_to(s->plan, member, e), ls_step_shards(s));
}

/* Appends what adds the finished sums of a member's share of a bucket to earlier exchanges' sums.
 * Behind the last one, a single sum goes to where the share is kept. */
ls_status ls_step_fold_share(const ls_step *s, const ls_end *end, int member, int bucket,
                             const ls_brought *b, ls_op_list *ops)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_planned_group *g = &s->plan->groups[ls_step_plan_set(s->plan, member)];
    const ls_range share =
        ls_bucket_share(&g->buckets, (size_t)bucket, end->comm->rank, end->comm->size);
    const slots own = slots_of(s, member, bucket);
    float *sums[LS_SUBTREES];
    ls_sum_step steps[3 * LS_SUBTREES + 1];
    left_over terms;
    ls_replica_at at;
    ls_op *op;
    size_t count;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    LS_TRY(ls_canonical_sums(end->comm, &b->args, sums, &count));
    find_terms(s, member, &terms);
    for (count = 0; count < terms.step_count; count++) {
        const struct change *step = &terms.steps[count];
        float *slot = slot_at(&own, step->slot);
        steps[count] = step->adds ? (ls_sum_step){slot, slot, slot_at(&own, step->from)}
                                  : (ls_sum_step){slot, sums[step->from], NULL};
    }
    if (ls_step_last_exchange(s) && s->plan->mesh.size[LS_GROUP] == 1)
        steps[count++] = (ls_sum_step){(float *)r->gradients + at.gradients,
                                       slot_at(&own, terms.items[0].at), NULL};
    if (!count)
        return LS_OK;
    LS_TRY(ls_sums_make(r->device, "allreduce.terms", steps, count, share.count, &op));
    return ls_op_list_add(ops, op);
}

void ls_step_bring_terms(const ls_step *s, int member, int bucket, ls_brought *b)
{
    const slots own = slots_of(s, member, bucket);
    left_over terms;
    find_terms(s, member, &terms);
    for (; b->args.sum_count < terms.count; b->args.sum_count++)
        b->sums[b->args.sum_count] = slot_at(&own, terms.items[b->args.sum_count].at);
    b->args.sums = b->sums;
}
