/* SPDX-License-Identifier: MIT */
/*
 * Seed 9: two sequences (140,256) through one LSTM(64), the first on cpu:0, the second on cpu:1; on
 * cpu:2 the two encodings are concatenated and classified. The gradient of the shared weights is
 * the sum over both branches: after six steps the bits equal a single device's, which runs the
 * branches one after the other. cpu:0 and cpu:1 have the LSTM's weights, cpu:2 only the dense
 * layer's.
 */
#include "common/nn/divide/places.h"
#include "impl/examples/example_training.h"

#include <string.h>

enum { STEPS = 6, BATCH = 16, DEVICES = 3 };

static const char plan[] = "lstm0/a=cpu:0,lstm0/b=cpu:1,concat0=cpu:2";

static ls_status place(const ls_model *model, int *places)
{
    ls_device_name names[DEVICES];
    char text[LS_NODE_NAME];
    for (int i = 0; i < DEVICES; i++)
        LS_TRY(
            ls_device_name_parse((const char *const[]){"cpu:0", "cpu:1", "cpu:2"}[i], &names[i]));
    LS_TRY(ls_places_parse(model->graph, plan, names, DEVICES, places));
    for (int n = 0; n < model->graph->count; n++)
        printf("%s: cpu:%d\n", ls_graph_node_name(model->graph, n, text), places[n]);
    return LS_OK;
}

static ls_status train_both(ls_job *job, example_outcome *divided, example_outcome *whole)
{
    LS_TRY(example_train(job, "model-parallel", STEPS, divided));
    job->device_count = 1;
    job->mesh.rest = LS_MEMBER;
    LS_TRY(example_train(job, "single", STEPS, whole));
    printf("loss %.6f, after %d steps %.6f; on one device %.6f\n", divided->first, STEPS,
           divided->last, whole->last);
    return example_expect(divided->last == whole->last &&
                              !memcmp(divided->parameters, whole->parameters,
                                      job->model->graph->variables.elements * sizeof(float)),
                          "the bits of one device");
}

static ls_status show(example *e)
{
    ls_model *model = NULL;
    ls_data *data = NULL;
    ls_job job;
    int *places = NULL;
    example_outcome divided = {0}, whole = {0};
    ls_status status = example_job(e, "twin-lstm", "synthetic:96", DEVICES, &model, &data, &job);
    if (!status) {
        places = calloc((size_t)model->graph->count, sizeof *places);
        status = places ? place(model, places) : ls_fail_memory("example", sizeof *places);
    }
    job.batch = BATCH;
    job.division.place = places;
    job.mesh.rest = LS_STAGE;
    if (!status)
        status = train_both(&job, &divided, &whole);
    free(divided.parameters);
    free(whole.parameters);
    free(places);
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(DEVICES, show);
}
