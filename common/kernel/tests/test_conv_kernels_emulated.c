/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table by cuDNN, without a GPU: the table's own code loads a made-up
 * library (made_up_cudnn.c), in place of cuDNN, and its kernels are compiled for a CPU. The tests
 * of test_layer_kernels.c, with the bounds there; then which way each shape goes, what is said of a
 * library that is missing, of another version or failing, and what is left open (nothing).
 *
 * It shows that layouts, sizes, calls and their order are right; nothing about the library itself.
 */
#define FIXTURE_OPEN         open_emulated
#define FIXTURE_CLOSE        close_emulated
#define EMULATED_CONVOLUTION LS_CONVOLUTION_AUTO
#include "common/kernel/tests/kernel_emulated.h"
#include "common/kernel/tests/made_up_cudnn.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/cuda/cuda_dnn.h"

#include <dlfcn.h>

static made_up_control *made_up;

/* For one load: as if there were no such file. */
static bool missing;
ls_status __real_ls_dnn_load(ls_dnn *out, bool *absent);
ls_status __wrap_ls_dnn_load(ls_dnn *out, bool *absent);
ls_status __wrap_ls_dnn_load(ls_dnn *out, bool *absent)
{
    if (!missing)
        return __real_ls_dnn_load(out, absent);
    *out = (ls_dnn){0};
    *absent = true;
    return ls_fail(LS_CODE_MISSING, "cuDNN", "libcudnn.so.9", "cannot be loaded; install it");
}

static const char *library_of(const fixture *f)
{
    return f->cpu->table->library(f->cpu);
}

/* The tensors of a shape, filled. */
typedef struct tensors {
    float *x, *y, *dy, *dx, *w, *dw, *bias, *dbias;
} tensors;

static tensors tensors_open(const ls_conv_shape *s)
{
    const int64_t in = s->rows * in_elements(s), out = s->rows * out_elements(s);
    const int64_t weights = s->outputs * filter_elements(s);
    return (tensors){randoms(in, 1),         randoms(out, 2),       randoms(out, 3),
                     randoms(in, 4),         randoms(weights, 5),   randoms(weights, 6),
                     randoms(s->outputs, 7), randoms(s->outputs, 8)};
}

static void tensors_close(tensors t)
{
    free(t.x), free(t.y), free(t.dy), free(t.dx), free(t.w), free(t.dw), free(t.bias),
        free(t.dbias);
}

/* Makes operation `which` of the three. */
static ls_status make_one(fixture *f, const ls_conv_shape *s, const tensors *t, int which,
                          ls_op **out)
{
    const ls_kernel_table *table = f->cpu->table;
    if (which == 0)
        return table->conv_forward(
            f->cpu,
            &(ls_conv_forward_args){*s, t->x, t->w, t->bias, t->y, LS_ACTIVATION_RELU, NULL}, out);
    if (which == 1)
        return table->conv_backward_weights(
            f->cpu, &(ls_conv_backward_weights_args){*s, t->x, t->dy, t->dw, t->dbias}, out);
    return table->conv_backward_data(
        f->cpu, &(ls_conv_backward_data_args){*s, t->dy, t->w, t->dx, NULL}, out);
}

/* One code and one line with this text, and nothing made. */
static void refuses(fixture *f, const ls_conv_shape *s, int which, const char *expected)
{
    const tensors t = tensors_open(s);
    const int open = made_up->open;
    ls_op *op = NULL;
    ls_status status = make_one(f, s, &t, which, &op);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    if (!strstr(ls_status_text(status), expected))
        fail_msg("%s", ls_status_text(status));
    assert_null(op);
    assert_int_equal(made_up->open, open);
    ls_status_free(status);
    tensors_close(t);
}

/* ---- Which way ------------------------------------------------------------------------------- */

/* By hand, of conv_shapes: n: nothing to compute, or not padded alike; f: with bias and ReLU in the
 * library's call; d: without. */
static const char ways[CONV_SHAPES + 1] = "nddnffffndnf";

static void test_ways(void **state)
{
    static const char *const kernels[3][3] = {
        {"conv_forward.cudnn_fused", "conv_forward.cudnn", "conv_forward.cublaslt"},
        {"conv_backward_weights.cudnn", "conv_backward_weights.cudnn",
         "conv_backward_weights.cublaslt"},
        {"conv_backward_data.cudnn", "conv_backward_data.cudnn", "conv_backward_data.cublaslt"}};
    fixture *f = *state;
    for (int i = 0; i < CONV_SHAPES; i++)
        for (int which = 0; which < 3; which++) {
            const tensors t = tensors_open(&conv_shapes[i]);
            const int calls = made_up->calls;
            ls_op *op;
            must(make_one(f, &conv_shapes[i], &t, which, &op));
            const int way = ways[i] == 'f' ? 0 : ways[i] == 'd' ? 1 : 2;
            if (strcmp(op->name, kernels[which][way]) != 0)
                fail_msg("shape %d: %s, not %s", i, op->name, kernels[which][way]);
            assert_int_equal(made_up->calls, calls + (way < 2)); /* tried out */
            assert_true(way == 2 || op->workspace > 1000);
            run(f, op);
            assert_int_equal(made_up->calls, calls + 2 * (way < 2));
            assert_true(way == 2 || made_up->stream == ls_queue_native(f->queue));
            tensors_close(t);
        }
    assert_non_null(strstr(library_of(f), ", cuDNN 9."));
}

/* A bias, or a tensor, in the middle of a buffer. */
static void test_alignment(void **state)
{
    fixture *f = *state;
    const ls_conv_shape *s = &conv_shapes[6];
    tensors t = tensors_open(s);
    ls_op *op;
    must(f->cpu->table->conv_forward(
        f->cpu, &(ls_conv_forward_args){*s, t.x, t.w, t.dy + 1, t.y, LS_ACTIVATION_NONE, NULL},
        &op));
    assert_string_equal(op->name, "conv_forward.cudnn");
    run(f, op);
    float *x = randoms(s->rows * in_elements(s) + 1, 1);
    must(f->cpu->table->conv_forward(
        f->cpu, &(ls_conv_forward_args){*s, x + 1, t.w, t.bias, t.y, LS_ACTIVATION_NONE, NULL},
        &op));
    assert_string_equal(op->name, "conv_forward.cublaslt");
    run(f, op);
    free(x);
    tensors_close(t);
}

static void test_own(void **state)
{
    fixture *f = *state;
    const tensors t = tensors_open(&conv_shapes[6]);
    const int calls = made_up->calls;
    f->cpu->convolution = LS_CONVOLUTION_OWN;
    for (int which = 0; which < 3; which++) {
        ls_op *op;
        must(make_one(f, &conv_shapes[6], &t, which, &op));
        assert_non_null(strstr(op->name, ".cublaslt"));
        run(f, op);
    }
    assert_int_equal(made_up->calls, calls);
    assert_null(strstr(library_of(f), "cuDNN"));
    tensors_close(t);
}

/* Insisted on: what it has not is refused; of nothing there is nothing to have. */
static void test_insist(void **state)
{
    fixture *f = *state;
    const ls_conv_shape four = {2, 3, 16, {6, 9, 6, 8, 3, 4, 1, 1, 1, 1}};
    const tensors t = tensors_open(&conv_shapes[6]);
    ls_op *op;
    f->cpu->convolution = LS_CONVOLUTION_CUDNN;
    must(make_one(f, &conv_shapes[6], &t, 0, &op)); /* the library is open */
    ls_op_free(op);
    for (int which = 0; which < 3; which++) {
        refuses(f, &conv_shapes[3], which,
                "cuDNN: 6x9x3 to 3x5x16: it has no convolution for this, since it pads both sides "
                "alike; --convolution auto or own works");
        refuses(f, &four, which, "since its algorithm of one fixed order does not take it");
        must(make_one(f, &conv_shapes[0], &t, which, &op));
        run(f, op);
    }
    tensors_close(t);
    const int64_t many = (int64_t)1 << 16;
    const ls_conv_shape large = {many, 64, 64, {32, 32, 32, 32, 3, 3, 1, 1, 1, 1}};
    assert_string_equal(ls_dnn_refuses(&large), "its tensors have 1 to 2^31 - 1 elements");
}

/* TF32 is the library's other arithmetic, and only where it is asked for. */
static void test_tf32(void **state)
{
    fixture *f = *state;
    const ls_conv_shape *s = &conv_shapes[6];
    const tensors t = tensors_open(s);
    const int64_t count = s->rows * out_elements(s);
    float *first = NULL;
    for (int math = 0; math < 2; math++) {
        ls_op *op;
        f->cpu->math = math ? LS_MATH_TF32 : LS_MATH_FLOAT32;
        must(make_one(f, s, &t, 0, &op));
        run(f, op);
        if (!math) {
            first = randoms(count, 1);
            memcpy(first, t.y, (size_t)count * sizeof *first);
        }
    }
    assert_true(memcmp(first, t.y, (size_t)count * sizeof *first) != 0);
    compare("tf32", t.y, first, NULL, 0x1p-10 * (double)filter_elements(s), count);
    free(first);
    tensors_close(t);
}

/* ---- A library that is not as it should be --------------------------------------------------- */

static void test_missing(void **state)
{
    fixture *f = *state;
    const tensors t = tensors_open(&conv_shapes[6]);
    ls_op *op;
    missing = true;
    f->cpu->convolution = LS_CONVOLUTION_CUDNN;
    refuses(f, &conv_shapes[6], 0, "cuDNN: libcudnn.so.9: cannot be loaded");
    f->cpu->convolution = LS_CONVOLUTION_AUTO;
    for (int which = 0; which < 3; which++) {
        must(make_one(f, &conv_shapes[6], &t, which, &op));
        assert_non_null(strstr(op->name, ".cublaslt"));
        run(f, op);
    }
    assert_non_null(strstr(library_of(f), ", no cuDNN"));
    missing = false;
    tensors_close(t);
}

/* Here, but not usable: an error, whether it was asked for or not. */
static void test_broken(void **state)
{
    fixture *f = *state;
    for (int insist = 0; insist < 2; insist++) {
        f->cpu->convolution = insist ? LS_CONVOLUTION_CUDNN : LS_CONVOLUTION_AUTO;
        made_up->version = 8907;
        refuses(f, &conv_shapes[6], 1,
                "cuDNN: libcudnn.so.9: has version 8, this build is for version 9; install");
        made_up->version = CUDNN_VERSION;
        made_up->fail = "cudnnCreate";
        made_up->failure = CUDNN_STATUS_NOT_INITIALIZED;
        refuses(f, &conv_shapes[6], 1,
                "cuDNN: create a handle: it failed: CUDNN_STATUS_NOT_INITIALIZED (cudnnCreate); ");
        made_up->fail = NULL;
    }
}

/* Any function may fail when an operation is made: one line that names the status. */
static void test_failures(void **state)
{
    static const char *const functions[3][11] = {
        {"cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", "cudnnCreateFilterDescriptor",
         "cudnnSetFilter4dDescriptor", "cudnnCreateConvolutionDescriptor",
         "cudnnSetConvolution2dDescriptor", "cudnnSetConvolutionMathType",
         "cudnnCreateActivationDescriptor", "cudnnSetStream",
         "cudnnGetConvolutionForwardWorkspaceSize", "cudnnConvolutionBiasActivationForward"},
        {"cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnConvolutionBackwardFilter"},
        {"cudnnGetConvolutionBackwardDataWorkspaceSize", "cudnnConvolutionBackwardData"}};
    fixture *f = *state;
    const tensors t = tensors_open(&conv_shapes[6]);
    ls_op *op;
    must(make_one(f, &conv_shapes[6], &t, 0, &op)); /* the library is open */
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < 11 && functions[which][i]; i++) {
            made_up->fail = functions[which][i];
            made_up->failure = CUDNN_STATUS_BAD_PARAM;
            refuses(f, &conv_shapes[6], which, "it failed: CUDNN_STATUS_BAD_PARAM (cudnn");
        }
    /* In a run, too: the operation is named. */
    made_up->fail = "cudnnConvolutionBiasActivationForward";
    ls_status status = ls_queue_put(f->queue, op);
    status = ls_status_first(status, ls_queue_sync(f->queue));
    assert_non_null(strstr(ls_status_text(status), "cuDNN: conv_forward.cudnn_fused: it failed: "));
    ls_status_free(status);
    made_up->fail = NULL;
    ls_op_free(op);
    tensors_close(t);
}

static int close_checked(void **state)
{
    teardown(state);
    assert_int_equal(made_up->open, 0);
    return 0;
}

int main(void)
{
#define CONV_TEST(test) cmocka_unit_test_setup_teardown(test, setup, close_checked)
    const struct CMUnitTest tests[] = {
        CONV_TEST(test_conv_forward),
        CONV_TEST(test_conv_backward_weights),
        CONV_TEST(test_conv_backward_data),
        CONV_TEST(test_ways),
        CONV_TEST(test_alignment),
        CONV_TEST(test_own),
        CONV_TEST(test_insist),
        CONV_TEST(test_tf32),
        CONV_TEST(test_missing),
        CONV_TEST(test_broken),
        CONV_TEST(test_failures),
    };
    (void)run_layer_tests;
    /* A library of this name that is loaded is the one that a load by name finds. */
    void *library = dlopen(LS_BUILD_DIR "/made_up/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    made_up = library ? dlsym(library, "made_up_cudnn") : NULL;
    if (!made_up) {
        puts(dlerror());
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
