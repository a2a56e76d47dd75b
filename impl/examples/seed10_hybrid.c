/* SPDX-License-Identifier: MIT */
/*
 * Seed 10: two instances of a model, each on two devices: the twin LSTM's first branch on one, all
 * other layers on the other. Each instance trains on half of the batch; gradients of the same
 * device of both instances are all-reduced. After 5 steps in exact mode both instances have the
 * bits of a single device, and the loss is below the first.
 */
#include "impl/examples/example.h"
#include "impl/strategy.h"

#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 2, DEVICES = 2, STEPS = 5, NODES = 16, MOST = 100000 };

static float values[INSTANCES + 1][MOST];

/* Only the first branch is on an instance's first device. */
static ls_status place_nodes(const ls_graph *graph, int place[NODES])
{
    char name[LS_NODE_NAME];
    LS_TRY(example_expect(graph->count <= NODES && graph->variables.elements <= MOST, "sizes"));
    for (int n = 0; n < graph->count; n++) {
        if (!graph->nodes[n].input_count) /* an input of the model */
            continue;
        place[n] = strcmp(ls_graph_node_name(graph, n, name), "lstm0/a") != 0;
        printf("%-24s device %d of each instance\n", name, place[n]);
    }
    return LS_OK;
}

static ls_status train(ls_run *run, double loss[2])
{
    const ls_strategy *strategy = run->strategy;
    ls_step_record record[STEPS];
    uint64_t mark;
    ls_variables_initialize(&run->job->model->graph->variables, 1, values[INSTANCES]);
    LS_TRY(ls_run_load(run, values[INSTANCES]));
    LS_TRY(run->functions->step(run, LS_FULL, STEPS));
    LS_TRY(run->functions->sync(run));
    LS_TRY(run->functions->records(run, 0, STEPS, record, &mark));
    loss[0] = record[0].loss;
    loss[1] = record[STEPS - 1].loss;
    for (int i = 0; i < INSTANCES && ls_strategy_reduces(strategy); i++)
        LS_TRY(run->functions->gather_replica(run, i, ls_job_elements(run->job), values[i]));
    return ls_strategy_reduces(strategy) ? LS_OK : ls_run_gather(run, values[INSTANCES]);
}

static ls_status train_with(const char *name, const ls_job *job, double loss[2])
{
    const ls_strategy *strategy;
    ls_run *run;
    LS_TRY(ls_strategy_find(name, &strategy));
    LS_TRY(ls_strategy_open(strategy, job, &run));
    ls_status status = train(run, loss);
    run->functions->close(run);
    printf("%-24s loss %.6f, after %d steps %.6f\n", name, loss[0], STEPS, loss[1]);
    return status;
}

static ls_status compare(ls_job *job)
{
    const size_t bytes = job->model->graph->variables.elements * sizeof(float);
    int place[NODES] = {0};
    double hybrid[2], single[2];
    LS_TRY(ls_allreduce_find("canonical", &job->exchange.allreduce));
    LS_TRY(ls_optimizer_parse("rmsprop", &job->update.optimizer));
    LS_TRY(place_nodes(job->model->graph, place));
    ls_job alone = *job;
    alone.device_count = 1;
    job->division.place = place;
    job->mesh = (ls_mesh){{[LS_MEMBER] = INSTANCES}, .rest = LS_STAGE};
    LS_TRY(train_with("hybrid", job, hybrid));
    LS_TRY(train_with("single", &alone, single));
    LS_TRY(example_expect(!memcmp(values[0], values[1], bytes), "the bits of the other instance"));
    LS_TRY(example_expect(!memcmp(values[0], values[INSTANCES], bytes), "the bits of one device"));
    LS_TRY(example_expect(hybrid[0] == single[0] && hybrid[1] == single[1], "the same losses"));
    return example_expect(hybrid[1] < hybrid[0], "a loss that falls");
}

static ls_status show(example *e)
{
    ls_model *model;
    ls_data *data = NULL;
    LS_TRY(ls_model_open("twin-lstm:16", &model));
    ls_status status = ls_data_open("synthetic:256", &model->need, &data);
    ls_job job = {.model = model,
                  .data = data,
                  .devices = e->device,
                  .device_count = INSTANCES * DEVICES,
                  .batch = 64,
                  .seed = 1,
                  .sampling.shuffle = true,
                  .update.schedule = {.initial = 0.001},
                  .exact.on = true,
                  .exact.shards = 16,
                  .exchange.bucket_bytes = SIZE_MAX,
                  .kernels.capture = true,
                  .faults.flip_replica = -1,
                  .records = STEPS};
    if (!status)
        status = compare(&job);
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(INSTANCES * DEVICES, show);
}
