/* SPDX-License-Identifier: MIT */
/*
 * Seed 5: between-graph replication. Every worker builds only its own program, which has as many
 * nodes with 1, 2, 4 and 6 workers. The variables exist once, on the server: a worker that has
 * pulled has the server's dense0.weight. In exact mode two workers have the bits of one. A single
 * asynchronous worker has the bits of a synchronous one.
 */
#include "impl/examples/example.h"
#include "impl/strategy.h"

#include <string.h>

enum { STEPS = 50, PARAMETERS = 784 * 16 + 16 + 16 * 10 + 10, WORKERS = 6 };

static float initial[PARAMETERS], values[2][PARAMETERS], pulled[PARAMETERS];

static ls_status train(const ls_job *job, float *out, size_t *nodes)
{
    const ls_strategy *ps;
    ls_run *run;
    LS_TRY(ls_strategy_find("ps", &ps));
    LS_TRY(ls_strategy_open(ps, job, &run));
    *nodes = run->functions->describe_replica(run, 0).nodes; /* of one worker's program */
    ls_status status = ls_run_load(run, initial);
    if (!status)
        status = run->functions->step(run, LS_FULL, STEPS);
    if (!status)
        status = run->functions->sync(run);
    if (!status)
        status = ls_run_gather(run, out);
    run->functions->close(run);
    return status;
}

/* A worker's program is as large with several workers as with one. */
static ls_status show_programs(ls_job *job)
{
    size_t first = 0, nodes;
    for (size_t n = 1; n <= WORKERS; n += n < 2 ? 1 : 2) {
        job->device_count = n;
        LS_TRY(train(job, values[0], &nodes));
        printf("%zu workers: %zu nodes in the program of each\n", n, nodes);
        first = first ? first : nodes;
        LS_TRY(example_expect(nodes == first, "the number of nodes with one worker"));
    }
    return LS_OK;
}

/* Variables exist once: workers pull the server's. */
static ls_status show_variable(ls_job *job)
{
    const ls_strategy *ps;
    ls_run *run;
    job->device_count = 2;
    LS_TRY(ls_strategy_find("ps", &ps));
    LS_TRY(ls_strategy_open(ps, job, &run));
    /* The parameters in the memory of the server's device: each variable once. */
    const ls_memory_ledger ledger = ls_device_ledger(job->variable_device);
    const size_t elements = ledger.in_use[LS_MEMORY_PARAMETERS] / sizeof(float);
    const ls_variables *variables = &job->model->graph->variables;
    ls_status status = ls_run_load(run, initial);
    if (!status) /* a step pulls the loaded values, and then the server updates them */
        status = run->functions->step(run, LS_FULL, 1);
    if (!status)
        status = run->functions->sync(run);
    for (int w = 0; w < 2 && !status; w++) {
        status = run->functions->gather_replica(run, w, ls_job_elements(run->job), pulled);
        if (!status)
            status = example_expect(!memcmp(pulled, initial, sizeof pulled),
                                    "the server's variables, on each worker");
    }
    if (!status)
        status = ls_run_gather(run, values[0]);
    if (!status) {
        printf("%s: %zu elements on the server, pulled by 2 workers, updated there\n",
               variables->items[0].name, variables->items[0].count);
        status = example_expect(elements == PARAMETERS && variables->elements == PARAMETERS &&
                                    memcmp(values[0], initial, sizeof initial) != 0,
                                "one set of variables, updated");
    }
    run->functions->close(run);
    return status;
}

static ls_status show_bits(ls_job *job)
{
    size_t nodes;
    job->exact.on = true;
    for (size_t n = 1; n <= 2; n++) {
        job->device_count = n;
        LS_TRY(train(job, values[n - 1], &nodes));
    }
    LS_TRY(example_expect(!memcmp(values[0], values[1], sizeof values[0]),
                          "the bits of one worker, in exact mode"));
    job->exact.on = false;
    job->device_count = 1;
    LS_TRY(train(job, values[0], &nodes));
    job->ps.mode = LS_PS_ASYNC;
    job->update.own_mean = true;
    LS_TRY(train(job, values[1], &nodes));
    puts("2 workers in exact mode, and 1 asynchronous: the bits of 1 synchronous");
    return example_expect(!memcmp(values[0], values[1], sizeof values[0]),
                          "the bits of one synchronous worker");
}

static ls_status show(example *e)
{
    ls_model *model;
    ls_data *data = NULL;
    LS_TRY(ls_model_open("mlp:784-16-10", &model));
    ls_status status = ls_data_open("synthetic:1000", &model->need, &data);
    ls_job job = {.model = model,
                  .data = data,
                  .devices = e->device,
                  .device_count = 1,
                  .variable_device = e->device[WORKERS],
                  .ps = {.ranks = 1, .servers = 1},
                  .batch = 96,
                  .seed = 1,
                  .sampling.shuffle = true,
                  .update.schedule = {.initial = 0.001},
                  .exact.shards = 16,
                  .exchange.bucket_bytes = SIZE_MAX,
                  .kernels.capture = true,
                  .faults.flip_replica = -1,
                  .records = STEPS + 1};
    ls_variables_initialize(&model->graph->variables, 1, initial);
    if (!status)
        status = ls_optimizer_parse("adam", &job.update.optimizer);
    if (!status)
        status = show_programs(&job);
    if (!status)
        status = show_variable(&job);
    if (!status)
        status = show_bits(&job);
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(WORKERS + 1, show);
}
