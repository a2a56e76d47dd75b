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

static ls_range share_of(const gathered *of, int member, int members)
{
    return ls_bucket_share(of->buckets, of->bucket, member, members);
}

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
    const ls_end *end = &s->resources->ends[call->channel].items[member];
    const ls_replica *r = ls_step_replica(s, member);
    const int n = end->comm->size, me = end->comm->rank;
    const ls_range own = share_of(of, me, n);
    (void)brought;
    if (r->windows.parameters && own.count)
        LS_TRY(round_share(r, of, own, ops));
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const ls_range theirs = share_of(of, from, n);
        const ls_exchange exchange = {.bytes = true,
                                      .to = own.count ? to : -1,
                                      .send = (const float *)(void *)copies_at(r, of, own),
                                      .send_count = own.count * sizeof(uint16_t),
                                      .from = theirs.count ? from : -1,
                                      .receive = (float *)(void *)copies_at(r, of, theirs),
                                      .receive_count = theirs.count * sizeof(uint16_t)};
        ls_op *op;
        if (!own.count && !theirs.count)
            continue;
        LS_TRY(ls_comm_exchange(end->comm, &exchange, &op));
        op->use = LS_TIME_COMMUNICATION;
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
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

ls_traffic ls_step_copies_traffic(const ls_step *s, int group, int b)
{
    const gathered of = {&s->plan->groups[group].buckets, (size_t)b};
    const int n = s->plan->mesh.size[LS_MEMBER];
    const uint64_t others = (uint64_t)n - 1;
    ls_traffic sum = {.bytes_sent = others * of.buckets->items[b].count * sizeof(uint16_t)};
    for (int d = 0; d < n; d++)
        sum.messages_sent += share_of(&of, d, n).count ? others : 0;
    return sum;
}
