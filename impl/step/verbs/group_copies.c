/* SPDX-License-Identifier: MIT */
/*
 * All-gathers of the rounded parameters that layers read, where replicas update shares: two bytes
 * an element. Each member sends its share to every other one, n - 1 messages each, as many as in a
 * ring. The share of a window is rounded from the masters anew.
 */
#include "impl/step/verbs/build.h"

/* A bucket of a group. */
typedef struct gathered {
    const ls_buckets *buckets;
    size_t bucket;
} gathered;

/* Where a member has elements of the bucket when it is whole. */
static uint16_t *copies_at(const ls_replica *r, const gathered *of, ls_range range)
{
    const size_t first = of->buckets->items[of->bucket].first;
    return (uint16_t *)r->windows.whole_parameters + ls_windows_at(r->windows.parameters, first) +
           (range.first - first);
}

static ls_status round_share(const ls_replica *r, const gathered *of, ls_range own, ls_op_list *ops)
{
    ls_narrow_args args = {.count = (int64_t)own.count, .y = copies_at(r, of, own)};
    ls_replica_at at;
    ls_op *op;
    LS_TRY(ls_replica_find(r, own, &at));
    args.x = (const float *)r->masters + at.state;
    LS_TRY(r->kernels->table->narrow(r->kernels, &args, &op));
    op->use = LS_TIME_COMMUNICATION;
    return ls_op_list_add(ops, op);
}

static ls_status make(ls_step *s, const ls_call *call, int member, ls_brought *brought,
                      ls_op_list *ops)
{
    const gathered *of = call->of;
    ls_comm *comm = s->resources->ends[call->channel].items[member].comm;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_range own = ls_bucket_share(of->buckets, of->bucket, comm->rank, comm->size);
    (void)brought;
    if (r->windows.parameters && own.count)
        LS_TRY(round_share(r, of, own, ops));
    const ls_rounded whole = {copies_at(r, of, of->buckets->items[of->bucket]),
                              of->buckets->extents[of->bucket], NULL};
    return ls_rounded_sum(comm, r->kernels, LS_ALL_GATHER, &whole, ops);
}

void ls_step_gather_copies(ls_step *s, int group, int b)
{
    const gathered of = {&s->plan->groups[group].buckets, (size_t)b};
    ls_step_call(s, &(ls_call){.channel = LS_GROUPS + group,
                               .half = LS_ALL_GATHER,
                               .range = of.buckets->items[b],
                               .make = make,
                               .of = &of});
}
