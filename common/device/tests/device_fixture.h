/* SPDX-License-Identifier: MIT */
/*
 * CPU devices with a queue each, for tests. Statics; included after `enum { DEVICES = ... }`, which
 * says how many. An operation of a test that lies on its stack has `keep` as its destroy.
 */
#ifndef LS_COMMON_DEVICE_TESTS_DEVICE_FIXTURE_H
#define LS_COMMON_DEVICE_TESTS_DEVICE_FIXTURE_H

#include "common/base/tests/must.h"
#include "common/device/device.h"

#include <stdlib.h>

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[DEVICES];
    ls_queue *queue[DEVICES];
} fixture;

static void keep(ls_op *op)
{
    (void)op;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &f->machine));
    for (int i = 0; i < DEVICES; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
        must(ls_queue_open(f->device[i], "test", &f->queue[i]));
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < DEVICES; i++) {
        ls_queue_close(f->queue[i]);
        ls_device_close(f->device[i]);
    }
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

#endif
