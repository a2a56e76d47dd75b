/* SPDX-License-Identifier: MIT */
/* The verbs of servers; see ps_step.h. */
#include "common/base/grow.h"
#include "impl/ps/ps_step.h"
#include "impl/ps/served.h"
#include "impl/step/verbs/build.h"

/* ---- Servers and their ranges ---------------------------------------------------------------- */

static const ls_ps_layout *layout_of(const ls_step *s)
{
    return &s->plan->placed;
}

int ls_server(const ls_step *s, int k)
{
    return k < layout_of(s)->servers ? layout_of(s)->workers + k : -1;
}

static int number_of(const ls_step *s, int server)
{
    return server - layout_of(s)->workers;
}

static ls_served_server *server_at(const ls_step *s, int server)
{
    return &s->resources->served->servers[number_of(s, server)];
}

bool ls_shard_range(const ls_step *s, int server, size_t i, ls_range *out)
{
    return ls_ps_layout_range(layout_of(s), number_of(s, server), i, out);
}

bool ls_pushed_range(const ls_step *s, size_t i, ls_pushed *out)
{
    const ls_ps_layout *l = layout_of(s);
    if (i >= l->pushed_count)
        return false;
    const ls_ps_range *range = &l->pushed[i];
    *out = (ls_pushed){range->range, ls_server(s, range->server), true};
    while (++i < l->pushed_count && out->last)
        out->last = l->pushed[i].server != range->server;
    return true;
}

size_t ls_step_offset(const ls_step *s, int member, ls_range range)
{
    const ls_ps_layout *l = layout_of(s);
    for (size_t i = 0; l->servers && member >= l->workers && i < l->range_count; i++) {
        const ls_ps_range *part = &l->ranges[i];
        if (part->server == number_of(s, member) && range.first >= part->range.first &&
            range.first < part->range.first + part->range.count)
            return part->at + range.first - part->range.first;
    }
    return range.first;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Both batch sizes share the buffers. */
void *ls_served_sum(ls_step *s, int server, size_t sum)
{
    ls_served_server *at = server_at(s, server);
    ls_replica *r = ls_step_replica(s, server);
    while (sum > at->arrival_count && !s->program->status) {
        s->program->status =
            ls_grow("step", &at->arrivals, at->arrival_count, sizeof *at->arrivals);
        if (!s->program->status)
            s->program->status =
                ls_replica_take(r, "arrivals", LS_MEMORY_COMMUNICATION, r->elements * sizeof(float),
                                &at->arrivals[at->arrival_count]);
        at->arrival_count += !s->program->status;
    }
    return s->program->status ? NULL : sum ? at->arrivals[sum - 1] : r->gradients;
}

void ls_add_arrived(ls_step *s, int server, ls_range range)
{
    if (!ls_step_can(s, s->plan->placed.servers > 0, "ls_add_arrived",
                     "cannot be called in this strategy, since servers do not hold its variables; "
                     "set .variables to LS_SERVED"))
        return;
    const int workers = layout_of(s)->workers;
    size_t count = 0;
    if (s->program->status || !ls_step_replica(s, server))
        return;
    for (int w = 0; w < workers; w++)
        count += ls_sums(s, w);
    ls_auto ls_span *spans = NULL;
    s->program->status = ls_allocate("step", &spans, count, sizeof *spans);
    for (size_t i = 0; i < count && spans; i++)
        spans[i] = ls_gradient(s, server, i, range);
    ls_step_sum(s, server, range, spans, workers, spans ? spans[0].memory : NULL);
}
