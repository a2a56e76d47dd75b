/* SPDX-License-Identifier: MIT */
/*
 * Clocks of other processes: rank 0 sends each a message and gets its time back. It was read within
 * the round trip, so that half of the shortest one bounds the error, whatever the network does.
 */
#include "bench/trace/whole.h"

#include "common/base/clock.h"

enum { ROUNDS = 64, TAG = 0x636c6b };

static ls_status answer(ls_comm *comm)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t now_ns;
        LS_TRY(comm->backend->receive(comm, 0, TAG, &now_ns, sizeof now_ns));
        now_ns = ls_clock_ns();
        LS_TRY(comm->backend->send(comm, 0, TAG, &now_ns, sizeof now_ns));
    }
    return LS_OK;
}

static ls_status ask(ls_comm *comm, int rank, ls_clock_offset *out)
{
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begin_ns = ls_clock_ns();
        uint64_t its_ns = begin_ns;
        LS_TRY(comm->backend->send(comm, rank, TAG, &its_ns, sizeof its_ns));
        LS_TRY(comm->backend->receive(comm, rank, TAG, &its_ns, sizeof its_ns));
        const uint64_t trip_ns = ls_clock_ns() - begin_ns;
        if (trip_ns >= shortest)
            continue;
        shortest = trip_ns;
        *out = (ls_clock_offset){(int64_t)(its_ns - begin_ns - trip_ns / 2), (trip_ns + 1) / 2};
    }
    return LS_OK;
}

ls_status ls_clocks_compare(ls_comm *comm, ls_clock_offset *offsets)
{
    offsets[0] = (ls_clock_offset){0, 0};
    if (!comm)
        return LS_OK;
    if (comm->rank > 0)
        return answer(comm);
    for (int r = 1; r < comm->size; r++)
        LS_TRY(ask(comm, r, &offsets[r]));
    return LS_OK;
}
