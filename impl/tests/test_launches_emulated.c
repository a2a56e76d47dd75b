/* SPDX-License-Identifier: MIT */
/*
 * What a training step of each model launches on a GPU: kernels and library calls, counted where
 * the emulated run-time launches them (gpu_emulate.h, blas_emulate.h, made_up_cudnn.c) without
 * computing. A run of `single` with the model's own batch and the cuda table on a CPU device. The
 * counts must equal the table in common/kernel/operations.md; no tolerance. A library call counts
 * as one node; kernels that it launches itself are not counted. The program has no nodes except
 * operations, so a step copies or clears nothing else.
 */
#include "impl/tests/run_emulated.h"

#include "common/kernel/cuda/tests/made_up_cudnn.h"
#include "impl/strategies.h"

#include <dlfcn.h>

uint64_t gpu_emulated_launches(bool only);

static made_up_control *made_up; /* NULL: a build without cuDNN */

static uint64_t nodes_so_far(void)
{
    return gpu_emulated_launches(true) + blas_counted.products +
           (made_up ? (uint64_t)made_up->calls : 0);
}

static void count_op(void *context, const ls_op *op)
{
    (void)op;
    ++*(size_t *)context;
}

static uint64_t count_steps(ls_run *run, uint64_t steps)
{
    must(run->functions->sync(run));
    const uint64_t before = nodes_so_far();
    must(run->functions->step(run, LS_FULL, steps));
    must(run->functions->sync(run));
    return nodes_so_far() - before;
}

static uint64_t count_nodes_of(ls_run *run)
{
    size_t operations = 0;
    ls_run_info info;
    run->functions->each_op(run, count_op, &operations);
    run->functions->describe(run, &info);
    assert_int_equal(info.program.nodes, operations);
    const uint64_t one = count_steps(run, 1);
    assert_int_equal(count_steps(run, 3), 3 * one);
    return one;
}

/* Resolves the job as bench does for this model on one device. */
static uint64_t count_nodes(const char *model_name, ls_convolution convolution)
{
    ls_machine *machine;
    ls_device *device;
    ls_model *model;
    ls_data *data;
    ls_run *run;
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    must(ls_device_open(machine, &name, &policy, &device));
    must(ls_model_open(model_name, &model));
    must(ls_data_open("synthetic:600", &model->need, &data));
    ls_job job = {.model = model,
                  .data = data,
                  .devices = &device,
                  .device_count = 1,
                  .batch = model->family->default_batch,
                  .sampling.shuffle = true,
                  .faults.flip_replica = -1,
                  .update.schedule = {.initial = model->family->default_rate, .factor = 0.1},
                  .update.average = model->family->average,
                  .kernels.table = emulated_table(),
                  .kernels.capture = true,
                  .kernels.convolution = convolution,
                  .records = 8};
    must(ls_optimizer_parse(model->family->default_optimizer, &job.update.optimizer));
    must(ls_strategy_open(&ls_strategy_single, &job, &run));
    float *values = calloc(model->graph->variables.elements, sizeof *values);
    must(ls_run_load(run, values));
    const uint64_t nodes = count_nodes_of(run);
    free(values);
    run->functions->close(run);
    ls_data_close(data);
    ls_model_close(model);
    ls_device_close(device);
    ls_machine_close(machine);
    return nodes;
}

/* The number in column `now` of the row of this name: "| `mlp` | before | now |". */
static unsigned long long documented(const char *row)
{
    char line[2048], start[64];
    unsigned long long before, now = 0;
    FILE *file = fopen(LS_SOURCE_DIR "/common/kernel/operations.md", "r");
    assert_non_null(file);
    const int length = snprintf(start, sizeof start, "| `%s` |", row);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, start, (size_t)length) == 0)
            assert_int_equal(sscanf(line + length, "%llu | %llu |", &before, &now), 2);
    fclose(file);
    return now;
}

static void test_counts(void **state)
{
    static const struct {
        const char *model, *row;
        ls_convolution convolution;
    } cases[] = {
        {"mlp", "mlp", LS_CONVOLUTION_AUTO},
        {"cnn", "cnn", LS_CONVOLUTION_AUTO},
        {"cifar10", "cifar10", LS_CONVOLUTION_CUDNN},
        {"cifar10", "cifar10 --convolution own", LS_CONVOLUTION_OWN},
        {"twin-lstm", "twin-lstm", LS_CONVOLUTION_AUTO},
        {"lstm-stack", "lstm-stack", LS_CONVOLUTION_AUTO},
        {"resnet:20", "resnet:20", LS_CONVOLUTION_CUDNN},
        {"resnet:20", "resnet:20 --convolution own", LS_CONVOLUTION_OWN},
        {"poly", "poly", LS_CONVOLUTION_AUTO},
        {"gpt", "gpt", LS_CONVOLUTION_AUTO},
    };
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!made_up && cases[i].convolution == LS_CONVOLUTION_CUDNN)
            continue;
        const unsigned long long expected = documented(cases[i].row);
        const unsigned long long nodes = count_nodes(cases[i].model, cases[i].convolution);
        print_message("%s: %llu nodes a step\n", cases[i].row, nodes);
        if (nodes != expected)
            print_error("%s: common/kernel/operations.md says %llu\n", cases[i].row, expected);
        wrong += nodes != expected;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts)};
    blas_counted.only = true;
    gpu_emulated_launches(true);
    if (LS_HAS_CUDNN) {
        /* A library of this name that is loaded is the one that a load by name finds. */
        void *library = dlopen(LS_BUILD_DIR "/made_up/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
        made_up = library ? dlsym(library, "made_up_cudnn") : NULL;
        if (!made_up) {
            puts(dlerror());
            return 1;
        }
        made_up->only_counted = 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
