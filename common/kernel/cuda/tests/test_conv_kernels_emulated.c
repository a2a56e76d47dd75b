/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table by all implementations, without a GPU: the table's own code loads
 * a fake library (made_up_cudnn.c) as cuDNN, and its kernels are compiled for a CPU. Runs the tests
 * of test_layer_kernels.c with their tolerances; then checks which implementation each shape gets,
 * that kernels without windows have the bits of a plain loop, the messages if the library is
 * missing, of another version or failing, and that nothing is left open. Shows that layouts, sizes,
 * calls and their order are right; nothing about the real library.
 */
#define FIXTURE_OPEN         open_emulated
#define FIXTURE_CLOSE        close_emulated
#define EMULATED_CONVOLUTION LS_CONVOLUTION_AUTO
#include "common/kernel/cuda/tests/kernel_emulated.h"
#include "common/kernel/cuda/tests/made_up_cudnn.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/cuda/tests/conv_direct_bits.h"

#include <dlfcn.h>

static made_up_control *made_up;

static cuda_kernels *cuda_of(const fixture *f)
{
    return (cuda_kernels *)f->cpu;
}

static const char *way_of(const conv_case *c)
{
    return c->op->name;
}

static double time_us(const fixture *f, const conv_case *c)
{
    (void)f, (void)c;
    return 1;
}

/* For one load: as if the file did not exist. */
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

/* One code and one line with this text; no operation is made. */
static void refuses(fixture *f, const ls_conv_shape *s, int direction, const char *expected)
{
    const int open = made_up->open;
    conv_case c;
    ls_status status = case_open(f, s, (conv_direction)direction, &c);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    if (!strstr(ls_status_text(status), expected))
        fail_msg("%s", ls_status_text(status));
    assert_int_equal(made_up->open, open);
    ls_status_free(status);
}

/* ---- Which way ------------------------------------------------------------------------------- */

/* By hand, for conv_shapes: p: products of windows; d: kernels without windows, which are for
 * outputs (backward, channels of both images) in fours, and windows of several pixels, for weights
 * windows of 3 x 3 or 5 x 5 of which enough is used; l: the library. */
static const char chosen[DIRECTIONS][CONV_SHAPES + 1] = {"pdddldddpldd", "pddpppddpddd",
                                                         "ppppppdppppp"};

static void test_chosen(void **state)
{
    fixture *f = *state;
    for (int own = 0; own < 2; own++)
        for (int i = 0; i < CONV_SHAPES * DIRECTIONS; i++) {
            const conv_direction direction = (conv_direction)(i % DIRECTIONS);
            const char by = chosen[direction][i / DIRECTIONS];
            const ls_conv_way way = by == 'd'           ? LS_CONV_DIRECT
                                    : by == 'l' && !own ? LS_CONV_LIBRARY
                                                        : LS_CONV_PRODUCTS;
            conv_case c;
            f->cpu->convolution = own ? LS_CONVOLUTION_OWN : LS_CONVOLUTION_AUTO;
            must(case_open(f, &conv_shapes[i / DIRECTIONS], direction, &c));
            if (!is_way(way_of(&c), way))
                fail_msg("shape %d: %s, not %s", i / DIRECTIONS, way_of(&c), way_names[way]);
            case_close(&c);
        }
}

/* By hand, for conv_shapes by the library: e: nothing to compute; n: unequal padding; f: bias and
 * ReLU in its call; d: without. */
static const char ways[CONV_SHAPES + 1] = "eddnffffndnf";

static void test_ways(void **state)
{
    static const char *const kernels[3][4] = {
        {"conv_forward.cudnn_nhwc_precomp_gemm_fused", "conv_forward.cudnn_nhwc_precomp_gemm",
         "conv_forward.cublaslt", "conv_forward.cuda"},
        {"conv_backward_weights.cudnn_nhwc_algo1", "conv_backward_weights.cudnn_nhwc_algo1",
         "conv_backward_weights.cublaslt", "conv_backward_weights.cuda"},
        {"conv_backward_data.cudnn_nhwc_algo1", "conv_backward_data.cudnn_nhwc_algo1",
         "conv_backward_data.cublaslt", "conv_backward_data.cuda"}};
    fixture *f = *state;
    cuda_of(f)->way = LS_CONV_LIBRARY;
    for (int i = 0; i < CONV_SHAPES; i++)
        for (int direction = 0; direction < 3; direction++) {
            const int calls = made_up->calls;
            conv_case c;
            must(case_open(f, &conv_shapes[i], (conv_direction)direction, &c));
            const int way = ways[i] == 'f' ? 0 : ways[i] == 'd' ? 1 : ways[i] == 'n' ? 2 : 3;
            if (strcmp(way_of(&c), kernels[direction][way]) != 0)
                fail_msg("shape %d: %s, not %s", i, way_of(&c), kernels[direction][way]);
            assert_int_equal(made_up->calls, calls + (way < 2)); /* these were tried */
            assert_true(way >= 2 || c.op->workspace > 1000);
            put(f, &c);
            assert_int_equal(made_up->calls, calls + 2 * (way < 2));
            assert_true(way >= 2 || made_up->stream == ls_queue_native(f->queue));
            case_close(&c);
        }
    assert_non_null(strstr(library_of(f), ", cuDNN 9."));
}

/* The function that prints the implementations' times detects wrong results, and results that
 * vary. */
static void test_measured_ways(void **state)
{
    fixture *f = *state;
    for (int spoil = 0; spoil < 3; spoil++) {
        made_up->spoil = spoil;
        const int faulty = measure_ways(f, &conv_shapes[2], 1);
        made_up->spoil = 0;
        assert_int_equal(faulty, spoil ? DIRECTIONS : 0);
    }
    made_up->fail = "cudnnConvolutionBackwardData";
    made_up->failure = CUDNN_STATUS_BAD_PARAM;
    assert_int_equal(measure_ways(f, &conv_shapes[2], 1), 0);
    made_up->fail = NULL;
    assert_true(usable(f, &conv_shapes[6], DATA));
    assert_false(usable(f, &conv_shapes[3], WEIGHTS));
}

/* A bias in the middle of a buffer changes nothing, or bits would depend on where a variable
 * begins; a tensor there is for products. */
static void check_alignment(fixture *f, ls_conv_way way)
{
    const ls_conv_shape *s = &conv_shapes[6];
    conv_case c;
    ls_op *op;
    cuda_of(f)->way = way;
    must(case_open(f, s, FORWARD, &c));
    assert_true(is_way(way_of(&c), way));
    put(f, &c);
    float *y = randoms(c.count, 1), *bias = randoms(s->outputs + 1, 1);
    float *weight = randoms(s->outputs * filter_elements(s) + 1, 1);
    memcpy(bias + 1, c.bias, (size_t)s->outputs * sizeof *bias);
    memcpy(weight + 1, c.in[1], (size_t)(s->outputs * filter_elements(s)) * sizeof *weight);
    ls_conv_forward_args args = {.shape = *s,
                                 .x = c.in[0],
                                 .weight = weight + 1,
                                 .bias = bias + 1,
                                 .y = y,
                                 .activation = LS_ACTIVATION_RELU};
    must(f->cpu->table->conv_forward(f->cpu, &args, &op));
    assert_string_equal(op->name, way_of(&c));
    run(f, op);
    same_bits("a bias elsewhere", y, c.out, (size_t)c.count * sizeof *y);
    float *x = randoms(s->rows * in_elements(s) + 1, 1);
    args.x = x + 1;
    must(f->cpu->table->conv_forward(f->cpu, &args, &op));
    assert_string_equal(op->name, "conv_forward.cublaslt");
    run(f, op);
    free(x), free(y), free(bias), free(weight);
    case_close(&c);
}

static void test_alignment(void **state)
{
    check_alignment(*state, LS_CONV_DIRECT);
    check_alignment(*state, LS_CONV_LIBRARY);
}

/* A gradient of the image uses the weights as its forward operation has reordered them: the same
 * bits, with less memory; not of other weights, nor for cuDNN of another implementation. */
static void check_lent(fixture *f, ls_conv_way forward, ls_conv_way back)
{
    const ls_conv_shape *s = &(ls_conv_shape){2, 12, 20, {5, 4, 5, 4, 3, 3, 1, 1, 1, 1}};
    const int64_t weights = s->outputs * filter_elements(s), x = s->rows * in_elements(s);
    float *dy = randoms(s->rows * out_elements(s), 7), *other = randoms(weights, 8), *dx[3];
    size_t workspace[3];
    conv_case c;
    cuda_of(f)->way = forward;
    must(case_open(f, s, FORWARD, &c));
    put(f, &c);
    memcpy(other, c.in[1], (size_t)weights * sizeof *other);
    cuda_of(f)->way = back;
    for (int i = 0; i < 3; i++) { /* without, with, and with another's weights */
        ls_conv_backward_data_args args = {.shape = *s,
                                           .dy = dy,
                                           .weight = i == 2 ? other : c.in[1],
                                           .dx = dx[i] = randoms(x, 9),
                                           .forward = i ? c.op : NULL};
        ls_op *op;
        must(f->cpu->table->conv_backward_data(f->cpu, &args, &op));
        assert_true(is_way(op->name, back));
        workspace[i] = op->workspace;
        run(f, op);
    }
    for (int i = 1; i < 3; i++)
        same_bits("lent", dx[i], dx[0], (size_t)x * sizeof(float));
    const bool lent = back != LS_CONV_LIBRARY || forward == back;
    assert_true(workspace[2] == workspace[0]);
    assert_int_equal(workspace[1] < workspace[0], lent);
    for (int i = 0; i < 3; i++)
        free(dx[i]);
    case_close(&c);
    free(dy), free(other);
}

static void test_lent(void **state)
{
    for (int forward = LS_CONV_PRODUCTS; forward < WAYS; forward++)
        for (int back = LS_CONV_PRODUCTS; back < WAYS; back++)
            check_lent(*state, (ls_conv_way)forward, (ls_conv_way)back);
}

/* ---- What is asked for ----------------------------------------------------------------------- */

static void test_own(void **state)
{
    fixture *f = *state;
    const int calls = made_up->calls;
    f->cpu->convolution = LS_CONVOLUTION_OWN;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        conv_case c;
        must(case_open(f, &conv_shapes[6], (conv_direction)direction, &c));
        assert_null(strstr(way_of(&c), ".cudnn"));
        put(f, &c);
        case_close(&c);
    }
    assert_int_equal(made_up->calls, calls);
    assert_null(strstr(library_of(f), "cuDNN"));
}

/* If the library is required, what it lacks is refused; an empty shape needs nothing. */
static void test_insist(void **state)
{
    fixture *f = *state;
    const ls_conv_shape four = {2, 3, 16, {6, 9, 6, 8, 3, 4, 1, 1, 1, 1}};
    conv_case c;
    f->cpu->convolution = LS_CONVOLUTION_CUDNN;
    must(case_open(f, &conv_shapes[6], FORWARD, &c)); /* the library is open */
    case_close(&c);
    for (int direction = 0; direction < 3; direction++) {
        refuses(
            f, &conv_shapes[3], direction,
            "cuDNN: 6x9x3 to 3x5x16: cuDNN cannot compute this convolution, since cuDNN pads both "
            "sides equally; use --convolution auto or own");
        refuses(f, &four, direction, "since the requested algorithm does not support this shape");
        must(case_open(f, &conv_shapes[0], (conv_direction)direction, &c));
        put(f, &c);
        case_close(&c);
    }
    const int64_t many = (int64_t)1 << 16;
    const ls_conv_shape large = {many, 64, 64, {32, 32, 32, 32, 3, 3, 1, 1, 1, 1}};
    assert_string_equal(ls_dnn_refuses(&large), "cuDNN's tensors have 1 to 2^31 - 1 elements");
}

/* TF32 is the library's other arithmetic, used only on request. */
static void test_tf32(void **state)
{
    fixture *f = *state;
    const ls_conv_shape *s = &conv_shapes[6];
    conv_case c[2];
    cuda_of(f)->way = LS_CONV_LIBRARY;
    for (int math = 0; math < 2; math++) {
        f->cpu->math = math ? LS_MATH_TF32 : LS_MATH_FLOAT32;
        must(case_open(f, s, FORWARD, &c[math]));
        put(f, &c[math]);
    }
    assert_true(memcmp(c[0].out, c[1].out, (size_t)c[0].count * sizeof *c[0].out) != 0);
    compare("tf32", c[1].out, c[0].out, NULL, 0x1p-10 * (double)filter_elements(s), c[0].count);
    case_close(&c[0]);
    case_close(&c[1]);
}

/* ---- A library that is not as it should be --------------------------------------------------- */

static void test_missing(void **state)
{
    fixture *f = *state;
    missing = true;
    f->cpu->convolution = LS_CONVOLUTION_CUDNN;
    refuses(f, &conv_shapes[6], 0, "cuDNN: libcudnn.so.9: cannot be loaded");
    f->cpu->convolution = LS_CONVOLUTION_AUTO;
    for (int direction = 0; direction < 3; direction++) {
        conv_case c;
        cuda_of(f)->way = LS_CONV_LIBRARY;
        must(case_open(f, &conv_shapes[6], (conv_direction)direction, &c));
        assert_non_null(strstr(way_of(&c), ".cublaslt"));
        put(f, &c);
        case_close(&c);
    }
    assert_non_null(strstr(library_of(f), ", no cuDNN"));
    missing = false;
}

/* Present, but unusable: an error, whether it was requested or not. */
static void test_broken(void **state)
{
    fixture *f = *state;
    cuda_of(f)->way = LS_CONV_LIBRARY;
    for (int insist = 0; insist < 2; insist++) {
        f->cpu->convolution = insist ? LS_CONVOLUTION_CUDNN : LS_CONVOLUTION_AUTO;
        made_up->version = 8907;
        refuses(f, &conv_shapes[6], 1,
                "cuDNN: libcudnn.so.9: this library has version 8, but this build is for version "
                "9; install");
        made_up->version = CUDNN_VERSION;
        made_up->fail = "cudnnCreate";
        made_up->failure = CUDNN_STATUS_NOT_INITIALIZED;
        refuses(f, &conv_shapes[6], 1,
                "cuDNN: create a handle: this function of cuDNN failed: "
                "CUDNN_STATUS_NOT_INITIALIZED (cudnnCreate); ");
        made_up->fail = NULL;
    }
}

/* What a trial answers, on a device that works: without being required, the library gives way, and
 * the row's library has the first reason; a lack of memory is an error. */
static void test_failed_trials(void **state)
{
    static const char *const functions[3][2] = {
        {"cudnnGetConvolutionForwardWorkspaceSize", "cudnnConvolutionBiasActivationForward"},
        {"cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnConvolutionBackwardFilter"},
        {"cudnnGetConvolutionBackwardDataWorkspaceSize", "cudnnConvolutionBackwardData"}};
    static const int failures[] = {CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_EXECUTION_FAILED,
                                   CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED};
    fixture *f = *state;
    cuda_of(f)->way = LS_CONV_LIBRARY;
    for (int direction = 0; direction < 3; direction++)
        for (int i = 0; i < 2; i++) {
            made_up->fail = functions[direction][i];
            for (int k = 0; k < 3; k++) {
                conv_case c;
                made_up->failure = failures[k];
                must(case_open(f, &conv_shapes[6], (conv_direction)direction, &c));
                assert_non_null(strstr(way_of(&c), ".cublaslt"));
                put(f, &c);
                case_close(&c);
            }
            made_up->failure = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
            refuses(f, &conv_shapes[6], direction, "cuDNN failed: CUDNN_STATUS_OF_THE_MADE_UP");
        }
    made_up->fail = NULL;
    const char *said = strstr(library_of(f), ", cuDNN 9.");
    assert_non_null(said);
    assert_string_equal(strchr(said, '('), "(a trial failed: CUDNN_STATUS_BAD_PARAM)");
}

/* Any function may fail while an operation is made: one line that names the status. */
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
    conv_case c;
    f->cpu->convolution = LS_CONVOLUTION_CUDNN;
    must(case_open(f, &conv_shapes[6], FORWARD, &c)); /* the library is open */
    for (int direction = 0; direction < 3; direction++)
        for (int i = 0; i < 11 && functions[direction][i]; i++) {
            made_up->fail = functions[direction][i];
            made_up->failure = CUDNN_STATUS_BAD_PARAM;
            refuses(f, &conv_shapes[6], direction, "cuDNN failed: CUDNN_STATUS_BAD_PARAM (cudnn");
        }
    /* Failures in a run name the operation. */
    made_up->fail = "cudnnConvolutionBiasActivationForward";
    ls_status status = ls_queue_enqueue(f->queue, c.op);
    status = ls_status_first(status, ls_queue_sync(f->queue));
    assert_non_null(strstr(
        ls_status_text(status),
        "cuDNN: conv_forward.cudnn_nhwc_precomp_gemm_fused: this function of cuDNN failed: "));
    ls_status_free(status);
    made_up->fail = NULL;
    case_close(&c);
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
        CONV_TEST(test_chosen),
        CONV_TEST(test_ways),
        CONV_TEST(test_measured_ways),
        CONV_TEST(test_alignment),
        CONV_TEST(test_lent),
        CONV_TEST(test_direct),
        CONV_TEST(test_own),
        CONV_TEST(test_insist),
        CONV_TEST(test_tf32),
        CONV_TEST(test_missing),
        CONV_TEST(test_broken),
        CONV_TEST(test_failed_trials),
        CONV_TEST(test_failures),
    };
    (void)run_layer_tests;
    /* Loading by name finds a library of this name that is already loaded. */
    void *library = dlopen(LS_BUILD_DIR "/made_up/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    made_up = library ? dlsym(library, "made_up_cudnn") : NULL;
    if (!made_up) {
        puts(dlerror());
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
