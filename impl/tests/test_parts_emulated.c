/* SPDX-License-Identifier: MIT */
/* Models of odd sizes, whole and divided; offsets of a part's variables differ from the whole
 * model's, by any multiple of 4 bytes. model-parallel and pipeline give the bits of `single` with
 * the cuda table, on CPU devices. The emulated cuBLASLt (blas_emulate.h) gives different bits for
 * different alignments. Two LSTMs are included, which are one operation in the whole model only;
 * and a transformer, copied, too. No tolerance. */
#include "impl/tests/run_emulated.h"

#include "common/nn/divide/places.h"
#include "impl/strategies.h"

enum { DEVICES = 3, STEPS = 3, NODES = 32 };

typedef struct site {
    ls_machine *machine;
    ls_device *device[DEVICES];
    ls_model *model;
    ls_data *data;
    int64_t batch;
} site;

static int open_site(void **state, const char *model)
{
    site *s = calloc(1, sizeof *s);
    s->batch = 20;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &s->machine));
    for (int i = 0; i < DEVICES; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(s->machine, &name, &policy, &s->device[i]));
    }
    must(ls_model_open(model, &s->model));
    must(ls_data_open("synthetic:100", &s->model->need, &s->data));
    *state = s;
    return 0;
}

static int open_dense(void **state)
{
    return open_site(state, "mlp:785-33-17-11");
}

static int open_twin(void **state)
{
    return open_site(state, "twin-lstm:7-5-256");
}

static int open_gpt(void **state)
{
    const int status = open_site(state, "gpt:1-2-10-9-17");
    ((site *)*state)->batch = 5;
    return status;
}

static int close_site(void **state)
{
    site *s = *state;
    ls_data_close(s->data);
    ls_model_close(s->model);
    for (int i = 0; i < DEVICES; i++)
        ls_device_close(s->device[i]);
    ls_machine_close(s->machine);
    free(s);
    return 0;
}

/* Returns the parameters after some steps; the caller frees them. */
static float *train(const site *s, const ls_strategy *strategy, int devices, bool exact, int splits)
{
    const size_t elements = s->model->graph->variables.elements;
    float *values = calloc(elements, sizeof *values);
    int place[NODES];
    ls_run *run;
    ls_job job = {.model = s->model,
                  .data = s->data,
                  .devices = s->device,
                  .device_count = (size_t)devices,
                  .division.place = strategy->spreads.mesh.rest == LS_STAGE ? place : NULL,
                  .batch = s->batch,
                  .seed = 1,
                  .sampling.shuffle = true,
                  .faults.flip_replica = -1,
                  .update.schedule = {.initial = 0.01},
                  .exact.on = exact,
                  .exact.shards = 4,
                  .exact.splits = splits,
                  .kernels.table = emulated_table(),
                  .kernels.capture = true,
                  .records = 8};
    ls_strategy_resolve(strategy, &job, 1);
    must(ls_places_balance(s->model->graph, devices, place));
    must(ls_optimizer_parse("adam", &job.update.optimizer));
    must(ls_allreduce_find("canonical", &job.exchange.allreduce));
    must(ls_strategy_open(strategy, &job, &run));
    ls_variables_initialize(&s->model->graph->variables, 1, values);
    must(ls_run_load(run, values));
    must(run->functions->step(run, LS_FULL, STEPS));
    must(run->functions->sync(run));
    must(ls_run_gather(run, values));
    run->functions->close(run);
    return values;
}

static void check_bits(const site *s, const ls_strategy *strategy, bool exact)
{
    const size_t bytes = s->model->graph->variables.elements * sizeof(float);
    float *expected = train(s, &ls_strategy_single, 1, exact, 1);
    for (int devices = 2; devices <= DEVICES; devices++) {
        float *got = train(s, strategy, devices, exact, 1);
        assert_memory_equal(expected, got, bytes);
        free(got);
    }
    free(expected);
}

static void test_model_parallel(void **state)
{
    check_bits(*state, &ls_strategy_model_parallel, false);
    check_bits(*state, &ls_strategy_model_parallel, true);
}

static void test_pipeline(void **state)
{
    check_bits(*state, &ls_strategy_pipeline, true);
}

static void test_transformer(void **state)
{
    static const ls_strategy *const strategies[] = {&ls_strategy_mirrored, &ls_strategy_zero,
                                                    &ls_strategy_pipeline};
    const site *s = *state;
    const size_t bytes = s->model->graph->variables.elements * sizeof(float);
    float *expected = train(s, &ls_strategy_single, 1, true, 1);
    for (int i = 0; i < 3; i++) {
        float *got = train(s, strategies[i], DEVICES, true, 1);
        assert_memory_equal(expected, got, bytes);
        free(got);
    }
    free(expected);
}

/* Slices of uneven sizes, on 1, 2 and 3 places; and they are other bits than without slices. */
static void check_slices(const site *s, int splits)
{
    const size_t bytes = s->model->graph->variables.elements * sizeof(float);
    float *expected = train(s, &ls_strategy_single, 1, true, splits);
    float *whole = train(s, &ls_strategy_single, 1, true, 1);
    assert_memory_not_equal(expected, whole, bytes);
    for (int devices = 1; devices <= DEVICES && devices <= splits; devices++) {
        float *got = train(s, &ls_strategy_tensor_parallel, devices, true, splits);
        assert_memory_equal(expected, got, bytes);
        free(got);
    }
    free(expected);
    free(whole);
}

static void test_tensor_parallel(void **state)
{
    check_slices(*state, 5);
}

static void test_heads(void **state)
{
    check_slices(*state, 2);
}

int main(void)
{
    const struct CMUnitTest transformer[] = {cmocka_unit_test(test_transformer),
                                             cmocka_unit_test(test_heads)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model_parallel),
                                       cmocka_unit_test(test_pipeline)};
    const struct CMUnitTest slices[] = {cmocka_unit_test(test_tensor_parallel)};
    return cmocka_run_group_tests(slices, open_dense, close_site) +
           cmocka_run_group_tests(tests, open_dense, close_site) +
           cmocka_run_group_tests(tests, open_twin, close_site) +
           cmocka_run_group_tests(transformer, open_gpt, close_site);
}
