/* SPDX-License-Identifier: MIT */
/*
 * Seed 3, by strategies: 1000 steps of the polynomial in exact mode, by `single` on cpu:0 and by
 * `towers` on two devices (backward on each tower's device, variables on cpu:0). w has the same
 * bits. `towers` is one program for both devices.
 */
#include "impl/examples/example.h"
#include "impl/strategy.h"

#include <string.h>

enum { STEPS = 1000 };

static ls_status train(ls_run *run, const char *name, float w[3])
{
    ls_run_info info;
    ls_variables_initialize(&run->job->model->graph->variables, run->job->seed, w);
    LS_TRY(ls_run_load(run, w));
    LS_TRY(run->functions->step(run, LS_FULL, STEPS));
    LS_TRY(run->functions->sync(run));
    LS_TRY(ls_run_gather(run, w));
    run->functions->describe(run, &info);
    printf("%s: w = (%.9g, %.9g, %.9g), a program of %zu nodes\n", name, w[0], w[1], w[2],
           info.program.nodes);
    return LS_OK;
}

static ls_status run_strategy(ls_job *job, const char *name, size_t devices, float w[3])
{
    const ls_strategy *strategy;
    ls_run *run;
    job->device_count = devices;
    LS_TRY(ls_strategy_find(name, &strategy));
    LS_TRY(ls_strategy_open(strategy, job, &run));
    ls_status status = train(run, name, w);
    run->functions->close(run);
    return status;
}

static ls_status show(example *e)
{
    ls_model *model;
    ls_data *data;
    float one[3], two[3];
    LS_TRY(ls_model_open("poly", &model));
    LS_TRY(ls_data_open("synthetic", &model->need, &data));
    ls_job job = {.model = model,
                  .data = data,
                  .devices = e->device,
                  .variable_device = e->device[0],
                  .batch = 100,
                  .seed = 1,
                  .sampling.shuffle = true,
                  .update.schedule = {.initial = 0.1},
                  .exact.on = true,
                  .exact.shards = 16,
                  .kernels.capture = true,
                  .faults.flip_replica = -1,
                  .records = STEPS};
    ls_status status =
        ls_optimizer_parse("adam:beta1=0.9,beta2=0.999,eps=1e-8", &job.update.optimizer);
    if (!status)
        status = run_strategy(&job, "single", 1, one);
    if (!status)
        status = run_strategy(&job, "towers", 2, two);
    ls_data_close(data);
    ls_model_close(model);
    return status ? status : example_expect(!memcmp(one, two, sizeof one), "the bits of w");
}

int main(void)
{
    return example_main(2, show);
}
