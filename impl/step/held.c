/* SPDX-License-Identifier: MIT */
/* Communicators of a run. Each end is registered when it is opened, so that names, memory and
 * traffic can be found, and is closed with the run. */
#include "common/base/grow.h"
#include "impl/step/step_private.h"

#include <stdlib.h>

ls_status ls_held_connect(ls_stepped *run, const int *members, int count, bool counts,
                          ls_comm **comms)
{
    ls_held *h = &run->held;
    const ls_job *job = run->base.job;
    ls_device **devices;
    ls_status status = ls_allocate("step", &devices, (size_t)count, sizeof(ls_device *));
    for (int i = 0; i < count && !status; i++) {
        devices[i] = run->members[members[i]].replica->device;
        status = ls_grow("step", &h->ends, h->end_count + (size_t)i, sizeof *h->ends);
    }
    status = ls_comm_agree(job->comm, status);
    if (!status)
        status = ls_comm_open(job->transport, job->comm, devices, count, comms);
    for (int i = 0; i < count && !status; i++)
        h->ends[h->end_count++] = (ls_held_end){comms[i], members[i], h->channels, counts};
    h->channels++;
    free(devices);
    return status;
}

int ls_held_channel(const ls_held *h, const ls_comm *comm)
{
    for (size_t i = 0; i < h->end_count; i++)
        if (h->ends[i].comm == comm)
            return h->ends[i].channel;
    return h->channels;
}

void ls_held_memory(const ls_held *h, int member, ls_memory_formula *formula)
{
    size_t *bytes = &formula->bytes[LS_MEMORY_COMMUNICATION];
    for (size_t i = 0; i < h->end_count; i++)
        if (h->ends[i].member == member && h->ends[i].comm->backend->memory)
            *bytes += h->ends[i].comm->backend->memory(h->ends[i].comm);
}

void ls_held_abandon(ls_stepped *run)
{
    ls_held *h = &run->held;
    if (ls_device_stalls(run->base.job->devices[0]))
        return; /* the process ends, and those that wait tell for whom */
    for (size_t i = 0; i < h->end_count; i++)
        h->ends[i].comm->backend->abandon(h->ends[i].comm);
    for (size_t i = 0; run->statistics_comms && i < run->base.job->device_count; i++)
        if (run->statistics_comms[i])
            run->statistics_comms[i]->backend->abandon(run->statistics_comms[i]);
}

void ls_held_close(ls_stepped *run)
{
    ls_held *h = &run->held;
    while (h->end_count)
        ls_comm_close(h->ends[--h->end_count].comm);
    free(h->ends);
}
