/* SPDX-License-Identifier: MIT */
/*
 * Seed 17: the CIFAR-10 multi-tower tutorial: one set of variables on cpu:2, which has no tower,
 * and a tower on each of cpu:0 and cpu:1. The towers' gradients are summed on cpu:2 and applied
 * once; each is divided by the whole batch, so the sum is the tutorial's average. Images are
 * synthetic: Debian has no CIFAR-10. In exact mode the variables have the bits of `single` after 24
 * steps; the program of two towers has more nodes than one tower's, and the loss falls.
 */
#include "impl/examples/example_training.h"

#include <string.h>

enum { STEPS = 24, BATCH = 16, TOWERS = 2 };

static ls_status train_all(ls_job *job, example_outcome outcome[3])
{
    LS_TRY(example_train(job, "towers", STEPS, &outcome[0]));
    job->device_count = 1;
    LS_TRY(example_train(job, "towers", STEPS, &outcome[1]));
    LS_TRY(example_train(job, "single", STEPS, &outcome[2]));
    printf("loss %.4f, after %d steps %.4f; %zu nodes with two towers, %zu with one\n",
           outcome[0].first, STEPS, outcome[0].last, outcome[0].nodes, outcome[1].nodes);
    for (int i = 1; i < 3; i++)
        LS_TRY(example_expect(!memcmp(outcome[0].parameters, outcome[i].parameters,
                                      job->model->graph->variables.elements * sizeof(float)),
                              "the bits of one device"));
    LS_TRY(example_expect(outcome[0].nodes > outcome[1].nodes, "a program that grows"));
    return example_expect(outcome[0].last < outcome[0].first, "a loss that falls");
}

static ls_status show(example *e)
{
    ls_model *model = NULL;
    ls_data *data = NULL;
    ls_job job;
    example_outcome outcome[3] = {{0}};
    ls_status status = example_job(e, "cifar10", "synthetic:16", TOWERS, &model, &data, &job);
    job.variable_device = e->device[TOWERS];
    job.batch = BATCH;
    job.exact.on = true;
    if (!status)
        status = train_all(&job, outcome);
    for (int i = 0; i < 3; i++)
        free(outcome[i].parameters);
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(TOWERS + 1, show);
}
