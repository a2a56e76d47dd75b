/* SPDX-License-Identifier: MIT */
/* Traffic of all processes; see traffic.h. */
#include "impl/traffic.h"

#include <stdlib.h>

ls_status ls_traffic_collect(ls_comm *processes, ls_traffic mine, ls_traffic *sum)
{
    const size_t n = processes ? (size_t)processes->size : 1;
    ls_traffic *all = calloc(n, sizeof *all);
    ls_status status = all ? LS_OK : ls_fail_memory("traffic", n * sizeof *all);
    status = ls_comm_bring(processes, status, &mine, sizeof mine, all);
    *sum = (ls_traffic){0};
    for (size_t p = 0; p < n && !status; p++) {
        sum->bytes_sent += all[p].bytes_sent;
        sum->messages_sent += all[p].messages_sent;
    }
    free(all);
    return status;
}

static uint64_t part_of_one(uint64_t all, uint64_t steps, uint64_t expected)
{
    return all / steps + (all / steps >= expected && all % steps);
}

ls_traffic ls_traffic_of_step(const ls_traffic *all, const ls_traffic *tail, const uint64_t *steps,
                              const ls_traffic *formula)
{
    return (ls_traffic){.bytes_sent = part_of_one(all->bytes_sent - steps[1] * tail->bytes_sent,
                                                  steps[0], formula->bytes_sent),
                        .messages_sent =
                            part_of_one(all->messages_sent - steps[1] * tail->messages_sent,
                                        steps[0], formula->messages_sent)};
}
