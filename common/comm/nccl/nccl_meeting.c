/* SPDX-License-Identifier: MIT */
/* Processes exchange what communicators of NCCL need: each one's GPUs, and rank 0's id; see
 * nccl_meeting.h. */
#include "common/comm/nccl/nccl_meeting.h"

#include "common/device/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each process tells the others. */
typedef struct hello {
    int count; /* number of devices */
    ncclUniqueId id;
    char host[64];               /* boot id of its system; "" if not known */
    char pci[LS_GPUS_MOST][16];  /* [count] of its GPUs; "" if none */
    char text[LS_GPUS_MOST][32]; /* their names in this process */
} hello;

/* Which GPUs this process has: PCI addresses are unique in one system, whatever containers call the
 * devices. */
static void introduce(ls_device *const *devices, int count, hello *out)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(out->host, sizeof out->host, file))
        *out->host = 0;
    if (file)
        fclose(file);
    for (int i = 0; i < count && i < LS_GPUS_MOST; i++) {
        const ls_device_info *info = ls_device_describe(devices[i]);
        memcpy(out->pci[i], info->pci, sizeof out->pci[i]);
        memcpy(out->text[i], info->text, sizeof out->text[i]);
    }
}

/* With two ranks on one GPU, NCCL hangs or fails, late and on one rank only. */
static ls_status refuse_shared(const hello *all, int a, int b)
{
    const hello *one = &all[a], *other = &all[b];
    for (int i = 0; i < one->count; i++)
        for (int k = 0; k < other->count; k++)
            if (*one->pci[i] && *one->host && strcmp(one->host, other->host) == 0 &&
                strcmp(one->pci[i], other->pci[k]) == 0)
                return ls_fail(LS_CODE_USAGE, "comm: nccl", one->text[i],
                               "ranks %d and %d use the same GPU (PCI %s), which NCCL does not "
                               "allow, even with MIG; give each rank a separate GPU, or use one "
                               "process with --logical-gpus N and --comm device",
                               a, b, one->pci[i]);
    return LS_OK;
}

ls_status ls_nccl_gather_ranks(const ls_nccl *nccl, ls_status own_status, ls_comm *processes,
                               ls_device *const *devices, int count, ls_nccl_rendezvous *out)
{
    const int others = processes ? processes->size : 1, self = processes ? processes->rank : 0;
    hello own = {.count = count}, *all = calloc((size_t)others, sizeof *all);
    introduce(devices, count, &own);
    *out = (ls_nccl_rendezvous){0};
    if (!own_status && count > LS_GPUS_MOST)
        own_status = ls_fail(LS_CODE_USAGE, "comm: nccl", NULL,
                             "%d GPUs are too many; use at most %d", count, LS_GPUS_MOST);
    if (!own_status && self == 0)
        own_status = ls_nccl_check(nccl, nccl->call.ncclGetUniqueId(&own.id), "make an id");
    if (!own_status && !all)
        own_status = ls_fail_memory("nccl", (size_t)others * sizeof *all);
    ls_status status = ls_comm_bring(processes, own_status, &own, sizeof own, all);
    for (int p = 0; p < others && !status; p++) {
        out->first += p < self ? all[p].count : 0;
        out->size += all[p].count;
        for (int q = 0; q < p && !status; q++) /* once for each pair of processes */
            status = refuse_shared(all, q, p);
    }
    if (!status)
        out->id = all[0].id;
    free(all);
    return status;
}
