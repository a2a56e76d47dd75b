/* SPDX-License-Identifier: MIT */
/* Sizes and slices of replicas, from the job; see replicas.h. */
#include "impl/replica/replicas.h"

bool ls_replicated_syncs(const ls_job *job)
{
    return job->exchange.sync_statistics && (job->exact.on || ls_job_replicas(job) > 1);
}

int64_t ls_replicated_batch(const ls_job *job, int batch_kind)
{
    return batch_kind == LS_FULL ? job->batch : ls_job_tail(job);
}

ls_slice_options ls_replicated_slice(const ls_job *job, int d, int batch_kind)
{
    return (ls_slice_options){.batch = ls_replicated_batch(job, batch_kind),
                              .number = d,
                              .count = ls_job_replicas(job),
                              .pieces = ls_job_pieces(job)};
}

/* The two slices share memory: the one with larger pieces is opened first. That can be the tail's:
 * of 5 replicas, one has 1 of 8 samples, but 2 of 7. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, const int *slots, ls_member *m)
{
    ls_slice_options options[LS_BATCHES];
    int64_t rows[LS_BATCHES] = {0};
    for (int b = 0; b < LS_BATCHES; b++) {
        options[b] = ls_replicated_slice(job, number, b);
        options[b].replica = m->replica;
        options[b].slots = slots;
        options[b].synced = ls_replicated_syncs(job);
        options[b].comm = m->statistics_comm;
        if (options[b].batch)
            rows[b] = ls_slice_rows(job, &options[b]);
    }
    int first = rows[LS_TAIL] > rows[LS_FULL] ? LS_TAIL : LS_FULL;
    for (int i = 0; i < LS_BATCHES; i++) {
        int b = i ? LS_FULL + LS_TAIL - first : first;
        options[b].memory_of = i ? m->slice[first] : NULL;
        if (options[b].batch)
            LS_TRY(ls_slice_open(&options[b], &m->slice[b]));
    }
    return LS_OK;
}

size_t ls_replicated_sums(const ls_job *job, int number)
{
    size_t most = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        const int64_t batch = ls_replicated_batch(job, b);
        const size_t sums =
            batch ? ls_slice_count_kept(job, batch, number, ls_job_replicas(job)) : 0;
        most = sums > most ? sums : most;
    }
    return most;
}

/* ---- Pieces of a divided model's slice ------------------------------------------------------- */

int ls_replicated_before(const ls_job *job, int d, int batch_kind, int exchange)
{
    const ls_slice_options slice = ls_replicated_slice(job, d, batch_kind);
    int pieces = 0;
    for (int e = 0; e < exchange; e++)
        for (ls_slice_dealt dealt = ls_slice_deal(job, &slice, e); dealt.first < dealt.last;)
            pieces += ls_slice_share(slice.batch, dealt.first++, dealt.all) > 0;
    return pieces;
}

int ls_replicated_exchanges(const ls_job *job, int batch_kind)
{
    const int64_t batch = ls_replicated_batch(job, batch_kind);
    int count = 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++)
        count += ls_slice_has_exchange(job, batch, ls_job_replicas(job), e);
    return count;
}

int ls_replicated_pieces(const ls_job *job, int d, int batch_kind)
{
    return ls_replicated_before(job, d, batch_kind, ls_slice_exchanges(job));
}

int64_t ls_replicated_first_rows(const ls_job *job)
{
    const ls_slice_options first = ls_replicated_slice(job, 0, LS_FULL);
    return ls_slice_share(first.batch, 0, ls_slice_deal(job, &first, 0).all);
}

int ls_replicated_test_piece(const ls_job *job, int d)
{
    const ls_slice_options of = ls_replicated_slice(job, d, LS_FULL);
    const int64_t wanted = ls_job_shards(job, of.batch) ? ls_replicated_first_rows(job) : 0;
    int piece = 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++)
        for (ls_slice_dealt dealt = ls_slice_deal(job, &of, e); dealt.first < dealt.last;) {
            const int64_t rows = ls_slice_share(of.batch, dealt.first++, dealt.all);
            if (rows && (!wanted || rows == wanted))
                return piece;
            piece += rows > 0;
        }
    return -1;
}

ls_schedule ls_replicated_schedule(const ls_job *job, int d, int batch_kind)
{
    const int wanted = job->division.microbatches;
    /* all replicas exchange each micro-batch */
    const int most = job->accumulation.each ? ls_replicated_exchanges(job, batch_kind)
                                            : ls_replicated_pieces(job, d, batch_kind);
    return (ls_schedule){.stages = ls_job_stages(job),
                         .microbatches = wanted < most ? wanted : most,
                         .rule = ls_schedule_rule_of(&job->options),
                         .chunks = job->division.chunks};
}

ls_status ls_replicated_slots(const ls_job *job, int d, int stage, int chunk, int *out)
{
    *out = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_schedule schedule = ls_replicated_schedule(job, d, b);
        const int pieces = ls_replicated_pieces(job, d, b), m = schedule.microbatches;
        ls_schedule_most most = {0};
        if (m)
            LS_TRY(ls_schedule_count(&schedule, stage, chunk, &most));
        int slots = m ? (pieces + m - 1) / m * most.held : 0;
        slots = slots < pieces ? slots : pieces;
        for (int e = 0; e < ls_slice_exchanges(job) && job->gradients.windows; e++) {
            const int all =
                ls_replicated_before(job, d, b, e + 1) - ls_replicated_before(job, d, b, e);
            slots = all * (m ? most.held : 1) > slots ? all * (m ? most.held : 1) : slots;
        }
        *out = slots > *out ? slots : *out;
    }
    return LS_OK;
}
