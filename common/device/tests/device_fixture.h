/* SPDX-License-Identifier: MIT */
/* Devices with a queue each, for tests, and what is done with them. Statics; for inclusion. */
#pragma once

#include "common/base/tests/must.h"
#include "common/device/link.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEVICES = 16, SKIPPED = 77 };

typedef struct fixture {
    ls_machine *machine;
    int count; /* devices */
    ls_device *device[MOST_DEVICES];
    ls_queue *queue[MOST_DEVICES];
    ls_network *network;                   /* NULL: none */
    const struct ls_comm_backend *backend; /* of tests of communicators */
} fixture;

/* cpu:0, cpu:1, ..., or parts of gpu:0. */
static inline int open_fixture(const ls_machine_options *options, ls_device_kind kind, int count,
                               void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(options, &f->machine));
    for (int i = 0; i < count; i++) {
        const bool gpu = kind == LS_DEVICE_GPU;
        const ls_device_name name = {.kind = kind, .index = gpu ? 0 : i, .logical = gpu ? i : -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
        must(ls_queue_open(f->device[i], "test", &f->queue[i]));
    }
    f->count = count;
    *state = f;
    return 0;
}

static inline int open_cpus(void **state, int count)
{
    return open_fixture(&(ls_machine_options){.cpu_devices = count}, LS_DEVICE_CPU, count, state);
}

static inline int open_gpu_parts(void **state, int count)
{
    return open_fixture(&(ls_machine_options){.logical_gpus = count}, LS_DEVICE_GPU, count, state);
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < f->count; i++) {
        ls_queue_close(f->queue[i]);
        ls_device_close(f->device[i]);
    }
    ls_network_close(f->network);
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

/* Whether there is no GPU here, which is then printed. */
static inline bool no_gpu_here(void)
{
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    const bool here = ls_machine_count(machine, LS_DEVICE_GPU) > 0;
    if (!here)
        printf("skipped: no GPU here: %s\n", ls_machine_describe(machine)->gpu);
    ls_machine_close(machine);
    return !here;
}

/* Each device on a port of its own. */
static inline ls_network *plug_all(fixture *f, const ls_link *link)
{
    must(ls_network_open(link, f->count, &f->network));
    for (int i = 0; i < f->count; i++)
        ls_device_link(f->device[i], f->network, i);
    return f->network;
}

static inline void unplug_all(fixture *f)
{
    for (int i = 0; i < f->count; i++)
        ls_device_link(f->device[i], NULL, 0);
    ls_network_close(f->network);
    f->network = NULL;
}

/* What destroys an operation that lies on a test's stack. */
static inline void keep(ls_op *op)
{
}
