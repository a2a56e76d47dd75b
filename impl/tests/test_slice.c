/* SPDX-License-Identifier: MIT */
/*
 * Slices: exact mode sums the defined shards over the defined tree, whole and as finished subtrees
 * of several replicas; fast mode uses the right samples. No tolerance: bits.
 */
#include "common/base/tests/must.h"
#include "impl/replica/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    ls_machine *machine;
    ls_device *device;
    ls_model *model;
    ls_data *data;
    ls_job job;
    ls_replica *replica;
    float *parameters;
} fixture;

static void open_all(fixture *f, bool exact, int64_t shards, int64_t batch)
{
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    memset(f, 0, sizeof *f);
    must(ls_machine_open(&(ls_machine_options){0}, &f->machine));
    must(ls_device_open(f->machine, &name, &policy, &f->device));
    must(ls_model_open("mlp:20-9-4", &f->model));
    must(ls_data_open("synthetic:300", &f->model->need, &f->data));
    f->job = (ls_job){.model = f->model,
                      .data = f->data,
                      .devices = &f->device,
                      .device_count = 1,
                      .batch = batch,
                      .seed = 5,
                      .sampling.shuffle = true,
                      .faults.flip_replica = -1,
                      .update.schedule = {.initial = 0.1},
                      .exact.on = exact,
                      .exact.shards = shards,
                      .kernels.capture = true,
                      .records = 16};
    must(ls_optimizer_parse("sgd", &f->job.update.optimizer));
    const ls_replica like = {.job = &f->job,
                             .device = f->device,
                             .updates = true,
                             .data.rows = batch,
                             .loss.sums = LS_REPLICA_LOSSES};
    must(ls_replica_open(&like, &f->replica));
    f->parameters = calloc(f->replica->elements, sizeof *f->parameters);
    ls_variables_initialize(&f->model->graph->variables, 5, f->parameters);
    const ls_state_source source = ls_state_held(f->parameters);
    must(ls_replicas_load(&f->replica, 1, &source));
}

static void close_all(fixture *f)
{
    ls_replica_close(f->replica);
    ls_device_close(f->device);
    ls_data_close(f->data);
    ls_model_close(f->model);
    ls_machine_close(f->machine);
    free(f->parameters);
}

/* Gradient of samples [first, last) of the batch, scaled by 1 / batch, by a separate net. */
static float *piece_gradient(fixture *f, int64_t first, int64_t last, double *loss)
{
    ls_replica *r = f->replica;
    float *gradient = calloc(r->elements, sizeof *gradient);
    ls_op_list feed = {0};
    ls_net *net;
    const ls_net_options options = {.graph = f->model->graph,
                                    .kernels = r->kernels,
                                    .rows = last - first,
                                    .divisor = (uint64_t)f->job.batch,
                                    .parameters = r->parameters,
                                    .gradients = r->gradients,
                                    .loss = r->loss.parts};
    must(ls_net_open(&options, &net));
    must(ls_replica_feed(r, net, &(ls_replica_part){.first = (uint64_t)first}, &feed));
    must(ls_op_list_enqueue(&feed, r->queue));
    must(ls_net_forward(net, r->queue));
    must(ls_net_backward(net, r->queue));
    must(ls_queue_read(r->queue, gradient, r->gradients, r->elements * sizeof *gradient));
    must(ls_queue_read(r->queue, loss, r->loss.parts, sizeof *loss));
    ls_op_list_clear(&feed);
    ls_net_close(net);
    return gradient;
}

/* sum(lo, hi) by its definition. */
static float *tree_gradient(fixture *f, int64_t shards, int64_t lo, int64_t hi, double *loss)
{
    int64_t batch = f->job.batch;
    if (hi - lo == 1)
        return piece_gradient(f, lo * batch / shards, (lo + 1) * batch / shards, loss);
    int64_t half = 1;
    while (half * 2 < hi - lo)
        half *= 2;
    double right_loss;
    float *left = tree_gradient(f, shards, lo, lo + half, loss);
    float *right = tree_gradient(f, shards, lo + half, hi, &right_loss);
    for (size_t i = 0; i < f->replica->elements; i++)
        left[i] += right[i];
    *loss += right_loss;
    free(right);
    return left;
}

static void expect_sum(fixture *f, const ls_slice *slice, size_t index, const float *expected,
                       double loss)
{
    assert_memory_equal(ls_slice_gradients(slice, index), expected,
                        f->replica->elements * sizeof *expected);
    assert_memory_equal(ls_slice_loss(slice, index), &loss, sizeof loss);
}

static void exact_is_the_tree(void **state)
{
    static const int64_t cases[][2] = {{16, 100}, {7, 23}, {5, 5}, {16, 7}, {1, 9}, {13, 64}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture f;
        ls_slice *slice;
        double loss;
        int64_t shards = cases[c][0] < cases[c][1] ? cases[c][0] : cases[c][1];
        open_all(&f, true, cases[c][0], cases[c][1]);
        float *expected = tree_gradient(&f, shards, 0, shards, &loss);
        const ls_slice_options options = {
            .replica = f.replica, .batch = f.job.batch, .number = 0, .count = 1};
        must(ls_slice_open(&options, &slice));
        assert_int_equal(ls_slice_sums(slice, 0), 1);
        must(ls_slice_enqueue(slice));
        must(ls_queue_sync(f.replica->queue));
        expect_sum(&f, slice, 0, expected, loss);
        ls_slice_close(slice);
        free(expected);
        close_all(&f);
    }
}

/* Five shards on two replicas: shards 0, 1 and shards 2, 3, 4: subtrees (0,2) and (2,4), (4,5). */
static void replicas_finish_subtrees(void **state)
{
    static const int64_t subtrees[2][2][2] = {{{0, 2}, {0, 0}}, {{2, 4}, {4, 5}}};
    fixture f;
    (void)state;
    open_all(&f, true, 5, 50);
    for (int d = 0; d < 2; d++) {
        ls_slice *slice;
        float *expected[2];
        double loss[2];
        size_t sums = d == 0 ? 1 : 2;
        for (size_t i = 0; i < sums; i++)
            expected[i] = tree_gradient(&f, 5, subtrees[d][i][0], subtrees[d][i][1], &loss[i]);
        const ls_slice_options options = {
            .replica = f.replica, .batch = 50, .number = d, .count = 2};
        must(ls_slice_open(&options, &slice));
        assert_int_equal(ls_slice_sums(slice, 0), sums);
        must(ls_slice_enqueue(slice));
        must(ls_queue_sync(f.replica->queue));
        for (size_t i = 0; i < sums; i++) {
            expect_sum(&f, slice, i, expected[i], loss[i]);
            free(expected[i]);
        }
        ls_slice_close(slice);
    }
    close_all(&f);
}

/* 10 samples on 3 replicas: 0..2, 3..5, 6..9. */
static void fast_takes_its_part(void **state)
{
    static const int64_t begin[] = {0, 3, 6, 10};
    fixture f;
    (void)state;
    open_all(&f, false, 0, 10);
    for (int d = 0; d < 3; d++) {
        ls_slice *slice;
        double loss;
        float *expected = piece_gradient(&f, begin[d], begin[d + 1], &loss);
        const ls_slice_options options = {
            .replica = f.replica, .batch = 10, .number = d, .count = 3};
        must(ls_slice_open(&options, &slice));
        must(ls_slice_enqueue(slice));
        must(ls_queue_sync(f.replica->queue));
        expect_sum(&f, slice, 0, expected, loss);
        ls_slice_close(slice);
        free(expected);
    }
    close_all(&f);
}

/* A smaller batch after the full one, in the same memory, like an epoch's last step. */
static void slices_share_memory(void **state)
{
    fixture f;
    ls_slice *full, *tail;
    double loss;
    (void)state;
    open_all(&f, true, 8, 32);
    ls_slice_options options = {.replica = f.replica, .batch = 32, .number = 0, .count = 1};
    must(ls_slice_open(&options, &full));
    size_t held = ls_device_ledger(f.device).in_use[LS_MEMORY_ACTIVATIONS] +
                  ls_device_ledger(f.device).in_use[LS_MEMORY_GRADIENTS];
    options.batch = 11;
    options.memory_of = full;
    must(ls_slice_open(&options, &tail));
    assert_int_equal(ls_device_ledger(f.device).in_use[LS_MEMORY_ACTIVATIONS] +
                         ls_device_ledger(f.device).in_use[LS_MEMORY_GRADIENTS],
                     held);
    must(ls_slice_enqueue(full));
    must(ls_slice_enqueue(tail));
    must(ls_queue_sync(f.replica->queue));
    f.job.batch = 11;
    float *found = malloc(f.replica->elements * sizeof *found);
    memcpy(found, f.replica->gradients, f.replica->elements * sizeof *found);
    float *expected = tree_gradient(&f, 8, 0, 8, &loss);
    assert_memory_equal(found, expected, f.replica->elements * sizeof *found);
    free(found);
    free(expected);
    ls_slice_close(tail);
    ls_slice_close(full);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_is_the_tree),
        cmocka_unit_test(replicas_finish_subtrees),
        cmocka_unit_test(fast_takes_its_part),
        cmocka_unit_test(slices_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
