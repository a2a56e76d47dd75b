/* SPDX-License-Identifier: MIT */
/*
 * Memory of pieces that advance node by node together: so a bucket's parameters are needed once in
 * each pass, and its gradients are final before other nodes' gradients begin (windows.h); and
 * statistics can be of the whole batch (slice_statistics.c). All pieces of an exchange are in
 * memory; their gradients of a node are on the stack of slice.c, and added there before the next
 * node's, so that few are held at once.
 */
#include "impl/replica/slice_private.h"

/* Rows of the memory of piece number `piece`, for the full batch and the tail, of which either may
 * have more. In a tree, and where exchanges share a slot, it has room for any piece. */
static int64_t rows_of(const ls_slice *s, int piece, int64_t largest)
{
    const ls_job *job = s->options.replica->job;
    const int64_t batches[] = {s->options.batch, job->batch, ls_job_tail(job)};
    int64_t most = 0;
    if (!s->chained || ls_job_pieces(job) == 1 || ls_slice_exchanges(job) > 1)
        return largest;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        ls_slice_options of = s->options;
        of.batch = batches[b];
        ls_slice_dealt dealt = ls_slice_deal(job, &of, 0);
        for (int left = piece; dealt.first < dealt.last && left >= 0; dealt.first++) {
            const int64_t rows = ls_slice_share(of.batch, dealt.first, dealt.all);
            left -= rows > 0;
            most = left < 0 && rows > most ? rows : most;
        }
    }
    return most;
}

/* Gives pieces memory and loss: the first piece of a sum has the sum's number, all others come
 * behind. */
static ls_status find_slots(ls_slice *s)
{
    size_t sum = 0, next = s->order.sums;
    for (size_t i = 0; i < s->order.count; i++) {
        const bool begins = sum < s->order.sums && s->order.begins[sum] == i;
        if (!s->order.items[i].adds)
            s->order.items[i].slot = begins ? sum++ : next++;
    }
    return next <= LS_REPLICA_LOSSES
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                         "a device would compute %zu shards at once, but the limit is %d; use "
                         "fewer --micro-shards, or more --devices",
                         next, (int)LS_REPLICA_LOSSES);
}

ls_status ls_slice_open_abreast(ls_slice *s, int64_t rows)
{
    const ls_slice_item *end = s->order.items + s->order.count;
    ls_net *net;
    LS_TRY(find_slots(s));
    for (const ls_slice_item *i = s->order.items; i < end; i++)
        LS_TRY(ls_slice_need_level(s, i->level));
    /* A slot's largest, whose memory others share; the largest of all, whose scratch is, first. */
    for (int smaller = 0; smaller < 2; smaller++)
        for (const ls_slice_item *i = s->order.items; i < end; i++) {
            const int64_t taken = i->adds ? 0 : rows_of(s, i->piece - s->piece, rows);
            for (int c = 0; c < ls_slice_chunks(s) && taken && (taken < rows) == smaller; c++)
                LS_TRY(ls_slice_need_net(s, i->level, taken, c, (int)i->slot, &net));
        }
    return LS_OK;
}

int ls_slice_first_slot(const ls_slice *s, int chunk)
{
    const ls_job *job = s->options.replica->job;
    int64_t most = 1;
    if (!ls_slice_abreast(s))
        return 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++) {
        const ls_slice_dealt dealt = ls_slice_deal(job, &s->options, e);
        most = dealt.last - dealt.first > most ? dealt.last - dealt.first : most;
    }
    const int flying = s->options.slots ? s->options.slots[chunk] / (int)most : 1;
    return s->building % ls_parts_of(flying) * (int)most;
}
