/* SPDX-License-Identifier: MIT */
/* Shared by the examples that train by a strategy: a job of a model and a data set, and a run over
 * whole epochs or steps. */
#pragma once

#include "impl/examples/example.h"
#include "impl/strategy.h"

#include <stdlib.h>

/** Opens a model and data for a job on the example's first `devices`; other values are defaults. */
static inline ls_status example_job(const example *e, const char *model, const char *data,
                                    size_t devices, ls_model **out_model, ls_data **out_data,
                                    ls_job *out)
{
    *out_data = NULL;
    LS_TRY(ls_model_open(model, out_model));
    LS_TRY(ls_data_open(data, &(*out_model)->need, out_data));
    const ls_model_family *family = (*out_model)->family;
    *out = (ls_job){.model = *out_model,
                    .data = *out_data,
                    .devices = e->device,
                    .device_count = devices,
                    .batch = family->default_batch,
                    .seed = 1,
                    .sampling.shuffle = true,
                    .update.schedule = {.initial = family->default_rate},
                    .exchange.bucket_bytes = SIZE_MAX,
                    .exact.shards = 16,
                    .kernels.capture = true,
                    .faults.flip_replica = -1,
                    .records = 4096};
    LS_TRY(ls_allreduce_find("ring", &out->exchange.allreduce));
    return ls_optimizer_parse(family->default_optimizer, &out->update.optimizer);
}

/** Results of a run. */
typedef struct example_outcome {
    double first, last; /**< losses of the first and the last step */
    double accuracy;    /**< on the test set */
    size_t nodes;       /**< of the program */
    float *parameters;  /**< [elements] owned by the caller (free) */
} example_outcome;

/** Trains from the initial values: `steps` full steps, or so many epochs if job->sampling.epochs.
 */
static inline ls_status example_run(ls_run *run, uint64_t steps, example_outcome *out)
{
    const ls_job *job = run->job;
    const ls_variables *variables = &job->model->graph->variables;
    const uint64_t each = job->sampling.epochs ? ls_job_steps_per_epoch(job) : steps;
    const bool tail = job->sampling.epochs && ls_job_tail(job) > 0;
    ls_step_record record;
    ls_run_info info;
    uint64_t mark;
    out->parameters = calloc(variables->elements, sizeof *out->parameters);
    if (!out->parameters)
        return ls_fail_memory("example", variables->elements * sizeof *out->parameters);
    ls_variables_initialize(variables, job->seed, out->parameters);
    LS_TRY(ls_run_load(run, out->parameters));
    for (uint64_t epoch = 0; epoch < (job->sampling.epochs ? steps : 1); epoch++) {
        LS_TRY(run->functions->step(run, LS_FULL, each - tail));
        if (tail)
            LS_TRY(run->functions->step(run, LS_TAIL, 1));
        LS_TRY(run->functions->sync(run));
    }
    const uint64_t all = job->sampling.epochs ? steps * each : steps;
    LS_TRY(run->functions->records(run, 0, 1, &record, &mark));
    out->first = record.loss;
    LS_TRY(run->functions->records(run, all - 1, 1, &record, &mark));
    out->last = record.loss;
    const ls_evaluating how = {.samples = job->data->test.samples};
    ls_evaluation found;
    LS_TRY(run->functions->evaluate(run, &how, &found));
    out->accuracy = found.accuracy;
    run->functions->describe(run, &info);
    out->nodes = info.program.nodes;
    return ls_run_gather(run, out->parameters);
}

/** As above, for a strategy by name. */
static inline ls_status example_train(const ls_job *job, const char *name, uint64_t steps,
                                      example_outcome *out)
{
    const ls_strategy *strategy;
    ls_run *run;
    LS_TRY(ls_strategy_find(name, &strategy));
    LS_TRY(ls_strategy_open(strategy, job, &run));
    ls_status status = example_run(run, steps, out);
    run->functions->close(run);
    return status;
}
