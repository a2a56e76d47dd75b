/* SPDX-License-Identifier: MIT */
/*
 * Seed 8: convolution 3x3x32 with ReLU on 28x28x1, global max pool, dense 10, Adam, on two devices
 * with mirrored variables; 12 epochs of Fashion-MNIST in batches of 256. Accuracy on the test set
 * is at least 0.62 (measured: 0.6465; the convolution sees only 3x3 pixels), the loss less than
 * half of the first, ln 10; both replicas have the same bits.
 */
#include "impl/examples/example_training.h"

#include <math.h>
#include <string.h>

enum { EPOCHS = 12, DEVICES = 2 };

static ls_status train(ls_run *run)
{
    const size_t bytes = run->job->model->graph->variables.elements * sizeof(float);
    example_outcome outcome = {0};
    ls_status status = example_run(run, EPOCHS, &outcome);
    float *other = malloc(bytes);
    if (!status && other)
        status = run->functions->gather_replica(run, 1, ls_job_elements(run->job), other);
    if (!status) {
        printf("loss %.4f, after %d epochs %.4f; accuracy %.4f\n", outcome.first, EPOCHS,
               outcome.last, outcome.accuracy);
        status = example_expect(other && !memcmp(other, outcome.parameters, bytes),
                                "the bits of the other replica");
    }
    if (!status)
        status = example_expect(fabs(outcome.first - log(10)) < 0.1 &&
                                    outcome.last < outcome.first / 2 && outcome.accuracy >= 0.62,
                                "loss and accuracy");
    free(outcome.parameters);
    free(other);
    return status;
}

static ls_status show(example *e)
{
    const ls_strategy *mirrored;
    ls_model *model = NULL;
    ls_data *data = NULL;
    ls_job job;
    ls_run *run = NULL;
    ls_status status = example_job(e, "cnn", "fashion-mnist", DEVICES, &model, &data, &job);
    job.sampling.epochs = true;
    if (!status)
        status = ls_strategy_find("mirrored", &mirrored);
    if (!status)
        status = ls_strategy_open(mirrored, &job, &run);
    if (!status) {
        status = train(run);
        run->functions->close(run);
    }
    ls_data_close(data);
    ls_model_close(model);
    return status;
}

int main(void)
{
    return example_main(DEVICES, show);
}
