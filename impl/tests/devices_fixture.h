/* SPDX-License-Identifier: MIT */
/* Fixture: CPU devices, a small model and its data, for tests that open strategies; each completes
 * the job. */
#pragma once

#include "common/base/tests/must.h"
#include "impl/strategy.h"

enum { DEVICES_MOST = 4 };

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[DEVICES_MOST];
    int devices;
    ls_model *model;
    ls_data *data;
    ls_job job; /* of these; with sgd and a ring */
} fixture;

/* Opens `devices` of a core each, and the job on all of them. */
static inline void open_fixture(fixture *f, int devices, const char *model, const char *data)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    *f = (fixture){.devices = devices};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = devices}, &f->machine));
    for (int i = 0; i < devices; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
    }
    must(ls_model_open(model, &f->model));
    must(ls_data_open(data, &f->model->need, &f->data));
    f->job = (ls_job){.model = f->model,
                      .data = f->data,
                      .devices = f->device,
                      .device_count = (size_t)devices,
                      .seed = 1,
                      .update.schedule = {.initial = 1},
                      .kernels.capture = true,
                      .faults.flip_replica = -1};
    must(ls_optimizer_parse("sgd", &f->job.update.optimizer));
    must(ls_allreduce_find("ring", &f->job.exchange.allreduce));
}

static inline int close_fixture(void **state)
{
    fixture *f = *state;
    ls_data_close(f->data);
    ls_model_close(f->model);
    for (int i = 0; i < f->devices; i++)
        ls_device_close(f->device[i]);
    ls_machine_close(f->machine);
    return 0;
}
