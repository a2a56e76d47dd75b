/* SPDX-License-Identifier: MIT */
/* What the kernel tables refuse, how an operation fails, and the registry. No tolerance. */
#include "common/kernel/tests/kernel_fixture.h"

/* The constructor refuses, with this message. */
static void refused(ls_status status, ls_op *op, const char *text)
{
    assert_non_null(status);
    assert_null(op);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    if (!strstr(ls_status_text(status), text))
        fail_msg("\"%s\" does not say \"%s\"", ls_status_text(status), text);
    assert_non_null(strchr(ls_status_text(status), ';'));
    ls_status_free(status);
}

static void refuses_products(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64];
    ls_op *op = NULL;
    refused(t->gemm(k, &(ls_gemm_args){.m = -1, .a = data, .b = data, .c = data}, &op), op,
            "gemm: a: the size of this matrix is -1 x 0");
    refused(t->gemm(k, &(ls_gemm_args){.m = 2, .n = 2, .k = 2, .b = data, .c = data}, &op), op,
            "gemm: a: this matrix has 2 x 2 elements, but its memory is NULL");
    refused(t->gemm(k,
                    &(ls_gemm_args){
                        .m = INT64_MAX, .n = 2, .k = INT64_MAX, .a = data, .b = data, .c = data},
                    &op),
            op, "more than memory can hold");
    refused(t->dense_forward(k, &(ls_dense_forward_args){2, 2, 2, data, NULL, NULL, data, 0, false},
                             &op),
            op, "dense_forward: weight: this matrix has");
    refused(t->dense_forward(
                k,
                &(ls_dense_forward_args){2, 2, 2, data, data, NULL, data, (ls_activation)9, false},
                &op),
            op, "activation");
    refused(t->dense_backward_weights(
                k, &(ls_dense_backward_weights_args){2, 2, 2, data, data, NULL, NULL, false}, &op),
            op, "dweight");
    refused(t->dense_backward_data(
                k, &(ls_dense_backward_data_args){2, -2, 2, data, data, NULL, data, false}, &op),
            op, "-2");
}

static void refuses_elements(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64];
    const ls_step_state state = {0};
    ls_op *op = NULL;
    refused(t->relu_forward(k, &(ls_relu_forward_args){-3, data, data}, &op), op, "-3");
    refused(t->relu_backward(k, &(ls_relu_backward_args){3, data, data, NULL}, &op), op, "dx");
    refused(t->polynomial(k, &(ls_polynomial_args){3, NULL, data}, &op), op, "polynomial: x");
    refused(t->add(k, &(ls_add_args){3, NULL, data, data}, &op), op, "add: a");
    refused(t->fill(k, &(ls_fill_args){3, 0, NULL}, &op), op, "fill: y");
    refused(t->scale(k, &(ls_scale_args){3, 0, NULL, NULL}, &op), op, "scale: y");
    refused(t->add_loss(k, &(ls_add_loss_args){data, NULL, data}, &op), op, "add_loss: b");
    refused(t->stamp(k, &(ls_stamp_args){NULL}, &op), op, "stamp: time_ns");
    ls_optimizer_args o = {.kind = LS_OPTIMIZER_ADAM, .count = 3, .weight = data};
    o.gradient = data, o.state = &state, o.slot[0] = data;
    refused(t->optimizer(k, &o, &op), op, "slot[1]");
    o.slot[1] = data, o.beta2 = (double)NAN;
    refused(t->optimizer(k, &o, &op), op, "beta2");
    o.beta2 = 0.5;
    const ls_update_range gap[] = {{0, 1, 0, 0, false}, {2, 1, 0, 0, false}};
    const ls_update_range some[] = {{0, 2, 0, 0, false}};
    o.ranges = gap, o.range_count = 2;
    refused(t->optimizer(k, &o, &op), op, "1 elements that begins at element 2");
    o.ranges = some, o.range_count = 1;
    refused(t->optimizer(k, &o, &op), op, "end at element 2 of 3");
    o.kind = (ls_optimizer_kind)17;
    refused(t->optimizer(k, &o, &op), op, "17");
}

static void refuses_batches(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64], loss;
    int32_t labels[8] = {0};
    uint32_t indices[8] = {0};
    uint64_t count = 0;
    ls_step_state state = {0};
    ls_step_record record;
    ls_op *op = NULL;
    refused(t->softmax_cross_entropy(
                k, &(ls_softmax_cross_entropy_args){2, 3, data, labels, 1, NULL, data, &loss}, &op),
            op, "dlogits: dlogits is the same memory as logits");
    refused(t->softmax_cross_entropy(
                k, &(ls_softmax_cross_entropy_args){2, 3, data, NULL, 1, NULL, NULL, &loss}, &op),
            op, "labels");
    refused(t->squared_error(
                k, &(ls_squared_error_args){2, 3, data, data, (double)INFINITY, NULL, &loss}, &op),
            op, "scale: the value is inf");
    refused(
        t->count_correct(k, &(ls_count_correct_args){2, 3, 1, data, labels, NULL, 2, &count}, &op),
        op, "state");
    refused(t->batch_indices(k, &(ls_batch_indices_args){2, {0, 1, true}, 0, &state, indices}, &op),
            op, "0 samples");
    refused(t->batch_indices(
                k, &(ls_batch_indices_args){2, {1ull << 31, 1, true}, 0, &state, indices}, &op),
            op, "2147483648 samples");
    refused(t->gather(k, &(ls_gather_args){2, 3, (ls_gather_type)5, data, indices, data, 1}, &op),
            op, "gather: type");
    refused(t->gather(k, &(ls_gather_args){2, 3, LS_GATHER_FLOAT, data, NULL, data, 1}, &op), op,
            "indices");
    refused(
        t->finish_step(
            k, &(ls_finish_step_args){&state, 1, {.initial = 0}, NULL, &record, 0, 0, NULL}, &op),
        op, "capacity");
    refused(t->finish_step(
                k, &(ls_finish_step_args){&state, 1, {.initial = 0}, NULL, NULL, 1, 0, NULL}, &op),
            op, "records");
    const uint64_t ring = UINT64_MAX / sizeof record + 2; /* its bytes overflow to few */
    refused(t->finish_step(
                k, &(ls_finish_step_args){&state, 1, {.initial = 0}, NULL, &record, ring, 0, NULL},
                &op),
            op, "more than memory can hold");
}

static void refuses_convolutions(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64];
    int32_t argmax[64];
    ls_op *op = NULL;
    const ls_conv_shape good = {1, 1, 1, {3, 3, 2, 2, 2, 2, 1, 1, 0, 0}};
    ls_conv_shape bad = good;
    bad.window.out_height = 5;
    refused(t->conv_forward(k, &(ls_conv_forward_args){bad, data, data, NULL, data, 0}, &op), op,
            "conv_forward: height: a window of 2");
    bad = good, bad.window.stride_x = 0;
    refused(
        t->conv_backward_data(k, &(ls_conv_backward_data_args){bad, data, data, data, NULL}, &op),
        op, "conv_backward_data: width");
    bad = good, bad.channels = 0;
    refused(t->conv_backward_weights(
                k, &(ls_conv_backward_weights_args){bad, data, data, data, NULL}, &op),
            op, "0 channels");
    bad = good, bad.rows = -1;
    refused(t->conv_forward(k, &(ls_conv_forward_args){bad, data, data, NULL, data, 0}, &op), op,
            "-1");
    refused(t->conv_forward(
                k, &(ls_conv_forward_args){good, data, data, NULL, data, (ls_activation)7}, &op),
            op, "activation");
    refused(t->conv_max_forward(
                k, &(ls_conv_max_forward_args){good, data, data, NULL, data, NULL, 0}, &op),
            op, "argmax");
    bad = good, bad.window.out_height = 0;
    refused(t->conv_max_forward(
                k, &(ls_conv_max_forward_args){bad, data, data, NULL, data, argmax, 0}, &op),
            op, "no position");
    bad.window = (ls_window){1 << 16, 1 << 16, 1 << 16, 1 << 16, 1, 1, 1, 1, 0, 0};
    refused(t->conv_max_forward(
                k, &(ls_conv_max_forward_args){bad, data, data, NULL, data, argmax, 0}, &op),
            op, "conv_max_forward: window: the window would be applied at more than 2147483647");
    bad.window = (ls_window){1 << 16, 1 << 16, 1, 1, 1, 1, 1, 1, 0, 0};
    refused(t->conv_max_backward_weights(
                k, &(ls_conv_max_backward_weights_args){bad, data, data, argmax, data, NULL}, &op),
            op,
            "a sample, or the weights of one output channel, have more than 2147483647 elements");
    refused(t->conv_max_backward_weights(
                k, &(ls_conv_max_backward_weights_args){good, data, NULL, argmax, data, NULL}, &op),
            op, "dy");
    bad = good, bad.window.out_width = 0;
    refused(t->conv_max_backward_weights(
                k, &(ls_conv_max_backward_weights_args){bad, data, data, argmax, data, NULL}, &op),
            op, "no position");
}

static void refuses_images(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64];
    int32_t argmax[64];
    ls_op *op = NULL;
    const ls_window good = {3, 3, 2, 2, 2, 2, 1, 1, 0, 0};
    refused(
        t->max_pool_forward(k, &(ls_max_pool_forward_args){1, 1, good, data, NULL, argmax}, &op),
        op, "max_pool_forward: y");
    refused(t->max_pool_backward(
                k, &(ls_max_pool_backward_args){1, -2, good, data, argmax, NULL, data}, &op),
            op, "-2");
    const ls_window outside = {0, 3, 1, 2, 2, 2, 1, 1, 1, 0}; /* its row is padding only */
    refused(
        t->max_pool_forward(k, &(ls_max_pool_forward_args){1, 1, outside, data, data, argmax}, &op),
        op, "does not give 1 positions on an image of 0");
    refused(t->lrn_forward(k, &(ls_lrn_forward_args){1, 4, -1, 1, data, data + 8}, &op), op,
            "radius: -1");
    refused(t->lrn_backward(
                k, &(ls_lrn_backward_args){1, 4, 4, (double)NAN, false, data, data, data + 8}, &op),
            op, "alpha");
    const uint8_t bytes[64] = {0};
    const uint32_t indices[1] = {0};
    const ls_step_state state = {0};
    refused(t->gather_crops(
                k,
                &(ls_gather_crops_args){1, 1, 4, 5, bytes, indices, true, 1, 0, &state, data, 0, 1},
                &op),
            op, "a crop with sides of 5 pixels does not fit");
    refused(t->gather_crops(
                k,
                &(ls_gather_crops_args){1, 1, 4, 4, bytes, indices, true, 1, 0, NULL, data, 0, 1},
                &op),
            op, "state");
    refused(t->transpose(k, &(ls_transpose_args){2, -3, 4, data, data + 8}, &op), op, "-3");
    double loss;
    const ls_update_range endless = {0, 4, (double)INFINITY, 0, false};
    const ls_update_range beyond = {1, 4, 1, 0, false};
    refused(t->weight_decay(k, &(ls_weight_decay_args){4, data, &endless, 1, &loss}, &op), op,
            "decay");
    refused(t->weight_decay(k, &(ls_weight_decay_args){4, data, &beyond, 1, &loss}, &op), op,
            "4 elements that begins at element 1");
    refused(t->weight_decay(k, &(ls_weight_decay_args){4, data, NULL, 1, &loss}, &op), op,
            "ranges");
}

static void refuses_residual(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64], sums[8];
    ls_op *op = NULL;
    refused(t->bn_sums(k, &(ls_bn_sums_args){4, -1, data, sums, NULL, 0}, &op), op, "-1");
    refused(t->bn_sums(k, &(ls_bn_sums_args){4, 1, data, NULL, NULL, 0}, &op), op, "bn_sums: sums");
    refused(t->bn_sums(k, &(ls_bn_sums_args){4, 1, data, sums, data, (double)NAN}, &op), op,
            "epsilon");
    refused(t->bn_moments(k, &(ls_bn_moments_args){2, 0, 1e-5, sums, data}, &op), op, "0 pixels");
    refused(t->bn_moments(k, &(ls_bn_moments_args){2, 1, (double)NAN, sums, data}, &op), op,
            "epsilon");
    refused(t->bn_moving_moments(k, &(ls_bn_moving_moments_args){2, 1e-5, data, NULL, data}, &op),
            op, "variance");
    refused(
        t->bn_forward(k, &(ls_bn_forward_args){2, 2, data, data, data, data, NULL, NULL, 0}, &op),
        op, "bn_forward: y");
    ls_bn_backward_sums_args b = {.pixels = 2, .channels = 2, .x = data, .moments = data};
    b.weight = b.bias = b.dy = data, b.sums = sums, b.dbias = b.mean = data, b.batch = sums;
    refused(t->bn_backward_sums(k, &b, &op), op, "dweight");
    b.dweight = data;
    refused(t->bn_backward_sums(k, &b, &op), op, "variance");
    b.variance = data;
    refused(t->bn_backward_sums(k, &b, &op), op, "0 pixels");
    b.count = 2, b.share = (double)NAN;
    refused(t->bn_backward_sums(k, &b, &op), op, "share");
    refused(
        t->bn_backward(
            k, &(ls_bn_backward_args){2, 2, 0, data, data, data, data, 0, sums, data, data}, &op),
        op, "count");
    refused(
        t->shortcut_forward(k, &(ls_shortcut_forward_args){{1, 4, 4, 3, 2, 2}, data, data}, &op),
        op, "to 2 channels");
    refused(
        t->shortcut_backward(k, &(ls_shortcut_backward_args){{1, 4, 4, 3, 3, 0}, data, data}, &op),
        op, "stride 0");
    refused(t->mean_pool_forward(k, &(ls_mean_pool_forward_args){1, 0, 2, data, data}, &op), op,
            "0 pixels");
    refused(t->mean_pool_backward(k, &(ls_mean_pool_backward_args){1, 1, -2, data, data}, &op), op,
            "-2");
    refused(t->add_sums(k, &(ls_add_sums_args){2, sums, NULL, NULL}, &op), op, "out");
    refused(t->moving_average(k, &(ls_moving_average_args){-1, 0.5, NULL, data, data}, &op), op,
            "-1");
}

static void refuses_sequences(ls_kernels *k)
{
    const ls_kernel_table *t = k->table;
    double data[64];
    int32_t labels[8] = {0};
    ls_op *op = NULL;
    const ls_lstm_shape shape = {1, 2, 3, 1, true};
    ls_lstm_shape bad = shape;
    bad.steps = 0;
    refused(
        t->lstm_forward(k, &(ls_lstm_forward_args){bad, data, data, data, data, data, data}, &op),
        op, "0 steps");
    refused(
        t->lstm_forward(k, &(ls_lstm_forward_args){shape, data, data, data, NULL, data, data}, &op),
        op, "lstm_forward: bias");
    refused(t->lstm_backward(k,
                             &(ls_lstm_backward_args){shape, data, data, data, NULL, data, NULL,
                                                      data, data, data},
                             &op),
            op, "lstm_backward: kept");
    refused(t->logistic_loss(k, &(ls_logistic_loss_args){2, data, labels, (double)NAN, NULL, data},
                             &op),
            op, "scale");
    refused(t->copy_columns(k, &(ls_copy_columns_args){2, 5, 4, 8, data, data + 16}, &op), op,
            "width: 5");
}

static void test_refusals(void **state)
{
    fixture *f = *state;
    for (int i = 0; ls_kernel_tables.entries[i]; i++) {
        const ls_kernel_table *table = ls_kernel_tables.entries[i];
        ls_kernels *kernels;
        if (table->kind != LS_DEVICE_CPU)
            continue;
        must(table->open(f->device, &kernels));
        refuses_products(kernels);
        refuses_elements(kernels);
        refuses_batches(kernels);
        refuses_convolutions(kernels);
        refuses_images(kernels);
        refuses_residual(kernels);
        refuses_sequences(kernels);
        table->close(kernels);
    }
}

/* A label outside the classes makes the op fail, and nothing is written. */
/* The logistic loss knows labels 0 and 1. */
static void test_logistic_labels(void **state)
{
    fixture *f = *state;
    float z[3] = {0};
    const int32_t labels[3] = {0, 1, 2};
    ls_kernels *const tables[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        double loss = 123;
        ls_op *op;
        must(tables[k]->table->logistic_loss(
            tables[k], &(ls_logistic_loss_args){3, z, labels, 1, NULL, &loss}, &op));
        must(ls_queue_enqueue(f->queue, op));
        ls_status status = ls_queue_sync(f->queue);
        assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
        assert_non_null(strstr(ls_status_text(status), "row 2: label 2 is not one of the 2"));
        assert_true(loss == 123);
        ls_status_free(status);
        ls_op_free(op);
    }
}

static void test_labels(void **state)
{
    fixture *f = *state;
    static const int32_t bad[] = {-1, 10, INT32_MIN, INT32_MAX};
    float z[70] = {0}, dz[70];
    for (int k = 0; k < 8; k++) {
        ls_kernels *kernels = k % 2 ? f->cpu : f->reference;
        int32_t labels[7] = {0, 9, 3, 4, 5, bad[k / 2], 1};
        char text[64];
        double loss = 123;
        ls_op *op;
        ls_softmax_cross_entropy_args args = {7, 10, z, labels, 1, NULL, dz, &loss};
        must(kernels->table->softmax_cross_entropy(kernels, &args, &op));
        must(ls_queue_enqueue(f->queue, op));
        ls_status status = ls_queue_sync(f->queue);
        assert_non_null(status);
        assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
        snprintf(text, sizeof text, "row 5: label %d is not one of the 10 classes", bad[k / 2]);
        assert_non_null(strstr(ls_status_text(status), text));
        assert_true(loss == 123);
        ls_status_free(status);
        ls_op_free(op);
    }
}

/* Non-finite inputs give non-finite results: divergence of a run shows in its loss. */
static void test_divergence(void **state)
{
    fixture *f = *state;
    static const float bad[] = {NAN, INFINITY};
    for (int k = 0; k < 4; k++)
        for (int classes = 10; classes < 60; classes += 30) {
            ls_kernels *kernels = k % 2 ? f->cpu : f->reference;
            float z[70] = {0}, dz[70];
            int32_t label = 3;
            double loss = 0;
            z[7] = bad[k / 2];
            ls_softmax_cross_entropy_args args = {1, classes, z, &label, 1, NULL, dz, &loss};
            apply_softmax_cross_entropy(f, kernels, &args);
            assert_true(!isfinite(loss));
            float y[2] = {bad[k / 2], 1}, target[2] = {0, 0}, dy[2];
            ls_squared_error_args error = {2, 1, y, target, 1, dy, &loss};
            apply_squared_error(f, kernels, &error);
            assert_true(!isfinite(loss) && !isfinite(dy[0]));
        }
}

static void test_registry(void **state)
{
    fixture *f = *state;
    const ls_kernel_table *table;
    ls_status status = ls_kernel_table_find("cuda9", &table);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "reference, reference64, cpu"));
    ls_status_free(status);
    assert_string_equal(ls_kernel_table_default(LS_DEVICE_CPU)->name, "cpu");
    assert_non_null(strstr(f->cpu->table->library(f->cpu), "oneDNN "));
    assert_non_null(
        strstr(f->cpu->table->library(f->cpu), ls_kernel_library_version((char[32]){0})));
    assert_string_equal(f->reference->table->library(f->reference), "");
    print_message("%s\n", f->cpu->table->library(f->cpu));
    must(ls_kernel_table_find("reference64", &table));
    assert_int_equal(table->real_bytes, 8);
}

/* Opens a table for an arithmetic, or a device, that it does not support. */
static void test_opening(void **state)
{
    fixture *f = *state;
    ls_kernels *kernels = NULL;
    ls_status status = ls_kernels_open(f->device, LS_MATH_TF32, &kernels);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "do not support tf32; use --math float32"));
    ls_status_free(status);
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &kernels));
    assert_string_equal(kernels->table->name, "cpu");
    kernels->table->close(kernels);
    const ls_kernel_table *cuda = ls_kernel_table_default(LS_DEVICE_GPU);
    if (!cuda)
        return;
    status = cuda->open(f->device, &kernels);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status),
                           "kernels: cpu:0: the kernel table 'cuda' works on GPUs only"));
    ls_status_free(status);
}

/* FLOPs, and names that say how it computes. */
static void test_ops(void **state)
{
    fixture *f = *state;
    float *x = randoms(256 * 784, 1), *w = randoms(784 * 128, 2), *y = randoms(256 * 128, 3);
    ls_dense_forward_args args = {256, 784, 128, x, w, NULL, y, LS_ACTIVATION_RELU, false};
    ls_op *op;
    must(f->cpu->table->dense_forward(f->cpu, &args, &op));
    assert_true(op->flops == 2.0 * 256 * 784 * 128);
    assert_true(op->bytes == 4.0 * (256 * 784 + 784 * 128 + 256 * 128));
    assert_true(!strcmp(op->name, "dense_forward.matmul_brg") ||
                !strcmp(op->name, "dense_forward.packed"));
    ls_op_free(op);
    args.inputs = 3, args.outputs = 1;
    must(f->cpu->table->dense_forward(f->cpu, &args, &op));
    assert_string_equal(op->name, "dense_forward.loop");
    ls_op_free(op);
    free(x), free(w), free(y);
}

/* reference64 distinguishes doubles that float32 does not. */
static void test_reference64(void **state)
{
    fixture *f = *state;
    const ls_kernel_table *table;
    ls_kernels *kernels;
    double a = 1, b = 0x1p-40, c = 0;
    uint8_t byte = 1;
    uint32_t index = 0;
    must(ls_kernel_table_find("reference64", &table));
    must(table->open(f->device, &kernels));
    apply_add(f, kernels, &(ls_add_args){1, &a, &b, &c});
    assert_true(c == 1 + 0x1p-40);
    apply_gather(f, kernels,
                 &(ls_gather_args){1, 1, LS_GATHER_BYTES_TO_UNIT, &byte, &index, &c, 1});
    assert_true(c == (double)(1.0f / 255.0f));
    table->close(kernels);
}

/* A team of two gives the bits of one thread. */
static void test_team(void **state)
{
    fixture *one = *state, two = {0};
    enum { COUNT = 100003 };
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    int cores = ls_machine_describe(machine)->cores_allowed;
    ls_machine_close(machine);
    if (cores < 2) {
        print_message("skipped: a team of two needs two cores, and there is one\n");
        skip();
    }
    fixture_open(&two, 2);
    float *g = randoms(COUNT, 1), *w[2] = {randoms(COUNT, 2), randoms(COUNT, 2)};
    float *m[2] = {randoms(COUNT, 3), randoms(COUNT, 3)};
    ls_step_state at = {.learning_rate = 0.1};
    for (int k = 0; k < 2; k++) {
        fixture *f = k ? &two : one;
        ls_optimizer_args args = {.kind = LS_OPTIMIZER_MOMENTUM, .count = COUNT, .mu = 0.9};
        args.weight = w[k], args.gradient = g, args.slot[0] = m[k], args.state = &at;
        apply_optimizer(f, f->cpu, &args);
        apply_relu_forward(f, f->cpu, &(ls_relu_forward_args){COUNT, m[k], m[k]});
    }
    same_bits("weights", w[0], w[1], COUNT * sizeof(float));
    same_bits("slots", m[0], m[1], COUNT * sizeof(float));
    free(g), free(w[0]), free(w[1]), free(m[0]), free(m[1]);
    fixture_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_divergence),      cmocka_unit_test(test_registry),
        cmocka_unit_test(test_opening),         cmocka_unit_test(test_ops),
        cmocka_unit_test(test_reference64),     cmocka_unit_test(test_team),
        cmocka_unit_test(test_logistic_labels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
