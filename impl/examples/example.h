/* SPDX-License-Identifier: MIT */
/*
 * Shared by the examples: CPU devices, a check that names a wrong figure, and a main that prints
 * "ok" or the error.
 */
#pragma once

#include "common/device/device.h"

#include <stdio.h>

enum { EXAMPLE_DEVICES = 8 };

/** Devices cpu:0 to cpu:n-1, and a queue of cpu:0. They own the memory allocated on them. */
typedef struct example {
    ls_machine *machine;
    ls_device *device[EXAMPLE_DEVICES];
    ls_queue *queue;
} example;

/** Fails (exit status 1) unless `right`; `figure` names what was expected. */
static inline ls_status example_expect(bool right, const char *figure)
{
    return right ? LS_OK
                 : ls_fail(LS_CODE_CHECK, "example", figure,
                           "this check failed, so the result is not what the comment at the top of "
                           "this example says; correct the example, or the comment");
}

/** Allocates memory on device `index`. */
static inline ls_status example_take(const example *e, int index, size_t bytes, void **out)
{
    return ls_device_allocate(e->device[index], LS_MEMORY_ACTIVATIONS, bytes, out);
}

static inline ls_status example_open(example *e, int devices)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    LS_TRY(ls_machine_open(&(ls_machine_options){.cpu_devices = devices}, &e->machine));
    for (int i = 0; i < devices; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        LS_TRY(ls_device_open(e->machine, &name, &policy, &e->device[i]));
    }
    return ls_queue_open(e->device[0], "example", &e->queue);
}

static inline void example_close(example *e)
{
    ls_queue_close(e->queue);
    for (int i = 0; i < EXAMPLE_DEVICES; i++)
        ls_device_close(e->device[i]);
    ls_machine_close(e->machine);
}

/** Runs `show` with so many CPU devices; returns the exit status. */
static inline int example_main(int devices, ls_status (*show)(example *e))
{
    example e = {0};
    ls_status status = example_open(&e, devices);
    if (!status)
        status = show(&e);
    example_close(&e);
    const int code = (int)ls_status_code(status);
    if (status)
        fprintf(stderr, "lockstep: %s\n", ls_status_text(status));
    else
        puts("ok");
    ls_status_free(status);
    return code;
}
