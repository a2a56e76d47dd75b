/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of images and sequences: every instruction set of this machine gives the portable
 * one's bits, at any alignment, and rows give the same computed together or one by one. Exact.
 */
#include "common/kernel/cpu/vector.h"
#include "common/kernel/tests/kernel_fixture.h"

enum { SPACE = 40000, AREAS = 6, ROWS = 9 };

typedef struct outcome {
    float data[AREAS][SPACE]; /* inputs first; a loop writes from area 3 on */
    int32_t places[SPACE];
    double value;
} outcome;

/* Rows [first, last) of ROWS. */
typedef void (*loop_call)(const ls_vector_loops *l, outcome *o, int shift, int first, int last);

static void prepare(outcome *o, int shift)
{
    uint32_t seed = 5;
    memset(o, 0, sizeof *o);
    for (int k = 0; k < AREAS; k++)
        for (int i = 0; i < SPACE - 64; i++)
            o->data[k][i + shift] = noise(&seed);
    for (int i = 0; i < SPACE; i++)
        o->places[i] = i * 7 % 16;
}

static void call_conv_max(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    static const ls_conv_shape shapes[] = {{ROWS, 1, 32, {6, 6, 4, 4, 3, 3, 1, 1, 0, 0}},
                                           {ROWS, 2, 20, {5, 4, 5, 4, 3, 3, 1, 1, 1, 1}}};
    for (int i = 0; i < 2; i++) {
        const ls_conv_shape *shape = &shapes[i];
        float packed[2000], bias[32] = {0.5f, -0.25f}, image[200];
        float *y = o->data[3] + s + 1000 * i;
        l->pack_filters(shape, o->data[1] + s, packed);
        const ls_vector_conv_max conv = {.arguments = {*shape, o->data[0] + s, NULL, NULL, y,
                                                       o->places + 500 * i, LS_ACTIVATION_RELU},
                                         .outputs = 32,
                                         .packed = packed,
                                         .bias = bias,
                                         .image = i ? image : NULL,
                                         .height = i ? 7 : 6,
                                         .width = 6};
        l->conv_max(&conv, first, last);
        if (first == 0 && last == ROWS) /* iterates over outputs, not rows */
            l->conv_max_backward(
                &(ls_conv_max_backward_weights_args){*shape, o->data[0] + s, o->data[2] + s,
                                                     o->places + 500 * i, o->data[4] + s + 1000 * i,
                                                     o->data[5] + s + 1000 * i},
                0, shape->outputs);
    }
}

/* Units instead of rows: 3 rows of the window by 3 blocks of outputs; at the right and bottom the
 * window covers less than the image, or padding. */
static void call_conv_few(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    static const ls_conv_shape shapes[] = {{2, 3, 48, {5, 6, 3, 2, 3, 3, 2, 2, 1, 0}},
                                           {3, 3, 48, {4, 4, 4, 4, 3, 3, 1, 1, 1, 1}},
                                           {2, 3, 48, {6, 6, 6, 6, 3, 5, 1, 1, 1, 2}}};
    for (int i = 0; i < 3; i++) {
        const ls_window *w = &shapes[i].window;
        const int64_t height = (w->out_height - 1) * w->stride_y + w->height;
        const int64_t width = (w->out_width - 1) * w->stride_x + w->width;
        float image[400], sums[ROWS * 16 * 16];
        assert_true(height * width * shapes[i].channels <= 400);
        const ls_vector_conv_few conv = {.arguments = {shapes[i], o->data[0] + s, o->data[1] + s,
                                                       o->data[3] + s + 3000 * i,
                                                       o->data[4] + s + 100 * i},
                                         .height = height,
                                         .width = width,
                                         .image = image,
                                         .sums = sums};
        l->conv_few_weights(&conv, first, last);
    }
}

static void call_pools(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    static const ls_window windows[] = {{4, 4, 2, 2, 3, 3, 2, 2, 0, 0},
                                        {4, 4, 1, 1, 4, 5, 1, 1, 0, 0}};
    for (int i = 0; i < 2; i++) {
        float *y = o->data[3] + s + 8000 * i;
        int32_t *argmax = o->places + 8000 * i;
        l->max_pool(&(ls_max_pool_forward_args){ROWS, 97, windows[i], o->data[0] + s, y, argmax},
                    first, last);
        l->max_pool_back(&(ls_max_pool_backward_args){ROWS, 97, windows[i], o->data[1] + s, argmax,
                                                      i ? NULL : y, o->data[4] + s + 16000 * i},
                         first, last);
    }
}

static void call_lrn(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    float tile[1000];
    for (int i = 0; i < 2; i++) {
        const int64_t radius = i ? 2 : 4, channels = i ? 21 : 64;
        assert_true(ls_vector_lrn_tile(channels, radius) <= 1000);
        l->lrn(&(ls_lrn_forward_args){ROWS, channels, radius, 0.3, o->data[0] + s,
                                      o->data[3] + s + 1000 * i},
               first, last, tile);
        l->lrn_back(&(ls_lrn_backward_args){ROWS, channels, radius, 0.3, i, o->data[0] + s,
                                            o->data[1] + s, o->data[4] + s + 1000 * i},
                    first, last, tile);
    }
    l->transpose(&(ls_transpose_args){ROWS, 17, 5, o->data[0] + s, o->data[5] + s}, first, last);
}

static void call_lstm(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    static const int64_t hidden[] = {20, 64};
    for (int i = 0; i < 2; i++) {
        const int64_t H = hidden[i], T = 3;
        static float packed[2][4 * 64 * 64], scratch[2 * LS_VECTOR_LSTM_ROWS * 64];
        assert_true(ROWS * T * 4 * H < SPACE / 4);
        float *kept = o->data[3] + s + 20000 * i;
        ls_vector_lstm lstm = {.shape = {ROWS, T, 1, H, i},
                               .bias = o->data[1] + s,
                               .gates = kept,
                               .dz = o->data[5] + s + 20000 * i + first * T * 4 * H,
                               .dz_row = first,
                               .cells = kept + ROWS * T * 4 * H,
                               .previous = kept + ROWS * T * 5 * H,
                               .y = o->data[4] + s + 20000 * i,
                               .dy = o->data[2] + s,
                               .scratch = scratch};
        l->pack_recurrent(o->data[0] + s, H, false, packed[0]);
        l->pack_recurrent(o->data[0] + s, H, true, packed[1]);
        lstm.packed = packed[0];
        l->lstm_forward(&lstm, first, last);
        lstm.packed = packed[1];
        l->lstm_backward(&lstm, first, last);
    }
}

static void call_sums(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % 2;
    l->decay(o->data[0] + s + first, 0.3f, o->data[3] + s + first, last - first);
    if (first == 0 && last == ROWS)
        o->value = l->sum_squares(o->data[0] + s, 1003) + l->decay_loss(o->data[1] + s, 0.3, 1003) +
                   l->logistic(&(ls_logistic_loss_args){ROWS, o->data[0] + s, labels, 0.25,
                                                        o->data[4] + s, NULL});
}

/* Rows are tiles of pixels, or one pixel each. */
static void call_bn(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    for (int i = 0; i < 4; i++) {
        const int64_t C = i & 1 ? 20 : 32;
        const ls_activation relu = i & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE;
        const float *x = o->data[0] + s, *dy = o->data[1] + s, *moments = o->data[2] + s;
        const float *weight = moments + 2 * C, *bias = weight + C, *z = i & 1 ? dy : NULL;
        const double sums[64] = {1, 2, 3};
        float *out = o->data[3] + s + 1000 * i;
        l->bn_forward(&(ls_bn_forward_args){ROWS, C, x, moments, weight, bias, z, out, relu}, first,
                      last);
        l->bn_backward(&(ls_bn_backward_args){ROWS, C, 11, x, moments, weight, bias, relu, sums, dy,
                                              o->data[4] + s + 1000 * i},
                       first, last);
    }
    l->mean_pool(&(ls_mean_pool_forward_args){ROWS, 7, 20, o->data[0] + s, o->data[5] + s}, first,
                 last);
    l->mean_pool_back(
        &(ls_mean_pool_backward_args){ROWS, 7, 20, o->data[0] + s, o->data[5] + s + 2000}, first,
        last);
}

static void call_bn_sums(const ls_vector_loops *l, outcome *o, int s, int first, int last)
{
    enum { PIXELS = 150 };
    (void)first;
    if (last != ROWS)
        return;
    for (int i = 0; i < 3; i++) {
        const int64_t C = i & 1 ? 20 : 32;
        const float *x = o->data[0] + s, *dy = o->data[1] + s, *moments = o->data[2] + s;
        double sums[2][128] = {{0}};
        l->bn_sums(&(ls_bn_sums_args){.pixels = PIXELS, .channels = C, .x = x}, 0, PIXELS, sums[0]);
        l->bn_backward_sums(
            &(ls_bn_backward_sums_args){.pixels = PIXELS,
                                        .channels = C,
                                        .x = x,
                                        .moments = moments,
                                        .weight = moments + 2 * C,
                                        .bias = moments + 3 * C,
                                        .activation = i ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
                                        .y = i == 1 ? x + 99 : NULL,
                                        .dy = dy,
                                        .dz = i == 2 ? NULL : o->data[4] + s + 5000 * i},
            0, PIXELS, sums[1]);
        memcpy(o->data[3] + s + 1000 * i, sums, sizeof sums);
    }
    l->moving_average(o->data[0] + s, 0.3f, o->data[5] + s, 1003);
}

static const loop_call calls[] = {call_conv_max, call_pools, call_lrn,     call_lstm,
                                  call_bn,       call_sums,  call_bn_sums, call_conv_few};
enum { CALLS = sizeof calls / sizeof *calls };

/* Uses one table, on all rows at once or one by one. */
static void run_rows(const ls_vector_loops *l, int which, int shift, bool apart, outcome *o)
{
    prepare(o, shift);
    if (!apart)
        calls[which](l, o, shift, 0, ROWS);
    for (int r = 0; apart && r < ROWS; r++)
        calls[which](l, o, shift, r, r + 1);
}

static void same_outcome(int which, const char *isa, const outcome *a, int shift_a,
                         const outcome *b, int shift_b)
{
    char name[64];
    snprintf(name, sizeof name, "call %d, %s", which, isa);
    for (int k = 0; k < AREAS; k++)
        same_bits(name, a->data[k] + shift_a, b->data[k] + shift_b, (SPACE - 64) * sizeof(float));
    same_bits(name, a->places, b->places, sizeof a->places);
    assert_true(a->value == b->value);
}

static void test_same_bits_everywhere(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    outcome *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    size_t count = ls_vector_loops_list(list);
    for (int c = 0; c < CALLS; c++) {
        run_rows(list[0], c, 0, false, want);
        for (size_t i = 0; i < count; i++)
            for (int shift = 0; shift < 5; shift += 2) {
                run_rows(list[i], c, shift, false, got);
                same_outcome(c, list[i]->isa, got, shift, want, 0);
            }
    }
    free(want), free(got);
}

static void test_rows_apart(void **state)
{
    (void)state;
    const ls_vector_loops *loops = ls_vector_loops_pick();
    outcome *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    /* pools, normalisations, LSTM, few channels */
    static const int by_rows[] = {1, 2, 3, 4, 7};
    for (int i = 0; i < 5; i++) {
        run_rows(loops, by_rows[i], 0, false, want);
        run_rows(loops, by_rows[i], 0, true, got);
        same_outcome(by_rows[i], "rows apart", got, 0, want, 0);
    }
    free(want), free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_rows_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
