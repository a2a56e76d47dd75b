/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro copy`: inside one memory, bytes are read and written, so each counts twice;
 * between memories once.
 *     copy within       from one range of the device's memory to another
 *     from DEVICE       from the second device's memory to the first's (with two devices)
 *     from host         ls_queue_write: on a GPU through pinned memory, piece by piece
 *     to host           ls_queue_read, in the same way
 * Host copies are timed by the host's clock, from the call to its end; every element is checked.
 */
#include "bench/micro/micro.h"

#include "common/base/clock.h"
#include "common/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy as an operation, for timing. */
typedef struct copy_op {
    ls_op op;
    void *to;
    const void *from;
    const ls_device *from_device;
    size_t bytes;
} copy_op;

static ls_status run_copy(ls_op *op, ls_queue *queue)
{
    copy_op *c = (copy_op *)op;
    const ls_device *device = ls_queue_device(queue);
    if (ls_device_describe(device)->name.kind == LS_DEVICE_GPU) /* by the host: launches */
        return ls_queue_copy(queue, c->to, device, c->from, c->from_device, c->bytes);
    memcpy(c->to, c->from, c->bytes);
    return LS_OK;
}

static void keep_copy(ls_op *op)
{
    (void)op;
}

/* One size: buffers on the devices and on the host, [bytes] each. */
typedef struct copies {
    ls_micro *m;
    size_t bytes, floats;
    ls_device *other; /* NULL means the same device */
    float *to, *from; /* from: on `other` */
    float *host, *back;
} copies;

static ls_micro_figure figure_of(const copies *c, const char *shape)
{
    return (ls_micro_figure){.op = "copy",
                             .shape = shape,
                             .bytes = c->bytes,
                             .count = c->floats,
                             .moved_bytes = (double)c->bytes,
                             .checked = true};
}

static uint64_t count_wrong(const copies *c)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < c->floats; i++)
        wrong += memcmp(&c->host[i], &c->back[i], sizeof *c->host) != 0;
    return wrong;
}

/* Compares the data in `to` with the host's. */
static ls_status check_arrived(const copies *c, ls_micro_figure *figure)
{
    memset(c->back, 0xff, c->bytes);
    LS_TRY(ls_queue_read(c->m->bench.queue, c->back, c->to, c->bytes));
    figure->wrong = count_wrong(c);
    return LS_OK;
}

static ls_status time_device_copy(const copies *c, ls_statistics *ns)
{
    ls_micro *m = c->m;
    copy_op copy = {.op = {.name = "copy", .run = run_copy, .destroy = keep_copy},
                    .to = c->to,
                    .from = c->from,
                    .from_device = c->other ? c->other : m->device,
                    .bytes = c->bytes};
    ls_op *op = &copy.op;
    return ls_bench_time(&m->bench, &op, 1, LS_MICRO_ROUNDS, ns);
}

/* Times successive calls; `in`: to the device. */
static ls_status measure_host_copy(const copies *c, bool in)
{
    ls_queue *queue = c->m->bench.queue;
    ls_micro_figure figure = figure_of(c, in ? "from host" : "to host");
    double samples[LS_MICRO_ROUNDS];
    for (int i = -1; i < LS_MICRO_ROUNDS; i++) { /* the first one is a warm-up */
        const uint64_t begin_ns = ls_clock_ns();
        LS_TRY(in ? ls_queue_write(queue, c->to, c->host, c->bytes)
                  : ls_queue_read(queue, c->back, c->to, c->bytes));
        if (i >= 0)
            samples[i] = (double)(ls_clock_ns() - begin_ns);
    }
    ls_statistics_compute(samples, LS_MICRO_ROUNDS, &figure.ns);
    if (in)
        LS_TRY(check_arrived(c, &figure));
    else
        figure.wrong = count_wrong(c);
    return ls_micro_row(c->m, &figure);
}

static ls_status take_buffers(copies *c)
{
    void *from = NULL;
    c->host = malloc(c->bytes + 1);
    c->back = malloc(c->bytes + 1);
    if (!c->host || !c->back)
        return ls_fail_memory("copy", c->bytes);
    for (size_t i = 0; i < c->floats; i++)
        c->host[i] = (float)(i % 65521) - 0.5f;
    ls_bench_release(&c->m->bench);
    LS_TRY(ls_bench_floats(&c->m->bench, c->floats, &c->to));
    LS_TRY(ls_device_allocate(c->other ? c->other : c->m->device, LS_MEMORY_WORKSPACE, c->bytes,
                              &from));
    c->from = from;
    ls_queue *queue = NULL; /* of its own, where another device's memory is filled */
    if (c->other)
        LS_TRY(ls_queue_open(c->other, "fill", &queue));
    ls_status status =
        ls_queue_write(queue ? queue : c->m->bench.queue, c->from, c->host, c->bytes);
    ls_queue_close(queue);
    return status;
}

static void free_buffers(const copies *c)
{
    ls_device_release(c->other ? c->other : c->m->device, c->from);
    free(c->host);
    free(c->back);
}

static copies copies_of(ls_micro *m, ls_device *other, size_t bytes)
{
    const size_t floats = bytes / sizeof(float);
    return (copies){.m = m, .floats = floats, .bytes = floats * sizeof(float), .other = other};
}

static ls_status measure_copies(ls_micro *m, ls_device *other, size_t bytes)
{
    ls_closing(free_buffers) copies c = copies_of(m, other, bytes);
    char shape[48] = "within";
    if (other)
        snprintf(shape, sizeof shape, "from %s", ls_device_describe(other)->text);
    LS_TRY(take_buffers(&c));
    ls_micro_figure figure = figure_of(&c, shape);
    if (!other)
        figure.moved_bytes *= 2;
    LS_TRY(time_device_copy(&c, &figure.ns));
    LS_TRY(check_arrived(&c, &figure));
    LS_TRY(ls_micro_row(m, &figure));
    for (int in = 1; in >= 0 && !other; in--)
        LS_TRY(measure_host_copy(&c, in));
    return LS_OK;
}

ls_status ls_micro_time_copy(ls_micro *m, size_t bytes, ls_statistics *ns)
{
    ls_closing(free_buffers) copies c = copies_of(m, NULL, bytes);
    LS_TRY(take_buffers(&c));
    return time_device_copy(&c, ns);
}

ls_status ls_micro_copy(ls_micro *m)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    size_t sizes[LS_MICRO_SIZES], count;
    ls_device *other = NULL;
    LS_TRY(ls_micro_sizes(m, 4096, sizes, &count));
    if (m->ranks > 1) {
        LS_TRY(ls_device_open(m->machine, &m->names[1], &policy, &other));
        m->known[1] = ls_device_describe(other);
    }
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = measure_copies(m, other, sizes[i]);
    ls_device_close(other);
    return status;
}
