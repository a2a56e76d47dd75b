/* SPDX-License-Identifier: MIT */
/*
 * A training step of two dense layers on one table, uncaptured or as a program: the tests of the
 * cuda table compare both with the cpu table's, and with each other.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

#ifndef STEP_COMPARED
#define STEP_COMPARED 20 /* steps; fewer where they are emulated */
#endif

enum {
    STEP_SAMPLES = 203,
    STEP_ROWS = 64,
    STEP_INPUTS = 50,
    STEP_HIDDEN = 36,
    STEP_CLASSES = 10,
    STEP_W1 = STEP_INPUTS * STEP_HIDDEN,
    STEP_W2 = STEP_HIDDEN * STEP_CLASSES,
    STEP_PARAMETERS = STEP_W1 + STEP_HIDDEN + STEP_W2 + STEP_CLASSES,
    STEP_RECORDS = 32,
    STEP_OPS = 10,
    STEP_BUFFERS = 16
};

typedef struct step_net {
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
    ls_op *ops[STEP_OPS];
    int count;
    void *buffers[STEP_BUFFERS];
    int buffer_count;
    float *weight, *gradient, *slot[2];
    ls_step_state *state;
    ls_step_record *records;
    double *loss;
} step_net;

/* What a run ended with. */
typedef struct step_result {
    float weight[STEP_PARAMETERS];
    double loss[STEP_RECORDS];
} step_result;

static inline void *step_take(step_net *n, size_t bytes)
{
    void **memory = &n->buffers[n->buffer_count++];
    must(ls_device_allocate(n->device, LS_MEMORY_WORKSPACE, bytes, memory));
    return *memory;
}

static inline void *step_give(step_net *n, const void *host, size_t bytes)
{
    void *memory = step_take(n, bytes);
    must(ls_queue_write(n->queue, memory, host, bytes));
    return memory;
}

static inline ls_op **step_next(step_net *n)
{
    return &n->ops[n->count++];
}

static inline void step_make_feed(step_net *n, float *x, int32_t *y)
{
    ls_kernels *k = n->kernels;
    uint8_t bytes[STEP_SAMPLES * STEP_INPUTS];
    int32_t labels[STEP_SAMPLES];
    for (int i = 0; i < STEP_SAMPLES * STEP_INPUTS; i++)
        bytes[i] = (uint8_t)(i * 37 + i / 251);
    for (int i = 0; i < STEP_SAMPLES; i++)
        labels[i] = i * 7 % STEP_CLASSES;
    uint32_t *indices = step_take(n, STEP_ROWS * sizeof *indices);
    const void *images = step_give(n, bytes, sizeof bytes);
    const void *classes = step_give(n, labels, sizeof labels);
    must(k->table->batch_indices(
        k, &(ls_batch_indices_args){STEP_ROWS, {STEP_SAMPLES, 7, true}, 0, n->state, indices},
        step_next(n)));
    must(k->table->gather(k,
                          &(ls_gather_args){STEP_ROWS, STEP_INPUTS, LS_GATHER_BYTES_TO_UNIT, images,
                                            indices, x, STEP_SAMPLES},
                          step_next(n)));
    must(k->table->gather(
        k, &(ls_gather_args){STEP_ROWS, 1, LS_GATHER_INT32, classes, indices, y, STEP_SAMPLES},
        step_next(n)));
}

static inline void step_make_layers(step_net *n, const float *x, const int32_t *y)
{
    ls_kernels *k = n->kernels;
    float *h = step_take(n, STEP_ROWS * STEP_HIDDEN * sizeof *h);
    float *dh = step_take(n, STEP_ROWS * STEP_HIDDEN * sizeof *dh);
    float *z = step_take(n, STEP_ROWS * STEP_CLASSES * sizeof *z);
    float *dz = step_take(n, STEP_ROWS * STEP_CLASSES * sizeof *dz);
    float *w1 = n->weight, *b1 = w1 + STEP_W1, *w2 = b1 + STEP_HIDDEN, *b2 = w2 + STEP_W2;
    float *dw1 = n->gradient, *db1 = dw1 + STEP_W1, *dw2 = db1 + STEP_HIDDEN, *db2 = dw2 + STEP_W2;
    must(k->table->dense_forward(k,
                                 &(ls_dense_forward_args){STEP_ROWS, STEP_INPUTS, STEP_HIDDEN, x,
                                                          w1, b1, h, LS_ACTIVATION_RELU, false},
                                 step_next(n)));
    must(k->table->dense_forward(k,
                                 &(ls_dense_forward_args){STEP_ROWS, STEP_HIDDEN, STEP_CLASSES, h,
                                                          w2, b2, z, LS_ACTIVATION_NONE, false},
                                 step_next(n)));
    must(k->table->softmax_cross_entropy(k,
                                         &(ls_softmax_cross_entropy_args){STEP_ROWS, STEP_CLASSES,
                                                                          z, y, 1.0 / STEP_ROWS,
                                                                          NULL, dz, n->loss},
                                         step_next(n)));
    must(k->table->dense_backward_weights(k,
                                          &(ls_dense_backward_weights_args){STEP_ROWS, STEP_HIDDEN,
                                                                            STEP_CLASSES, h, dz,
                                                                            dw2, db2, false},
                                          step_next(n)));
    must(k->table->dense_backward_data(
        k,
        &(ls_dense_backward_data_args){STEP_ROWS, STEP_HIDDEN, STEP_CLASSES, dz, w2, h, dh, false},
        step_next(n)));
    must(k->table->dense_backward_weights(k,
                                          &(ls_dense_backward_weights_args){STEP_ROWS, STEP_INPUTS,
                                                                            STEP_HIDDEN, x, dh, dw1,
                                                                            db1, false},
                                          step_next(n)));
}

static inline void step_make(step_net *n, ls_optimizer_kind kind)
{
    ls_kernels *k = n->kernels;
    const ls_step_state start = {.learning_rate = 0.05};
    float *weight = randoms(STEP_PARAMETERS, 5);
    for (int i = 0; i < STEP_PARAMETERS; i++)
        weight[i] *= 0.2f;
    n->weight = step_give(n, weight, STEP_PARAMETERS * sizeof *weight);
    n->gradient = step_take(n, STEP_PARAMETERS * sizeof *weight);
    for (int i = 0; i < 2; i++)
        n->slot[i] = step_take(n, STEP_PARAMETERS * sizeof *weight);
    n->state = step_give(n, &start, sizeof start);
    n->records = step_take(n, STEP_RECORDS * sizeof *n->records);
    n->loss = step_take(n, sizeof *n->loss);
    float *x = step_take(n, STEP_ROWS * STEP_INPUTS * sizeof *x);
    int32_t *y = step_take(n, STEP_ROWS * sizeof *y);
    step_make_feed(n, x, y);
    step_make_layers(n, x, y);
    const ls_optimizer_args update = {.kind = kind,
                                      .count = STEP_PARAMETERS,
                                      .weight = n->weight,
                                      .gradient = n->gradient,
                                      .slot = {n->slot[0], n->slot[1]},
                                      .mu = 0.9,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .rho = 0.9,
                                      .epsilon = 1e-8,
                                      .state = n->state};
    must(k->table->optimizer(k, &update, step_next(n)));
    free(weight);
}

static inline void step_put(step_net *n, ls_op *finish)
{
    for (int i = 0; i < n->count; i++)
        must(ls_queue_enqueue(n->queue, n->ops[i]));
    must(ls_queue_enqueue(n->queue, finish));
}

static inline void step_run(step_net *n, ls_op *finish, int steps, bool captured)
{
    ls_program *program;
    for (int s = 0; s < steps && !captured; s++)
        step_put(n, finish);
    if (!captured)
        return;
    must(ls_program_begin(n->queue));
    step_put(n, finish);
    must(ls_program_end(n->queue, &program));
    must(ls_program_launch(program, (uint64_t)steps));
    must(ls_queue_sync(n->queue));
    ls_program_close(program);
}

/* Trains `steps` steps, at most STEP_RECORDS, from the same values. */
static inline void step_train(ls_queue *queue, ls_kernels *kernels, ls_optimizer_kind kind,
                              int steps, bool captured, step_result *out)
{
    step_net n = {.device = kernels->device, .queue = queue, .kernels = kernels};
    ls_step_record records[STEP_RECORDS];
    ls_op *finish;
    step_make(&n, kind);
    const ls_finish_step_args end = {.state = n.state,
                                     .batch = STEP_ROWS,
                                     .schedule = {.initial = 0.05},
                                     .loss = n.loss,
                                     .records = n.records,
                                     .capacity = STEP_RECORDS};
    must(kernels->table->finish_step(kernels, &end, &finish));
    step_run(&n, finish, steps, captured);
    must(ls_queue_sync(queue));
    must(ls_queue_read(queue, out->weight, n.weight, sizeof out->weight));
    must(ls_queue_read(queue, records, n.records, sizeof records));
    memset(out->loss, 0, sizeof out->loss);
    for (int s = 0; s < steps; s++)
        out->loss[s] = records[s].loss;
    ls_op_free(finish);
    for (int i = 0; i < n.count; i++)
        ls_op_free(n.ops[i]);
    for (int i = 0; i < n.buffer_count; i++)
        ls_device_release(n.device, n.buffers[i]);
}

/* ||a - b|| / ||b|| of the parameters. */
static inline double step_distance(const step_result *a, const step_result *b)
{
    double off = 0, size = 0;
    for (int i = 0; i < STEP_PARAMETERS; i++) {
        const double difference = (double)a->weight[i] - (double)b->weight[i];
        off += difference * difference;
        size += (double)b->weight[i] * (double)b->weight[i];
    }
    return sqrt(off / size);
}

/*
 * Compares steps on `kernels` with those on the cpu table: parameters within 1e-5 in 2-norm for sgd
 * and momentum (Adam and RMSprop divide by the gradient's size, so a rounding error near 0 moves a
 * weight by the rate: 1e-2), the first loss within 1e-6; captured, uncaptured and repeated, the
 * same bits.
 */
static inline void step_compare(ls_queue *queue, ls_kernels *kernels, ls_queue *cpu_queue,
                                ls_kernels *cpu)
{
    enum { STEPS = STEP_COMPARED };
    static step_result want, got, again;
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++) {
        const double bound = kind <= LS_OPTIMIZER_MOMENTUM ? 1e-5 : 1e-2;
        step_train(cpu_queue, cpu, (ls_optimizer_kind)kind, STEPS, false, &want);
        step_train(queue, kernels, (ls_optimizer_kind)kind, STEPS, false, &got);
        const double distance = step_distance(&got, &want);
        print_message("optimizer %d: %.2g off after %d steps, loss %g to %g\n", kind, distance,
                      STEPS, got.loss[0], got.loss[STEPS - 1]);
        assert_true(distance <= bound);
        assert_true(fabs(got.loss[0] - want.loss[0]) <= 1e-6 * want.loss[0]);
        assert_true(want.loss[0] != want.loss[1]);
        for (int captured = 0; captured < 2; captured++) {
            step_train(queue, kernels, (ls_optimizer_kind)kind, STEPS, captured, &again);
            same_bits("again", &again, &got, sizeof got);
        }
    }
}
