/* SPDX-License-Identifier: MIT */
/* Growth of memory by steps; see growth.h. */
#include "bench/train/growth.h"

#include <malloc.h>
#include <stdlib.h>

ls_held ls_held_by(const ls_session *session)
{
    const struct mallinfo2 heap = mallinfo2();
    ls_held held = {.heap = heap.uordblks + heap.hblkhd};
    for (size_t i = 0; i < session->device_count; i++) {
        const ls_memory_ledger ledger = ls_device_ledger(session->devices[i]);
        for (int use = 0; use < LS_MEMORY_USES; use++)
            held.devices += ledger.in_use[use];
    }
    return held;
}

void ls_growth_add(ls_growth *growth, ls_held before, ls_held after, uint64_t steps)
{
    growth->devices += (double)after.devices - (double)before.devices;
    growth->steps += steps;
    growth->heap[growth->puts++] = ((double)after.heap - (double)before.heap) / (double)steps;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls_growth_per_step(const ls_growth *growth)
{
    if (!growth->puts)
        return 0;
    qsort(growth->heap, growth->puts, sizeof *growth->heap, compare);
    const double heap = growth->heap[growth->puts / 4];
    return growth->devices / (double)growth->steps + (heap > 0 ? heap : 0);
}
