/* SPDX-License-Identifier: MIT */
/*
 * Marks, the start times for a run's first step: only queues that begin a step have one. If one
 * program contains the steps of several devices, the other queues are not ordered with it, and a
 * mark on them might come after the step has begun. No tolerance.
 */
#include "common/base/tests/must.h"
#include "impl/step/run/run.h"
#include "impl/strategies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { DEVICES = 3, STEPS = 4 };

/* The time of a member's mark; 0: it has none. */
static uint64_t mark_of(ls_run *run, int index, uint64_t *end_ns)
{
    ls_step_record record;
    uint64_t mark_ns;
    must(ls_replica_records(ls_step_run_of(run)->resources.members[index].replica, 0, 1, &record,
                            &mark_ns));
    *end_ns = record.end_ns;
    return mark_ns;
}

/* `driver`: the member that launches all steps, since it ends them; -1: each launches its own. */
static void check(const ls_job *job, const char *name, const char *comm, int driver)
{
    const ls_strategy *strategy;
    ls_job own = *job;
    ls_run *run;
    must(ls_strategy_find(name, &strategy));
    must(ls_comm_backend_find(comm, &own.exchange.transport));
    must(ls_strategy_open(strategy, &own, &run));
    must(run->functions->mark(run));
    must(run->functions->step(run, LS_FULL, STEPS));
    must(run->functions->sync(run));
    for (int i = 0; i < DEVICES; i++) {
        uint64_t end_ns, mark_ns = mark_of(run, i, &end_ns);
        assert_int_equal(mark_ns != 0, driver < 0 || i == driver);
        assert_true(mark_ns < end_ns);
    }
    run->functions->close(run);
}

static void drivers_alone_are_marked(void **state)
{
    (void)state;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    ls_machine *machine;
    ls_device *device[DEVICES];
    ls_model *model;
    ls_data *data;
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &machine));
    for (int i = 0; i < DEVICES; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(machine, &name, &policy, &device[i]));
    }
    must(ls_model_open("mlp:6-5-3", &model));
    must(ls_data_open("synthetic:120", &model->need, &data));
    ls_job job = {.model = model,
                  .data = data,
                  .devices = device,
                  .device_count = DEVICES,
                  .variable_device = device[1],
                  .batch = 12,
                  .seed = 1,
                  .update.schedule = {.initial = 0.1},
                  .exchange.bucket_bytes = SIZE_MAX,
                  .kernels.capture = true,
                  .faults.flip_replica = -1,
                  .records = STEPS};
    must(ls_optimizer_parse("sgd", &job.update.optimizer));
    must(ls_allreduce_find("ring", &job.exchange.allreduce));
    check(&job, "mirrored", "device", DEVICES - 1);
    check(&job, "mirrored", "thread", -1);
    check(&job, "towers", "thread", 1);
    job.kernels.capture = false;
    check(&job, "mirrored", "device", DEVICES - 1);
    ls_data_close(data);
    ls_model_close(model);
    for (int i = 0; i < DEVICES; i++)
        ls_device_close(device[i]);
    ls_machine_close(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drivers_alone_are_marked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
