/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of gpu:0 by the fastest implementation, cuDNN's too: the tests of
 * test_layer_kernels.c with their tolerances, the same bits each time, from a CUDA graph, and
 * wherever tensors begin (a multiple of 16 bytes, as a part of a model has them), TF32 only on
 * request, and the bits of kernels without windows (conv_direct_bits.h).
 * Prints what only a GPU shows: the implementation of each shape, and for the shapes of cnn,
 * cifar10 and resnet:20 all implementations' times, error and bits (conv_ways.h). A wrong result,
 * a varying one, and a plain shape that cuDNN refuses although it is required, all fail. Without
 * cuDNN our own kernels are in test_gpu_layer_kernels. Skipped without a GPU or cuDNN.
 */
#include <stdint.h>
#include <stdio.h>

#if LS_HAS_CUDNN
#define FIXTURE_OPEN    open_gpu
#define FIXTURE_CLOSE   close_gpu
#define GPU_CONVOLUTION LS_CONVOLUTION_AUTO
#include "common/kernel/cuda/tests/kernel_gpu.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/cuda/tests/conv_direct_bits.h"

#include "common/base/clock.h"

enum { REPLAYS = 3, TIMED = 50 };

static cuda_kernels *cuda_of(const fixture *f)
{
    return (cuda_kernels *)staging_of(f->cpu)->inner;
}

static const char *way_of(const conv_case *c)
{
    return ((const staged_op *)c->op)->inner->name;
}

/* The implementation that the table selects for each shape. */
static void test_ways(void **state)
{
    fixture *f = *state;
    for (int i = 1; i < CONV_SHAPES; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            conv_case c;
            must(case_open(f, &conv_shapes[i], (conv_direction)direction, &c));
            print_message("shape %d: %s\n", i, way_of(&c));
            case_close(&c);
        }
}

/* A plain shape. */
static void test_usable(void **state)
{
    int none = 0;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        none += !usable(*state, &conv_shapes[6], (conv_direction)direction);
    assert_int_equal(none, 0);
}

static ls_program *program_of(const fixture *f, const conv_case *c)
{
    ls_queue *queue = staging_of(f->cpu)->queue;
    ls_program *program;
    must(ls_program_begin(queue));
    must(ls_queue_enqueue(queue, ((const staged_op *)c->op)->inner));
    must(ls_program_end(queue, &program));
    return program;
}

static double time_us(const fixture *f, const conv_case *c)
{
    ls_queue *queue = staging_of(f->cpu)->queue;
    ls_program *program = program_of(f, c);
    uint64_t begin_ns = 0;
    for (int warm = 1; warm >= 0; warm--) {
        begin_ns = ls_clock_ns();
        must(ls_program_launch(program, TIMED));
        must(ls_queue_sync(queue));
    }
    const double us = (double)(ls_clock_ns() - begin_ns) * 1e-3 / TIMED;
    ls_program_close(program);
    return us;
}

/* The layers of cnn (trained with its pool), cifar10 and resnet:20, with their batches. */
static void test_each_way(void **state)
{
    static const ls_conv_shape models[] = {
        {256, 1, 32, {28, 28, 26, 26, 3, 3, 1, 1, 0, 0}},
        {128, 3, 64, {24, 24, 24, 24, 5, 5, 1, 1, 2, 2}},
        {128, 64, 64, {12, 12, 12, 12, 5, 5, 1, 1, 2, 2}},
        {128, 3, 16, {32, 32, 32, 32, 3, 3, 1, 1, 1, 1}},
        {128, 16, 16, {32, 32, 32, 32, 3, 3, 1, 1, 1, 1}},
        {128, 16, 32, {32, 32, 16, 16, 3, 3, 2, 2, 1, 1}},
        {128, 32, 32, {16, 16, 16, 16, 3, 3, 1, 1, 1, 1}},
        {128, 32, 64, {16, 16, 8, 8, 3, 3, 2, 2, 1, 1}},
        {128, 64, 64, {8, 8, 8, 8, 3, 3, 1, 1, 1, 1}},
    };
    assert_int_equal(measure_ways(*state, models, sizeof models / sizeof *models), 0);
}

/* Enqueued once more, and replayed; then its memory on the GPU. */
static void replay(const fixture *f, const conv_case *c)
{
    const staged_op *s = (const staged_op *)c->op;
    ls_program *program = program_of(f, c);
    must(ls_program_launch(program, REPLAYS));
    must(ls_queue_sync(staging_of(f->cpu)->queue));
    for (int i = 0; i < s->count; i++)
        must(take_field(s, &s->fields[i]));
    ls_program_close(program);
}

static void test_same_bits(void **state)
{
    static const ls_conv_shape cifar[] = {
        {128, 3, 64, {24, 24, 24, 24, 5, 5, 1, 1, 2, 2}},
        {128, 64, 64, {12, 12, 12, 12, 5, 5, 1, 1, 2, 2}},
        {128, 16, 32, {32, 32, 16, 16, 3, 3, 2, 2, 1, 1}},
    };
    fixture *f = *state;
    for (int i = 0; i < 3 * 2; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            conv_case c;
            cuda_of(f)->way = i % 2 ? LS_CONV_LIBRARY : LS_CONV_DIRECT;
            must(case_open(f, &cifar[i / 2], (conv_direction)direction, &c));
            put(f, &c);
            float *first = randoms(c.count, 9);
            memcpy(first, c.out, (size_t)c.count * sizeof *first);
            for (int again = 0; again < REPLAYS; again++) {
                put(f, &c);
                same_bits("put again", c.out, first, (size_t)c.count * sizeof *first);
            }
            replay(f, &c);
            same_bits("replayed", c.out, first, (size_t)c.count * sizeof *first);
            free(first);
            case_close(&c);
        }
    cuda_of(f)->way = LS_CONV_FASTEST;
}

/* The output of a convolution whose tensors begin `shift` bytes after a multiple of 256. */
static float *moved(fixture *f, const ls_conv_shape *s, conv_direction direction, size_t shift)
{
    ls_kernels *inner = staging_of(f->cpu)->inner;
    ls_queue *queue = staging_of(f->cpu)->queue;
    conv_case c = case_tensors(s, direction);
    const int64_t x = s->rows * in_elements(s), y = s->rows * out_elements(s);
    const int64_t w = s->outputs * filter_elements(s);
    const int64_t counts[DIRECTIONS][3] = {{x, w, y}, {x, y, w}, {y, w, x}};
    const float *const from[] = {c.in[0], c.in[1]};
    void *base[3], *at[3];
    ls_op *op;
    for (int i = 0; i < 3; i++) {
        const size_t bytes = (size_t)counts[direction][i] * sizeof(float);
        must(ls_device_allocate(inner->device, LS_MEMORY_WORKSPACE, bytes + 512, &base[i]));
        at[i] = (char *)base[i] + (256 - (uintptr_t)base[i] % 256) + shift;
        if (i < 2)
            must(ls_queue_write(queue, at[i], from[i], bytes));
    }
    const ls_conv_forward_args forward = {.shape = *s, .x = at[0], .weight = at[1], .y = at[2]};
    const ls_conv_backward_weights_args weights = {
        .shape = *s, .x = at[0], .dy = at[1], .dweight = at[2]};
    const ls_conv_backward_data_args data = {
        .shape = *s, .dy = at[0], .weight = at[1], .dx = at[2]};
    must(direction == FORWARD   ? inner->table->conv_forward(inner, &forward, &op)
         : direction == WEIGHTS ? inner->table->conv_backward_weights(inner, &weights, &op)
                                : inner->table->conv_backward_data(inner, &data, &op));
    must(ls_queue_enqueue(queue, op));
    must(ls_queue_read(queue, c.out, at[2], (size_t)c.count * sizeof *c.out));
    ls_op_free(op);
    for (int i = 0; i < 3; i++)
        ls_device_release(inner->device, base[i]);
    float *out = c.out;
    free(c.in[0]), free(c.in[1]), free(c.bias), free(c.sums);
    return out;
}

static void test_places(void **state)
{
    static const ls_conv_shape shapes[] = {
        {64, 64, 64, {12, 12, 12, 12, 5, 5, 1, 1, 2, 2}},
        {64, 16, 32, {32, 32, 16, 16, 3, 3, 2, 2, 1, 1}},
    };
    static const size_t shifts[] = {16, 64, 128};
    for (int i = 0; i < 2 * 2; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const ls_conv_shape *s = &shapes[i / 2];
            cuda_of(*state)->way = i % 2 ? LS_CONV_LIBRARY : LS_CONV_DIRECT;
            const size_t counts[] = {(size_t)(s->rows * out_elements(s)),
                                     (size_t)(s->outputs * filter_elements(s)),
                                     (size_t)(s->rows * in_elements(s))};
            float *want = moved(*state, s, (conv_direction)direction, 0);
            for (int k = 0; k < 3; k++) {
                float *got = moved(*state, s, (conv_direction)direction, shifts[k]);
                same_bits("moved", got, want, counts[direction] * sizeof *got);
                free(got);
            }
            free(want);
        }
    cuda_of(*state)->way = LS_CONV_FASTEST;
}

/* Float32 is within its tolerance of the reference (above); TF32 only within its own. */
static void test_tf32(void **state)
{
    fixture *f = *state;
    const ls_conv_shape *s = &conv_shapes[6];
    conv_case exact, rounded;
    must(case_open(f, s, FORWARD, &exact));
    cuda_of(f)->base.math = LS_MATH_TF32;
    must(case_open(f, s, FORWARD, &rounded));
    put(f, &exact);
    put(f, &rounded);
    compare("tf32", rounded.out, exact.out, NULL, 0x1p-10 * (double)filter_elements(s),
            exact.count);
    print_message("TF32 %s bits\n", memcmp(rounded.out, exact.out, (size_t)exact.count * 4)
                                        ? "has other"
                                        : "has the same");
    case_close(&exact);
    case_close(&rounded);
    cuda_of(f)->base.math = LS_MATH_FLOAT32;
}

/* Whether the table has loaded cuDNN after making a convolution. */
static bool dnn_here(void)
{
    fixture *f;
    setup((void **)&f);
    conv_case c;
    cuda_of(f)->way = LS_CONV_LIBRARY; /* others do not ask for it */
    must(case_open(f, &conv_shapes[6], FORWARD, &c));
    case_close(&c);
    const ls_kernels *inner = staging_of(f->cpu)->inner;
    const bool here = strstr(inner->table->library(inner), ", cuDNN ") != NULL;
    print_message("%s\n", inner->table->library(inner));
    teardown((void **)&f);
    return here;
}

/* An argument names a test to skip (cmocka_set_skip_filter), for slow tools. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_forward),
        cmocka_unit_test(test_conv_backward_weights),
        cmocka_unit_test(test_conv_backward_data),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_usable),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_each_way),
    };
    (void)run_layer_tests;
    if (!gpu_here() || !dnn_here())
        return 77;
    if (argc > 1)
        cmocka_set_skip_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
#else
int main(void)
{
    puts("skipped: this build has no cuDNN");
    return 77;
}
#endif
