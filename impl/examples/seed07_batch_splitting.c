/* SPDX-License-Identifier: MIT */
/*
 * Seed 7: batch splitting as in Keras' multi_gpu_model: a batch of 256 on 8 devices is 32 samples
 * each; cpu:0, the master, owns and updates the variables. The gradient is bitwise equal to the
 * average of the 8 parts' own gradients; 100 steps reduce the loss of the batch to less than half.
 */
#include "common/data/data.h"
#include "common/nn/model.h"
#include "impl/examples/example.h"
#include "impl/examples/parallel_training.h"

#include <string.h>

enum {
    BATCH = 256,
    DEVICES = 8,
    PART = BATCH / DEVICES,
    INPUTS = 20,
    PARAMETERS = 229,
    STEPS = 100
};

static ls_status open_part(ls_part *part)
{
    printf("%s: samples %d to %d\n", ls_device_describe(part->device)->text, (int)part->first,
           (int)(part->first + part->rows) - 1);
    LS_TRY(example_expect(part->rows == PART, "32 samples each"));
    return ls_part_graph.open(part);
}

/* The gradient of the mean over a single part, computed on the master. */
static ls_status part_gradient(example *e, const ls_parallel_options *like, int part,
                               float gradient[PARAMETERS])
{
    ls_parallel_options options = *like;
    ls_parallel *alone;
    void *loss;
    options.function = &ls_part_graph;
    options.count = 1;
    options.rows = PART;
    for (int i = 0; i < 2; i++)
        options.input[i].data =
            (char *)options.input[i].data + (size_t)(part * PART) * options.input[i].row_bytes;
    LS_TRY(example_take(e, 0, options.variable_bytes, &options.gradients));
    LS_TRY(example_take(e, 0, sizeof(double), &loss));
    options.loss = loss;
    LS_TRY(ls_make_parallel(&options, &alone));
    LS_TRY(ls_parallel_enqueue(alone));
    LS_TRY(ls_parallel_sync(alone));
    ls_parallel_close(alone);
    return ls_queue_read(e->queue, gradient, options.gradients, options.variable_bytes);
}

/* ((g0 + g1) + ...) / 8, in float32 on the host. */
static ls_status average(example *e, const ls_parallel_options *options, float sum[PARAMETERS])
{
    float one[PARAMETERS];
    memset(sum, 0, sizeof one);
    for (int d = 0; d < DEVICES; d++) {
        LS_TRY(part_gradient(e, options, d, one));
        for (int i = 0; i < PARAMETERS; i++)
            sum[i] = d ? sum[i] + one[i] : one[i];
    }
    for (int i = 0; i < PARAMETERS; i++)
        sum[i] /= DEVICES;
    return LS_OK;
}

static ls_status train(example *e, const ls_parallel_options *options)
{
    ls_parallel_training *training;
    ls_optimizer adam;
    float expected[PARAMETERS], got[PARAMETERS];
    double first, last;
    LS_TRY(average(e, options, expected));
    LS_TRY(ls_optimizer_parse("adam", &adam));
    LS_TRY(ls_parallel_training_open(options, &adam, 0.01, &training));
    LS_TRY(ls_parallel_training_step(training, 1));
    LS_TRY(ls_parallel_training_loss(training, &first));
    LS_TRY(ls_queue_read(e->queue, got, training->gradients, sizeof got));
    LS_TRY(ls_parallel_training_step(training, STEPS - 1));
    LS_TRY(ls_parallel_training_loss(training, &last));
    const ls_program_info info = ls_program_describe(training->program);
    printf("one program of %zu nodes; loss %.6f, after %d steps %.6f\n", info.nodes, first, STEPS,
           last);
    ls_parallel_training_close(training);
    LS_TRY(example_expect(!memcmp(got, expected, sizeof got), "the average of the gradients"));
    return example_expect(last < first / 2, "half the loss");
}

static ls_status show(example *e)
{
    static const ls_part_function *const graph = &ls_part_graph;
    const ls_part_function telling = {open_part, graph->enqueue, graph->close};
    ls_model *model;
    ls_data *data;
    void *x, *labels, *variables;
    float initial[PARAMETERS];
    LS_TRY(ls_model_open("mlp:20-9-4", &model));
    LS_TRY(ls_data_open("synthetic:256", &model->need, &data));
    LS_TRY(example_take(e, 0, BATCH * INPUTS * sizeof(float), &x));
    LS_TRY(example_take(e, 0, BATCH * sizeof(int32_t), &labels));
    LS_TRY(example_take(e, 0, sizeof initial, &variables));
    LS_TRY(ls_queue_write(e->queue, x, data->train.input[0].data, BATCH * INPUTS * sizeof(float)));
    LS_TRY(ls_queue_write(e->queue, labels, data->train.target.data, BATCH * sizeof(int32_t)));
    ls_variables_initialize(&model->graph->variables, 1, initial);
    LS_TRY(ls_queue_write(e->queue, variables, initial, sizeof initial));
    const ls_parallel_options options = {
        .function = &telling,
        .context = model->graph,
        .devices = e->device,
        .count = DEVICES,
        .queue = e->queue,
        .rows = BATCH,
        .input_count = 2,
        .input = {{x, INPUTS * sizeof(float)}, {labels, sizeof(int32_t)}},
        .variables = variables,
        .variable_bytes = sizeof initial};
    ls_status status = train(e, &options);
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(DEVICES, show);
}
