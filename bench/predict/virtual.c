/* SPDX-License-Identifier: MIT */
/* Virtual devices and their communicator; see virtual.h. */
#include "bench/predict/virtual.h"

#include "bench/play/engine.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"
#include "common/device/backend.h"
#include "common/device/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Devices -------------------------------------------------------------------------------- */

static ls_status reserve_memory(void *context, size_t bytes, void **out)
{
    (void)context;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ls_fail_memory("simulated device", bytes);
    *out = memory;
    return LS_OK;
}

static void release_memory(void *context, void *memory, size_t bytes)
{
    (void)context;
    munmap(memory, bytes);
}

static void close_device(ls_device *device)
{
    ls_pool_close(device->pool);
    free(device);
}

/* On the calling thread: see virtual.h. Building a large step makes thousands of kernels, and ends
 * early when a signal has come. */
static ls_status call_directly(ls_device *device, ls_status (*call)(void *context), void *context)
{
    (void)device;
    return ls_interrupted() ? ls_engine_interrupted() : call(context);
}

static ls_status open_queue(ls_device *device, const char *name, ls_queue **out)
{
    ls_queue *queue;
    LS_TRY(ls_allocate("simulated device", &queue, 1, sizeof *queue));
    queue->device = device;
    queue->name = name;
    *out = queue;
    return LS_OK;
}

static void close_queue(ls_queue *queue)
{
    free(queue);
}

static ls_status move(ls_queue *queue, void *to, const void *from, size_t bytes)
{
    (void)queue;
    memcpy(to, from, bytes);
    return LS_OK;
}

static ls_status sync_nothing(ls_queue *queue)
{
    (void)queue;
    return LS_OK;
}

static ls_status open_event(ls_device *device, ls_event **out)
{
    LS_TRY(ls_allocate("simulated device", out, 1, sizeof **out));
    (*out)->device = device;
    return LS_OK;
}

static void close_event(ls_event *event)
{
    free(event);
}

/* Without what only enqueued steps need. */
static const ls_device_backend virtual_backend = {.name = "virtual",
                                                  .kind = LS_DEVICE_CPU,
                                                  .close = close_device,
                                                  .call = call_directly,
                                                  .queue_open = open_queue,
                                                  .queue_close = close_queue,
                                                  .queue_read = move,
                                                  .queue_write = move,
                                                  .queue_sync = sync_nothing,
                                                  .event_open = open_event,
                                                  .event_close = close_event};

int ls_virtual_number(const ls_device *device)
{
    return device->port;
}

ls_status ls_virtual_device_open(const ls_device_name *name, int number, ls_device *like,
                                 ls_device **out)
{
    ls_device *device;
    LS_TRY(ls_allocate("simulated device", &device, 1, sizeof *device));
    ls_device_info *info = &device->info;
    if (like)
        *info = *ls_device_describe(like);
    else
        info->core_count = 1;
    info->name = *name;
    ls_device_name_text(name, info->text);
    device->backend = &virtual_backend;
    device->port = number;
    device->like = like;
    const ls_pool_options options = {.name = info->text,
                                     .policy = {.kind = LS_MEMORY_COUNTED},
                                     .capacity = SIZE_MAX / 2,
                                     .reserve = reserve_memory,
                                     .release = release_memory};
    ls_status status = ls_pool_open(&options, &device->pool);
    if (status)
        free(device);
    else
        *out = device;
    return status;
}

/* ---- Communicator --------------------------------------------------------------------------- */

typedef struct virtual_end {
    ls_comm base;
    struct virtual_group *group;
} virtual_end;

typedef struct virtual_group {
    int members;         /* ends that are open */
    ls_device **devices; /* [members], behind the ends */
    virtual_end ends[];
} virtual_group;

typedef struct virtual_op {
    ls_op op;
    ls_virtual_comm what;
} virtual_op;

static ls_status refuse_run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    return ls_fail(LS_CODE_USAGE, "simulated device", op->name,
                   "this operation exchanges data, but simulated devices hold none; measure this "
                   "strategy with lockstep run");
}

static ls_status make_op(ls_comm *base, const char *name, virtual_op **out)
{
    virtual_end *end = (virtual_end *)base;
    LS_TRY(ls_allocate("simulated device", out, 1, sizeof **out));
    (*out)->op = (ls_op){.name = name, .run = refuse_run, .use = LS_TIME_COMMUNICATION};
    (*out)->what = (ls_virtual_comm){.group = end->group,
                                     .rank = base->rank,
                                     .size = base->size,
                                     .devices = end->group->devices};
    return LS_OK;
}

static ls_status make_exchange(ls_comm *base, const ls_exchange *exchange, ls_op **out)
{
    virtual_op *x;
    LS_TRY(make_op(base, "exchange", &x));
    x->what.exchange = *exchange;
    *out = &x->op;
    return LS_OK;
}

/* Refuses `direct` for a single rank; several ranks are linked, and so have no direct
 * all-reduce. */
static ls_status put_no_direct(ls_comm *comm, ls_half half, float *data, ls_extent extent,
                               ls_op **out)
{
    (void)half;
    (void)data;
    (void)extent;
    *out = NULL;
    return ls_fail(LS_CODE_USAGE, "simulated device", comm->device->info.text,
                   "--allreduce direct needs memory that the devices share, but simulated devices "
                   "share none; use another one, such as --allreduce ring");
}

static void abandon_nothing(ls_comm *comm)
{
    (void)comm;
}

static void close_end(ls_comm *base)
{
    virtual_group *group = ((virtual_end *)base)->group;
    if (--group->members == 0)
        free(group);
}

static ls_status open_ends(ls_comm *processes, ls_device *const *devices, int count,
                           ls_comm **comms)
{
    virtual_group *group;
    const size_t each = sizeof *group->ends + sizeof *devices;
    (void)processes;
    LS_TRY(ls_allocate("simulated device", &group, 1, sizeof *group + (size_t)count * each));
    group->devices = memcpy(&group->ends[count], devices, (size_t)count * sizeof *devices);
    group->members = count;
    for (int r = 0; r < count; r++) {
        group->ends[r] = (virtual_end){.base = {.backend = &ls_comm_virtual,
                                                .rank = r,
                                                .size = count,
                                                .device = devices[r],
                                                .shared = count == 1,
                                                .linked = count > 1},
                                       .group = group};
        comms[r] = &group->ends[r].base;
    }
    return LS_OK;
}

const ls_comm_backend ls_comm_virtual = {.name = "virtual",
                                         .help = "describes exchanges of devices not here",
                                         .exchange = make_exchange,
                                         .direct = put_no_direct,
                                         .alone = true,
                                         .open = open_ends,
                                         .abandon = abandon_nothing,
                                         .close = close_end};

const ls_virtual_comm *ls_virtual_comm_of(const ls_op *op)
{
    return op->run == refuse_run ? &((const virtual_op *)op)->what : NULL;
}

/* ---- All-reduces in one operation ----------------------------------------------------------- */

/* Without scratch: only this end uses it, and how much of it there is the algorithm knows. */
static ls_status touch_all(const ls_comm *comm, const ls_allreduce_args *a, ls_op *op)
{
    const ls_access own[] = {{comm, sizeof *comm, true}, {a->data, a->count * sizeof(float), true}};
    LS_TRY(ls_op_touches(op, own, 2));
    for (size_t k = 0; k < a->sum_count; k++)
        LS_TRY(ls_op_touches(op, &(ls_access){a->sums[k], a->count * sizeof(float), true}, 1));
    return LS_OK;
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    virtual_op *x;
    if (comm->size == 1)
        return LS_OK;
    LS_TRY(make_op(comm, "all-reduce", &x));
    x->what.whole = true;
    x->what.half = half;
    x->what.extent = a->cut ? *a->cut : ls_elements(a->count);
    x->what.shards = a->shards;
    x->what.of = a->of;
    x->what.layout = comm->layout;
    x->what.sums = a->sum_count;
    ls_status status = touch_all(comm, a, &x->op);
    if (!status)
        return ls_op_list_add(ops, &x->op);
    ls_op_free(&x->op);
    return status;
}

static ls_status put_whole(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put_half(comm, LS_HALVES, a, ops);
}

ls_allreduce ls_virtual_allreduce(const ls_allreduce *algorithm)
{
    ls_allreduce described = *algorithm;
    described.build = put_whole;
    described.half = algorithm->half ? put_half : NULL;
    return described;
}
