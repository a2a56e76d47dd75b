/* SPDX-License-Identifier: MIT */
/*
 * make_parallel: rows of each part, outputs in place, shared variables, order of summation on any
 * devices, counted copies, refusals, a failing part. No tolerance: bits.
 */
#include "common/base/tests/must.h"
#include "common/nn/model.h"
#include "impl/examples/parallel_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 4, ROWS = 7, WIDTH = 3, WEIGHTS = 5 };

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[DEVICES];
    ls_queue *queue;
    void *x, *y, *w, *g, *loss;
    ls_parallel_options options;
} fixture;

/* A part copies its rows, adds its first variable to them or not, or fails. */
typedef struct behaviour {
    int fails;  /* number of the part with a failing operation; -1: none */
    int broken; /* number of the part that fails to open; -1: none */
} behaviour;

static ls_status run_failing(ls_op *op, ls_queue *queue)
{
    (void)op;
    (void)queue;
    return ls_fail(LS_CODE_CHECK, "test", "failing", "planted; none");
}

static void free_op(ls_op *op)
{
    free(op);
}

/* `made` is the status of the constructor, which sets `op`. */
static ls_status append(ls_part *part, ls_status made, ls_op **op)
{
    LS_TRY(made);
    return ls_op_list_add(&part->ops, *op);
}

/* Gradients whose sum depends on the order: part by part 2^25, 1, 1, -2^25, ... */
static double gradient_of(int number)
{
    static const double values[] = {0x1p25, 1, 1, -0x1p25};
    return values[number % 4];
}

static ls_status open_copy(ls_part *part)
{
    const behaviour *does = part->context;
    const ls_kernel_table *table = part->kernels->table;
    ls_op *op = NULL;
    part->own = malloc(1); /* a leak if close is not called */
    if (part->number == does->broken)
        return ls_fail(LS_CODE_CHECK, "test", "broken", "planted; none");
    const ls_add_args rows = {
        .count = part->rows * WIDTH, .a = part->input[0].data, .y = part->output[0].data};
    LS_TRY(append(part, table->add(part->kernels, &rows, &op), &op));
    if (part->number == does->fails) {
        op = calloc(1, sizeof *op);
        *op = (ls_op){.name = "failing", .run = run_failing, .destroy = free_op};
        LS_TRY(ls_op_list_add(&part->ops, op));
    }
    if (part->gradients) {
        const ls_add_args copy = {WEIGHTS, part->variables, NULL, part->gradients};
        LS_TRY(append(part, table->add(part->kernels, &copy, &op), &op));
        const ls_fill_args fill = {1, gradient_of(part->number), part->gradients};
        LS_TRY(append(part, table->fill(part->kernels, &fill, &op), &op));
    }
    if (!part->loss)
        return LS_OK;
    const ls_softmax_cross_entropy_args none = {.loss = part->loss, .scale = 1}; /* 0 */
    return append(part, table->softmax_cross_entropy(part->kernels, &none, &op), &op);
}

static void close_copy(ls_part *part)
{
    free(part->own);
}

static const ls_part_function copies = {.open = open_copy, .close = close_copy};
static const behaviour plain = {.fails = -1, .broken = -1};

static void *take(fixture *f, size_t bytes)
{
    void *memory;
    must(ls_device_allocate(f->device[0], LS_MEMORY_WORKSPACE, bytes, &memory));
    return memory;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    assert_non_null(f);
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &f->machine));
    for (int i = 0; i < DEVICES; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
    }
    must(ls_queue_open(f->device[0], "test", &f->queue));
    float *x = f->x = take(f, ROWS * WIDTH * sizeof(float));
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)i + 0.5f;
    f->y = take(f, ROWS * WIDTH * sizeof(float));
    f->w = take(f, WEIGHTS * sizeof(float));
    f->g = take(f, WEIGHTS * sizeof(float));
    f->loss = take(f, sizeof(double));
    f->options = (ls_parallel_options){.function = &copies,
                                       .context = &plain,
                                       .devices = f->device,
                                       .count = 3,
                                       .queue = f->queue,
                                       .rows = ROWS,
                                       .input_count = 1,
                                       .input = {{f->x, WIDTH * sizeof(float)}},
                                       .output_count = 1,
                                       .output = {{f->y, WIDTH * sizeof(float)}}};
    *state = f;
    return 0;
}

static size_t in_use(fixture *f)
{
    size_t bytes = 0;
    for (int i = 0; i < DEVICES; i++) {
        const ls_memory_ledger ledger = ls_device_ledger(f->device[i]);
        for (int use = 0; use < LS_MEMORY_USES; use++)
            bytes += ledger.in_use[use];
    }
    return bytes;
}

static int teardown(void **state)
{
    fixture *f = *state;
    assert_int_equal(in_use(f), (2 * ROWS * WIDTH + 2 * WEIGHTS) * sizeof(float) + sizeof(double));
    ls_queue_close(f->queue);
    for (int i = 0; i < DEVICES; i++)
        ls_device_close(f->device[i]);
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

static void share_variables(fixture *f)
{
    f->options.variables = f->w;
    f->options.variable_bytes = WEIGHTS * sizeof(float);
    f->options.gradients = f->g;
    f->options.loss = f->loss;
}

static void put_and_sync(ls_parallel *parallel)
{
    must(ls_parallel_enqueue(parallel));
    must(ls_parallel_sync(parallel));
}

/* Every number of parts, on all devices in turn from the second on: no row is lost or moved. */
static void rows_are_split(void **state)
{
    fixture *f = *state;
    ls_parallel_options o = f->options;
    ls_device *devices[ROWS];
    o.devices = devices;
    for (int n = 1; n <= ROWS; n++) {
        ls_parallel *parallel;
        uint64_t bytes = 0, messages = 0;
        for (int d = 0; d < n; d++) {
            const uint64_t rows = (uint64_t)((d + 1) * ROWS / n - d * ROWS / n);
            devices[d] = f->device[(d + 1) % DEVICES];
            messages += devices[d] != f->device[0] ? 2 : 0;
            bytes += devices[d] != f->device[0] ? 2 * rows * WIDTH * sizeof(float) : 0;
        }
        o.count = n;
        memset(f->y, 0xff, ROWS * WIDTH * sizeof(float));
        must(ls_make_parallel(&o, &parallel));
        put_and_sync(parallel);
        assert_memory_equal(f->x, f->y, ROWS * WIDTH * sizeof(float));
        const ls_traffic sent = ls_parallel_traffic(parallel);
        assert_int_equal(sent.messages_sent, messages);
        assert_int_equal(sent.bytes_sent, bytes);
        ls_parallel_close(parallel);
    }
}

/* ((g0 + g1) + g2) + g3, in float32, on any devices; each replay uses the current variables. */
static void sums_are_in_order(void **state)
{
    fixture *f = *state;
    share_variables(f);
    ls_parallel_options o = f->options;
    static const int places[][4] = {{0, 0, 0, 0}, {0, 1, 2, 3}, {3, 2, 1, 1}, {1, 1, 0, 2}};
    ls_device *devices[4];
    float *w = f->w, *g = f->g;
    o.count = 4;
    o.devices = devices;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        ls_parallel *parallel;
        ls_program *program;
        for (int d = 0; d < 4; d++)
            devices[d] = f->device[places[p][d]];
        must(ls_make_parallel(&o, &parallel));
        must(ls_program_begin(f->queue));
        must(ls_parallel_enqueue(parallel));
        must(ls_program_end(f->queue, &program));
        for (int turn = 1; turn <= 3; turn++) {
            for (int i = 0; i < WEIGHTS; i++)
                w[i] = (float)(turn * (i + 1));
            *(double *)f->loss = 77;
            must(ls_program_launch(program, 50));
            must(ls_parallel_sync(parallel));
            assert_true(g[0] == ((0x1p25f + 1) + 1) - 0x1p25f);
            assert_true(*(double *)f->loss == 0);
            for (int i = 1; i < WEIGHTS; i++)
                assert_true(g[i] == (float)(4 * turn * (i + 1)));
        }
        ls_program_close(program);
        ls_parallel_close(parallel);
    }
}

/* A single part writes its sums directly to the result, from the holder or another device. */
static void one_part_needs_no_sum(void **state)
{
    fixture *f = *state;
    float *w = f->w, *g = f->g;
    share_variables(f);
    f->options.count = 1;
    for (int place = 0; place < 2; place++) {
        ls_parallel *parallel;
        f->options.devices = f->device + place;
        w[1] = (float)(3 + place);
        g[0] = g[1] = 0;
        must(ls_make_parallel(&f->options, &parallel));
        put_and_sync(parallel);
        assert_true(g[0] == 0x1p25f && g[1] == (float)(3 + place));
        assert_int_equal(ls_parallel_traffic(parallel).messages_sent, place ? 5 : 0);
        ls_parallel_close(parallel);
    }
}

static void refused(const ls_parallel_options *options, const char *word)
{
    ls_parallel *parallel = NULL;
    ls_status status = ls_make_parallel(options, &parallel);
    assert_null(parallel);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    if (!strstr(ls_status_text(status), word))
        fail_msg("'%s' has no '%s'", ls_status_text(status), word);
    ls_status_free(status);
}

static void misuse_is_refused(void **state)
{
    fixture *f = *state;
    ls_parallel_options o = f->options;
    o.count = 0;
    refused(&o, "7 rows cannot be divided into 0 parts");
    o.count = ROWS + 1;
    refused(&o, "7 rows cannot be divided into 8 parts");
    o = f->options;
    o.input_count = LS_PARALLEL_BATCHES + 1;
    refused(&o, "5 inputs");
    o = f->options;
    o.output_count = -1;
    refused(&o, "-1 outputs");
    o = f->options;
    o.gradients = f->g;
    refused(&o, "no variables");
}

static void graph_sizes_are_checked(void **state)
{
    fixture *f = *state;
    ls_model *model;
    must(ls_model_open("mlp:3-2", &model));
    ls_parallel_options o = f->options;
    o.function = &ls_part_graph;
    o.context = model->graph;
    o.variables = f->w;
    o.variable_bytes = model->graph->variables.elements * sizeof(float);
    refused(&o, "output: this batch has rows of 12 bytes, but the graph needs rows of 8 bytes");
    o.output_count = 0;
    o.input[0].row_bytes = 4;
    refused(&o, "input: this batch has rows of 4 bytes");
    o = f->options;
    o.function = &ls_part_graph;
    o.context = model->graph;
    o.input_count = 2;
    refused(&o, "2 inputs and 1 outputs");
    o.output_count = 0;
    o.input[1] = o.input[0];
    o.variables = f->w;
    o.gradients = f->g;
    refused(&o, "target: this batch has rows of 12 bytes, but the graph needs rows of 4");
    ls_model_close(model);
}

/* If a part cannot be opened, all memory is freed; if a part fails, the failure is reported and
 * nothing waits for ever. */
static void failures_are_told(void **state)
{
    fixture *f = *state;
    share_variables(f);
    ls_parallel_options o = f->options;
    behaviour does = plain;
    ls_parallel *parallel;
    o.context = &does;
    const size_t before = in_use(f);
    for (does.broken = 0; does.broken < 3; does.broken++) {
        ls_status status = ls_make_parallel(&o, &parallel);
        assert_int_equal(ls_status_code(status), LS_CODE_CHECK);
        ls_status_free(status);
        assert_int_equal(in_use(f), before);
    }
    does.broken = -1;
    for (does.fails = 0; does.fails < 3; does.fails++) {
        must(ls_make_parallel(&o, &parallel));
        must(ls_parallel_enqueue(parallel));
        ls_status status = ls_parallel_sync(parallel);
        assert_int_equal(ls_status_code(status), LS_CODE_CHECK);
        ls_status_free(status);
        ls_parallel_close(parallel);
    }
}

/* Two steps of gradient descent on the holder: the state advances, the loss is read. */
static void training_updates_the_variables(void **state)
{
    fixture *f = *state;
    float *w = f->w;
    double loss = 7;
    ls_optimizer sgd;
    ls_parallel_training *training;
    f->options.variables = f->w;
    f->options.variable_bytes = WEIGHTS * sizeof(float);
    for (int i = 0; i < WEIGHTS; i++)
        w[i] = 1;
    must(ls_optimizer_parse("sgd", &sgd));
    must(ls_parallel_training_open(&f->options, &sgd, 0.25, &training));
    must(ls_parallel_training_step(training, 2));
    must(ls_parallel_training_loss(training, &loss));
    assert_true(loss == 0);
    assert_int_equal(training->state->step, 2);
    for (int i = 1; i < WEIGHTS; i++) /* g = 3 w: w -= 0.75 w, twice */
        assert_true(w[i] == 0.0625f);
    ls_parallel_training_close(training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_split, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_are_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(one_part_needs_no_sum, setup, teardown),
        cmocka_unit_test_setup_teardown(misuse_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(graph_sizes_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(training_updates_the_variables, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
