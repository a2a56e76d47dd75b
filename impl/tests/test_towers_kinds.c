/* SPDX-License-Identifier: MIT */
/*
 * Towers whose variable device is of another kind, such as a CPU for GPUs: the host orders their
 * queues, and the parameters have the same bits as when events order them. Needs no GPU: the other
 * kind is the same functions in another table. Variables fetched at once or ahead, backward on
 * towers or on the variable device, fast and exact. No tolerance: bits.
 */
#include "common/base/tests/must.h"
#include "common/device/backend.h"
#include "impl/strategies.h"
#include "impl/tests/set_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { TOWERS = 3, STEPS = 7 };

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[TOWERS + 1]; /* the last one holds the variables */
    ls_model *model;
    ls_data *data;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = TOWERS + 1}, &f->machine));
    for (int i = 0; i <= TOWERS; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
    }
    must(ls_model_open("mlp:784-16-10", &f->model));
    must(ls_data_open("synthetic:500", &f->model->need, &f->data));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    ls_data_close(f->data);
    ls_model_close(f->model);
    for (int i = 0; i <= TOWERS; i++)
        ls_device_close(f->device[i]);
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

/* Returns the parameters after some steps; the caller frees them. */
static float *train(const fixture *f, const ls_job *job)
{
    const size_t elements = f->model->graph->variables.elements;
    float *values = calloc(elements, sizeof *values);
    ls_traffic sent, formula;
    ls_run *run;
    must(ls_strategy_open(&ls_strategy_towers, job, &run));
    ls_variables_initialize(&f->model->graph->variables, 1, values);
    must(ls_run_load(run, values));
    must(run->functions->step(run, LS_FULL, STEPS));
    must(run->functions->sync(run));
    must(ls_run_gather(run, values));
    must(run->functions->traffic(run, &sent, &formula));
    assert_true(sent.bytes_sent == formula.bytes_sent && sent.bytes_sent > 0);
    run->functions->close(run);
    return values;
}

static void the_host_orders_towers(void **state)
{
    fixture *f = *state;
    const ls_device_backend *own = f->device[TOWERS]->backend, elsewhere = *own;
    for (int way = 0; way < 8; way++) {
        ls_job job = {.model = f->model,
                      .data = f->data,
                      .devices = f->device,
                      .device_count = TOWERS,
                      .variable_device = f->device[TOWERS],
                      .division.backward_held = way & 2,
                      .batch = 64,
                      .seed = 1,
                      .sampling.shuffle = true,
                      .faults.flip_replica = -1,
                      .update.schedule = {.initial = 0.001},
                      .exact.on = way & 4,
                      .exact.shards = 16,
                      .kernels.capture = true,
                      .records = 64};
        set_option(&job, &ls_strategy_towers, "towers-staged", way & 1 ? "yes" : "no");
        must(ls_optimizer_parse("adam", &job.update.optimizer));
        float *expected = train(f, &job);
        f->device[TOWERS]->backend = &elsewhere;
        ls_run *run;
        ls_status status = ls_strategy_open(&ls_strategy_towers, &job, &run);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE); /* they cannot be captured */
        assert_non_null(strstr(ls_status_text(status), "--capture no"));
        ls_status_free(status);
        job.kernels.capture = false;
        float *got = train(f, &job);
        f->device[TOWERS]->backend = own;
        assert_memory_equal(expected, got, f->model->graph->variables.elements * sizeof *expected);
        free(expected);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_host_orders_towers)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
