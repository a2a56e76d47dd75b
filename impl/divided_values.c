/* SPDX-License-Identifier: MIT */
/* One model over several places: what goes in and out, holds and moves; see divided.h. */
#include "impl/divided.h"
#include "impl/traffic.h"

#include <stdlib.h>
#include <string.h>

static ls_divided *divided(const ls_run *run)
{
    return (ls_divided *)run;
}

static size_t real_bytes(const ls_replicated *run)
{
    return run->members[0].replica->kernels->table->real_bytes;
}

int ls_divided_pieces(const ls_job *job, int d, int which)
{
    const int64_t batch = ls_replicated_batch(job, which), n = ls_job_replicas(job);
    if (job->exact) {
        const int64_t shards = job->micro_shards < batch ? job->micro_shards : batch;
        return (int)(ls_slice_begin(shards, d + 1, n) - ls_slice_begin(shards, d, n));
    }
    const int64_t m = job->microbatches > 1 ? job->microbatches : 1;
    int pieces = 0;
    for (int64_t i = d * m; i < (d + 1) * m; i++)
        pieces += ls_slice_begin(batch, i + 1, n * m) > ls_slice_begin(batch, i, n * m);
    return pieces;
}

/* ---- Values in and out ---------------------------------------------------------------------- */

void ls_divided_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out)
{
    const ls_graph_part *part = &parts->parts[place];
    for (size_t v = 0; v < part->graph->variables.count; v++) {
        const ls_variable *mine = &part->graph->variables.items[v];
        const ls_variable *all = &parts->whole->variables.items[part->variable[v]];
        if (!out)
            memcpy(here + mine->offset, whole + all->offset, mine->count * sizeof *here);
        else if (mine->offset < part->owned)
            memcpy(whole + all->offset, here + mine->offset, mine->count * sizeof *here);
    }
}

/* Parameters from (or, `out`, to) the whole flat buffer, of the places of replica `index`. */
static ls_status each_place(ls_divided *me, int index, float *whole, bool out)
{
    ls_status status = LS_OK;
    const ls_spread *s = &me->spreads[index];
    for (int p = s->first; p < s->first + s->here && !status; p++) {
        ls_replica *replica = ls_spread_member(s, p)->replica;
        float *here = calloc(replica->elements + 1, sizeof *here);
        if (!here)
            return ls_fail_memory("placement", replica->elements * sizeof *here);
        if (out) {
            status = ls_replica_gather(replica, here);
            ls_divided_move(&me->parts, p, whole, here, true);
        } else {
            ls_divided_move(&me->parts, p, whole, here, false);
            status = ls_replica_load(replica, here);
        }
        free(here);
    }
    return status;
}

ls_status ls_divided_load(ls_run *run, const float *parameters)
{
    for (int d = 0; d < divided(run)->shared.count; d++)
        LS_TRY(each_place(divided(run), d, (float *)parameters, false));
    return LS_OK;
}

ls_status ls_divided_gather_replica(ls_run *run, int index, float *parameters)
{
    return each_place(divided(run), index, parameters, true);
}

ls_status ls_divided_gather(ls_run *run, float *parameters)
{
    return divided(run)->spreads[0].ends ? ls_transfers_gather(divided(run), parameters)
                                         : ls_divided_gather_replica(run, 0, parameters);
}

ls_memory_formula ls_divided_memory(const ls_run *run, size_t index)
{
    const ls_divided *me = divided(run);
    const size_t here = (size_t)me->shared.places, d = index / here;
    const ls_spread *s = &me->spreads[d];
    const size_t place = (size_t)s->first + index % here;
    ls_memory_formula formula = ls_replicated_memory(run, index);
    for (size_t i = 0; i < me->parts.copy_count; i++)
        if (me->parts.copies[i].owner == (int)place)
            formula.bytes[LS_MEMORY_COMMUNICATION] +=
                me->parts.copies[i].count * real_bytes(&me->shared);
    if (s->ends && s->ends[index % here]->backend->memory)
        formula.bytes[LS_MEMORY_COMMUNICATION] +=
            s->ends[index % here]->backend->memory(s->ends[index % here]);
    if (me->mirrors && me->mirrors[place].count)
        ls_reducer_memory(&me->mirrors[place].reducers[d], &formula);
    return formula;
}

/* What the splits of all processes put in a full step. */
static ls_status add_sent(const ls_divided *me, ls_traffic *sent)
{
    ls_traffic mine = {0};
    for (int d = 0; d < me->shared.count; d++) {
        mine.bytes_sent += me->spreads[d].sent[LS_FULL].bytes_sent;
        mine.messages_sent += me->spreads[d].sent[LS_FULL].messages_sent;
    }
    return ls_traffic_collect(me->shared.base.job->comm, mine, sent);
}

/* Rows of a step: every output over a border, its gradient back; gradients of copies once a piece,
 * their values once. Of several replicas all their pieces, and what the mirrors send. */
ls_status ls_divided_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_divided *me = divided(run);
    const ls_job *job = run->job;
    const uint64_t n = (uint64_t)ls_job_replicas(job);
    uint64_t pieces = 0;
    for (int d = 0; d < (int)n; d++)
        pieces += (uint64_t)ls_divided_pieces(job, d, LS_FULL);
    *formula = *sent = (ls_traffic){0};
    LS_TRY(add_sent(me, sent));
    for (size_t i = 0; i < me->parts.border_count; i++) {
        const uint64_t ways = me->parts.borders[i].gradient ? 2 : 1;
        formula->messages_sent += ways * pieces;
        formula->bytes_sent +=
            ways * (uint64_t)job->batch * me->parts.borders[i].samples * sizeof(float);
    }
    for (size_t i = 0; i < me->parts.copy_count; i++) {
        const ls_variable_copy *c = &me->parts.copies[i];
        if (c->owner == c->holder)
            continue;
        formula->messages_sent += pieces + n;
        formula->bytes_sent += (pieces + n) * c->count * sizeof(float);
    }
    for (int p = 0; p < me->parts.count && me->mirrors; p++)
        LS_TRY(ls_mirror_traffic(&me->mirrors[p], job, me->shared.steps, sent, formula));
    return LS_OK;
}
