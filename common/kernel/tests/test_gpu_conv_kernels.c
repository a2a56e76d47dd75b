/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of gpu:0 by cuDNN where it takes the shape: the tests of test_layer_kernels.c with
 * the bounds there, which way each shape went (printed), the same bits each time and from a CUDA
 * graph, TF32 only where asked for. The own way is in test_gpu_layer_kernels. Skipped where there
 * is no GPU, or no cuDNN. Not yet run on one.
 */
#define FIXTURE_OPEN    open_gpu
#define FIXTURE_CLOSE   close_gpu
#define GPU_CONVOLUTION LS_CONVOLUTION_AUTO
#include "common/kernel/tests/kernel_gpu.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

enum { OPERATIONS = 3, REPLAYS = 3 };

/* One operation of a shape, and what it writes. */
typedef struct conv_case {
    float *in[2], *bias, *out, *sums;
    int64_t count; /* of out */
    ls_op *op;
} conv_case;

static conv_case case_open(fixture *f, const ls_conv_shape *s, int which)
{
    const ls_kernel_table *table = f->cpu->table;
    const int64_t x = s->rows * in_elements(s), y = s->rows * out_elements(s);
    const int64_t w = s->outputs * filter_elements(s);
    const int64_t in[OPERATIONS][2] = {{x, w}, {x, y}, {y, w}}, out[OPERATIONS] = {y, w, x};
    conv_case c = {.in = {randoms(in[which][0], 1), randoms(in[which][1], 2)},
                   .bias = randoms(s->outputs, 3),
                   .out = randoms(out[which], 4),
                   .sums = randoms(s->outputs, 5),
                   .count = out[which]};
    if (which == 0)
        must(table->conv_forward(
            f->cpu,
            &(ls_conv_forward_args){*s, c.in[0], c.in[1], c.bias, c.out, LS_ACTIVATION_RELU, NULL},
            &c.op));
    else if (which == 1)
        must(table->conv_backward_weights(
            f->cpu, &(ls_conv_backward_weights_args){*s, c.in[0], c.in[1], c.out, c.sums}, &c.op));
    else
        must(table->conv_backward_data(
            f->cpu, &(ls_conv_backward_data_args){*s, c.in[0], c.in[1], c.out, NULL}, &c.op));
    return c;
}

static void case_close(conv_case c)
{
    ls_op_free(c.op);
    free(c.in[0]), free(c.in[1]), free(c.bias), free(c.out), free(c.sums);
}

static const char *way_of(const conv_case *c)
{
    return ((const staged_op *)c->op)->inner->name;
}

static void put(fixture *f, const conv_case *c)
{
    must(ls_queue_put(f->queue, c->op));
    must(ls_queue_sync(f->queue));
}

/* A plain shape is the library's, both ways; of the others it is told. */
static void test_ways(void **state)
{
    fixture *f = *state;
    for (int i = 1; i < CONV_SHAPES; i++)
        for (int which = 0; which < OPERATIONS; which++) {
            const conv_case c = case_open(f, &conv_shapes[i], which);
            print_message("shape %d: %s\n", i, way_of(&c));
            if (i == 6)
                assert_non_null(strstr(way_of(&c), ".cudnn"));
            case_close(c);
        }
}

/* Put once more, and replayed: what its memory on the GPU then has. */
static void replay(fixture *f, const conv_case *c)
{
    const staged_op *s = (const staged_op *)c->op;
    ls_queue *queue = staging_of(f->cpu)->queue;
    ls_program *program;
    must(ls_program_begin(queue));
    must(ls_queue_put(queue, s->inner));
    must(ls_program_end(queue, &program));
    must(ls_program_launch(program, REPLAYS));
    must(ls_queue_sync(queue));
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
    for (int i = 0; i < 3; i++)
        for (int which = 0; which < OPERATIONS; which++) {
            const conv_case c = case_open(f, &cifar[i], which);
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
            case_close(c);
        }
}

/* Float32 is within its bound of the reference (above); TF32 is not, but within its own. */
static void test_tf32(void **state)
{
    fixture *f = *state;
    const ls_conv_shape *s = &conv_shapes[6];
    const conv_case exact = case_open(f, s, 0);
    staging_of(f->cpu)->inner->math = LS_MATH_TF32;
    const conv_case rounded = case_open(f, s, 0);
    put(f, &exact);
    put(f, &rounded);
    compare("tf32", rounded.out, exact.out, NULL, 0x1p-10 * (double)filter_elements(s),
            exact.count);
    print_message("TF32 %s bits\n", memcmp(rounded.out, exact.out, (size_t)exact.count * 4)
                                        ? "has other"
                                        : "has the same");
    case_close(exact);
    case_close(rounded);
}

/* Whether the table has loaded cuDNN when it has made a convolution. */
static bool dnn_here(void)
{
    fixture *f;
    setup((void **)&f);
    case_close(case_open(f, &conv_shapes[6], 0));
    const ls_kernels *inner = staging_of(f->cpu)->inner;
    const bool here = strstr(inner->table->library(inner), ", cuDNN ") != NULL;
    print_message("%s\n", inner->table->library(inner));
    teardown((void **)&f);
    return here;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_forward),       cmocka_unit_test(test_conv_backward_weights),
        cmocka_unit_test(test_conv_backward_data), cmocka_unit_test(test_ways),
        cmocka_unit_test(test_same_bits),          cmocka_unit_test(test_tf32),
    };
    (void)run_layer_tests;
    if (!gpu_here() || !dnn_here())
        return 77;
    return cmocka_run_group_tests(tests, setup, teardown);
}
