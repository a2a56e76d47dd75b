/* SPDX-License-Identifier: MIT */
/* Groups that only rows with parameter servers have; see row.h. */
#include "bench/row/row.h"

static json_t *histogram_group(const ls_ps_histogram *h)
{
    json_t *group = json_object(), *bins = json_array();
    json_object_set_new(group, "max", json_integer((json_int_t)h->max));
    for (uint64_t i = 0; i <= h->max && i < LS_PS_BINS; i++)
        json_array_append_new(bins, json_integer((json_int_t)h->bins[i]));
    json_object_set_new(group, "histogram", bins);
    return group;
}

/* Mean bytes per step. */
static json_t *of_step(uint64_t bytes, uint64_t steps)
{
    return json_integer((json_int_t)((bytes + steps / 2) / steps));
}

/* For each server: bytes of variables, the share of time in which it did not wait, and the bytes of
 * gradients that it receives and copies per step. */
static json_t *server_loads(const ls_reported *reported)
{
    json_t *loads = json_array();
    for (size_t i = 0; i < reported->server_count; i++) {
        const ls_ps_server *s = &reported->servers[i];
        json_t *load = json_pack("{s:s,s:I}", "device", s->device, "bytes", (json_int_t)s->bytes);
        if (s->busy > 0) /* 0: not measured */
            json_object_set_new(load, "busy", json_real(s->busy));
        if (s->steps) {
            json_object_set_new(load, "received_bytes", of_step(s->received.bytes, s->steps));
            json_object_set_new(load, "copied_bytes", of_step(s->received.copied, s->steps));
        }
        json_array_append_new(loads, load);
    }
    return loads;
}

void ls_row_put_ps(json_t *row, const ls_job *job, const ls_reported *reported)
{
    const ls_ps_histogram *staleness = &reported->ended.staleness;
    if (!staleness->count) /* no gradient was applied */
        return;
    json_t *lead = histogram_group(&reported->ended.lead);
    json_t *stale = histogram_group(staleness);
    if (job->ps.mode == LS_PS_SSP)
        json_object_set_new(lead, "bound", json_integer(job->ps.staleness));
    json_object_set_new(stale, "mean",
                        json_real((double)staleness->sum / (double)staleness->count));
    json_object_set_new(row, "lead", lead);
    json_object_set_new(row, "staleness", stale);
    if (job->ps.backups) /* counted in timed steps */
        json_object_set_new(
            row, "dropped",
            json_integer((json_int_t)(reported->ended.dropped - reported->warm.dropped)));
    json_object_set_new(row, "server_load", server_loads(reported));
}
