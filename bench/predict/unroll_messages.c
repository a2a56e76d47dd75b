/* SPDX-License-Identifier: MIT */
/* Messages of unrolled steps; see unroll_parts.h. */
#include "bench/predict/unroll_parts.h"

#include "common/base/digest.h"
#include "common/base/grow.h"

#include <stdlib.h>

static ls_unroll_channel *find(const ls_unroller *u, const void *group, int from, int to)
{
    struct {
        const void *group;
        int from, to;
    } key = {group, from, to};
    size_t s = (size_t)ls_hash64(&key, sizeof key) & (u->channel_count - 1);
    while (u->channels[s].group && (u->channels[s].group != group || u->channels[s].from != from ||
                                    u->channels[s].to != to))
        s = (s + 1) & (u->channel_count - 1);
    return &u->channels[s];
}

/* The table is at most half full. */
ls_status ls_unroll_channel_of(ls_unroller *u, const void *group, int from, int to,
                               ls_unroll_channel **out)
{
    if (2 * (u->channels_used + 1) > u->channel_count) {
        ls_auto ls_unroll_channel *old = u->channels;
        const size_t count = u->channel_count;
        u->channel_count = count ? 2 * count : 256;
        LS_TRY(ls_allocate("predict", &u->channels, u->channel_count, sizeof *u->channels));
        for (size_t i = 0; i < count; i++)
            if (old[i].group)
                *find(u, old[i].group, old[i].from, old[i].to) = old[i];
    }
    *out = find(u, group, from, to);
    u->channels_used += !(*out)->group;
    (*out)->group = group;
    (*out)->from = from;
    (*out)->to = to;
    return LS_OK;
}

void ls_unroll_count_sent(ls_unroller *u, size_t bytes, size_t messages)
{
    if (u->step < u->counted)
        return;
    u->out->sent.bytes_sent += bytes;
    u->out->sent.messages_sent += messages;
}

/* Time until a thread runs again, which takes no core. */
ls_status ls_unroll_wake(ls_unroller *u, int device, double ns, uint32_t *tail)
{
    if (!(ns > 0))
        return LS_OK;
    LS_TRY(ls_play_delay(&u->out->graph, u->step, device, ns, *tail, tail));
    u->out->graph.nodes[*tail].rounds = 1;
    return LS_OK;
}

/* A thread that begins or ends a transfer needs its core, however shortly. */
double ls_unroll_begin_ns(const ls_unroller *u)
{
    static const double begin_ns = 1000;
    return u->times ? begin_ns : 0;
}

/* Both ends are there. */
static ls_status meet(ls_unroller *u, const ls_message_end *send, const ls_message_end *receive)
{
    ls_play_graph *g = &u->out->graph;
    const ls_durations *d = u->what->durations;
    uint32_t message, taken;
    if (send->count != receive->count)
        return ls_fail(LS_CODE_CHECK, "predict", "message",
                       "a rank sends %zu bytes, but the other rank receives %zu; this is a bug of "
                       "the strategy: lockstep verify shows where",
                       send->count, receive->count);
    if (send->device == receive->device) {
        LS_TRY(ls_play_delay(g, u->step, receive->device, d->copy_ns * (double)send->count,
                             send->ready, &message));
    } else {
        LS_TRY(ls_play_message(g, u->step, send->device, receive->device, (double)send->count,
                               send->rounds, send->ready, &message));
        ls_unroll_count_sent(u, send->count, send->rounds);
    }
    LS_TRY(ls_play_wait(g, receive->ready, message));
    const double ns = d->add_ns * (double)receive->added + ls_unroll_begin_ns(u);
    taken = message;
    if (u->times && receive->rounds) {
        const double slept =
            ls_platform_message_ns(u->what->platform, u->what->devices_per_host, send->device,
                                   receive->device, (double)send->count / receive->rounds);
        LS_TRY(ls_unroll_wake(u, receive->device,
                              ls_message_cost(u->times->ns[LS_WAKE], slept) * receive->rounds,
                              &taken));
    }
    if (ns > 0)
        LS_TRY(ls_play_delay(g, u->step, receive->device, ns, taken, &taken));
    /* the receiver's thread copies within a device: the sender's has to run again, and comes last
     */
    uint32_t sent = taken;
    if (send->device == receive->device && u->times) {
        LS_TRY(ls_unroll_wake(u, send->device, 2 * u->times->ns[LS_WITHIN][LS_SLEPT / 2], &sent));
        LS_TRY(ls_play_delay(g, u->step, send->device, ls_unroll_begin_ns(u), sent, &sent));
    }
    LS_TRY(ls_play_wait(g, sent, send->join));
    return send->join == receive->join ? LS_OK : ls_play_wait(g, taken, receive->join);
}

/* An end of a message arrives: meets the other end, or waits for it. */
static ls_status arrive(ls_unroller *u, const void *group, int from, int to, bool sends,
                        const ls_message_end *end)
{
    ls_unroll_channel *c;
    LS_TRY(ls_unroll_channel_of(u, group, from, to, &c));
    if (c->first && c->sends != sends) {
        const ls_message_end theirs = u->pending[c->first - 1];
        c->first = theirs.next;
        u->waiting--;
        return sends ? meet(u, end, &theirs) : meet(u, &theirs, end);
    }
    LS_TRY(ls_grow("predict", &u->pending, u->pending_count, sizeof *u->pending));
    u->pending[u->pending_count++] = *end;
    if (c->first)
        u->pending[c->last - 1].next = u->pending_count;
    else
        c->first = u->pending_count;
    c->last = u->pending_count;
    c->sends = sends;
    u->waiting++;
    return LS_OK;
}

/* Makes one activity of the operations so far; `always`: even if there are none. */
ls_status ls_unroll_flush(ls_unroller *u, ls_unroll_task *w, bool always)
{
    if (!always && !(w->ns > 0))
        return LS_OK;
    LS_TRY(ls_play_delay(&u->out->graph, u->step, w->device, w->ns, w->tail, &w->tail));
    if (w->ns > 0)
        ls_play_show(&u->out->graph, w->tail,
                     (ls_play_label){w->name, w->lane, w->use, LS_PLAY_NONE, w->microbatch});
    w->ns = 0;
    return LS_OK;
}

ls_status ls_unroll_move(ls_unroller *u, ls_unroll_task *w, const ls_virtual_comm *comm,
                         const ls_move *m)
{
    const bool meets = m->to >= 0 || m->from >= 0;
    w->ns += m->summed * u->what->durations->add_ns + (meets ? ls_unroll_begin_ns(u) : 0);
    LS_TRY(ls_unroll_flush(u, w, false));
    if (!meets)
        return LS_OK;
    ls_message_end end = {.ready = w->tail, .device = w->device};
    LS_TRY(ls_play_delay(&u->out->graph, u->step, w->device, 0, w->tail, &end.join));
    ls_play_show(&u->out->graph, end.join,
                 (ls_play_label){w->name, w->lane, LS_TIME_COMMUNICATION, w->tail, w->microbatch});
    w->tail = end.join;
    if (m->to >= 0) {
        end.count = m->sent * (m->bytes ? 1 : sizeof(float));
        end.rounds = m->sent_rounds;
        LS_TRY(arrive(u, comm->group, comm->rank, m->to, true, &end));
    }
    if (m->from < 0)
        return LS_OK;
    end.count = m->received * (m->bytes ? 1 : sizeof(float));
    end.added = m->added;
    end.rounds = m->came_rounds;
    return arrive(u, comm->group, m->from, comm->rank, false, &end);
}
