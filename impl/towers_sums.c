/* SPDX-License-Identifier: MIT */
/* Sums of towers on the variable device; see towers_sums.h. */
#include "impl/towers_sums.h"

#include "common/base/hooks.h"

#include <stdlib.h>

static size_t flat_bytes(const ls_replica *replica)
{
    return replica->elements * replica->kernels->table->real_bytes;
}

/* A sum that is computed elsewhere arrives in staging memory; where it is the only one, in the
 * gradient buffer, for there is nothing to add. */
static ls_status place(const ls_replica *holder, ls_arrival *arrival, bool only)
{
    if (!arrival->there)
        return LS_OK;
    arrival->here = holder->gradients;
    if (only)
        return LS_OK;
    LS_TRY(ls_device_allocate(holder->device, LS_MEMORY_COMMUNICATION, flat_bytes(holder),
                              &arrival->here));
    arrival->owned = true;
    return LS_OK;
}

static ls_status place_all(const ls_replica *holder, int towers, ls_slice *const *slices,
                           ls_tower_sums *out)
{
    size_t next = 0;
    for (int t = 0; t < towers; t++)
        out->count += ls_slice_sums(slices[t]);
    out->arrivals = calloc(out->count, sizeof *out->arrivals);
    if (!out->arrivals)
        return ls_fail_memory("towers", out->count * sizeof *out->arrivals);
    for (int t = 0; t < towers; t++) {
        bool here = ls_slice_device(slices[t]) == holder->device;
        for (size_t k = 0; k < ls_slice_sums(slices[t]); k++, next++) {
            void *sum = ls_slice_gradients(slices[t], k);
            out->arrivals[next] =
                (ls_arrival){.here = here ? sum : NULL, .there = here ? NULL : sum, .tower = t};
            LS_TRY(place(holder, &out->arrivals[next], out->count == 1));
        }
    }
    return LS_OK;
}

static ls_status append_sum(const ls_replica *holder, const void *const parts[2], void *to,
                            ls_tower_sums *out)
{
    const ls_add_args args = {
        .count = (int64_t)holder->elements, .a = parts[0], .b = parts[1], .y = to};
    ls_op *op;
    LS_TRY(holder->kernels->table->add(holder->kernels, &args, &op));
    return ls_op_list_add(&out->sums, op);
}

ls_status ls_tower_sums_open(const ls_replicated *run, int which, ls_slice *const *slices,
                             ls_tower_sums *out)
{
    const ls_job *job = run->base.job;
    const ls_replica *holder = run->members[run->holder].replica;
    ls_tree_sum *sums;
    size_t count;
    LS_TRY(place_all(holder, run->count, slices, out));
    LS_TRY(ls_slice_tree(job, ls_replicated_batch(job, which), run->count, &sums, &count));
    ls_status status = LS_OK;
    count -= LS_PLANTED(tower_left_out) && count > 0;
    for (size_t i = 0; i < count && !status; i++) {
        const ls_arrival *left = &out->arrivals[sums[i].left];
        const void *const parts[] = {left->here, out->arrivals[sums[i].right].here};
        status = append_sum(holder, parts, i + 1 == count ? holder->gradients : left->here, out);
    }
    free(sums);
    return status;
}

ls_status ls_tower_sums_put(const ls_replicated *run, const ls_tower_sums *sums)
{
    const ls_replica *holder = run->members[run->holder].replica;
    if (sums->count == 1 && sums->arrivals[0].here != holder->gradients)
        return ls_queue_copy(holder->queue, holder->gradients, holder->device,
                             sums->arrivals[0].here, holder->device, flat_bytes(holder));
    return ls_op_list_put(&sums->sums, holder->queue);
}

void ls_tower_sums_close(const ls_replicated *run, ls_tower_sums *sums)
{
    ls_op_list_clear(&sums->sums);
    for (size_t i = 0; sums->arrivals && i < sums->count; i++)
        if (sums->arrivals[i].owned)
            ls_device_release(run->members[run->holder].replica->device, sums->arrivals[i].here);
    free(sums->arrivals);
}

size_t ls_tower_sums_bytes(const ls_replicated *run, const ls_tower_sums *sums)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sums->count; i++)
        bytes += sums->arrivals[i].owned ? flat_bytes(run->members[run->holder].replica) : 0;
    return bytes;
}
