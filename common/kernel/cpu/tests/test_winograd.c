/* SPDX-License-Identifier: MIT */
/*
 * Winograd's convolutions. The vector loops: every instruction set of this machine gives the
 * portable one's bits, and tiles or channels computed separately give the bits of all together. The
 * cpu table against the reference, with one core and with two: the 2-norm of the difference is
 * within 3e-6 of the result's, four times the error of transforms with these points; one wrong
 * element in any of these shapes exceeds 1e-3.
 */
#include "common/kernel/cpu/vector.h"
#include "common/kernel/tests/kernel_fixture.h"

/* All shapes except the last two use Winograd's method if the loops are `fused`. The first is
 * for the loops only: no layer has it, and oneDNN, used on other processors, refuses it. */
static const ls_conv_shape shapes[] = {
    {3, 16, 16, {40, 40, 17, 17, 3, 3, 1, 1, 0, 0}}, /* pixels that no output reads */
    {7, 16, 16, {16, 16, 16, 16, 3, 3, 1, 1, 1, 1}}, /* whole tiles, 112 of them */
    {3, 32, 16, {19, 15, 17, 13, 3, 3, 1, 1, 0, 0}}, /* some tiles cross the edge, no padding */
    {2, 16, 48, {21, 22, 21, 22, 3, 3, 1, 1, 1, 1}},
    {2, 80, 112, {18, 24, 18, 24, 3, 3, 1, 1, 1, 1}}, /* every number of blocks */
    {2, 64, 32, {13, 12, 13, 12, 5, 5, 1, 1, 2, 2}},
    {2, 16, 64, {13, 17, 9, 13, 5, 5, 1, 1, 0, 0}},
    {6, 16, 16, {11, 12, 12, 11, 3, 3, 1, 1, 2, 0}}, /* more padding on one side */
    {9, 16, 16, {16, 16, 8, 8, 3, 3, 2, 2, 0, 0}},
    {9, 16, 20, {16, 16, 16, 16, 3, 3, 1, 1, 1, 1}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, BY_WINOGRAD = SHAPES - 2 };

static int64_t in_elements(const ls_conv_shape *s)
{
    return s->rows * s->window.in_height * s->window.in_width * s->channels;
}

static int64_t out_elements(const ls_conv_shape *s)
{
    return s->rows * s->window.out_height * s->window.out_width * s->outputs;
}

static int64_t weight_elements(const ls_conv_shape *s)
{
    return s->outputs * s->channels * s->window.height * s->window.width;
}

/* ---- Loops ---------------------------------------------------------------------------------- */

typedef struct outcome {
    float *y, *dweight, *dbias, *turned;
} outcome;

static outcome outcome_make(const ls_conv_shape *s)
{
    return (outcome){randoms(out_elements(s), 8), randoms(weight_elements(s), 8),
                     randoms(s->outputs, 8), randoms(out_elements(s), 8)};
}

static void outcome_free(outcome o)
{
    free(o.y), free(o.dweight), free(o.dbias), free(o.turned);
}

/* Uses one table: tiles in ranges of `tiles`, channel blocks in ranges of `blocks`. */
static void by_loops(const ls_vector_loops *l, const ls_conv_shape *s, int64_t tiles,
                     int64_t blocks, const outcome *o)
{
    const int64_t points = LS_WINOGRAD_AXIS * LS_WINOGRAD_AXIS, C = s->channels / 16;
    const int64_t all = ls_vector_winograd_tiles(s), elements = weight_elements(s);
    float *x = randoms(in_elements(s), 1), *dy = randoms(out_elements(s), 2);
    float *weight = randoms(elements, 3), *bias = randoms(s->outputs, 4);
    float *packed = randoms(points * s->channels * s->outputs, 5);
    float *in = randoms(points * s->channels * LS_WINOGRAD_TILES, 6);
    float *out = randoms(points * s->outputs * LS_WINOGRAD_TILES, 7);
    ls_vector_winograd w = {.shape = *s,
                            .relu = true,
                            .x = x,
                            .dy = dy,
                            .weight = weight,
                            .bias = bias,
                            .y = o->y,
                            .dweight = o->dweight,
                            .dbias = o->dbias,
                            .packed = packed,
                            .in = in,
                            .out = out};
    for (int turned = 0; turned < 2; turned++) {
        for (int64_t b = 0; b < C; b += blocks)
            l->winograd_pack(&w, b, b + blocks < C ? b + blocks : C);
        for (int64_t t = 0; t < all; t += tiles)
            l->winograd_forward(&w, t, t + tiles < all ? t + tiles : all);
        w.turned = true;
        w.relu = false;
        w.bias = NULL;
        w.y = o->turned;
    }
    w.turned = false;
    for (int64_t b = 0; b < C; b += blocks)
        l->winograd_weights(&w, b, b + blocks < C ? b + blocks : C);
    free(x), free(dy), free(weight), free(bias), free(packed), free(in), free(out);
}

static void same_outcome(const ls_conv_shape *s, const outcome *a, const outcome *b)
{
    same_bits("y", a->y, b->y, (size_t)(out_elements(s) + 1) * sizeof(float));
    same_bits("y, turned", a->turned, b->turned, (size_t)(out_elements(s) + 1) * sizeof(float));
    same_bits("dweight", a->dweight, b->dweight, (size_t)(weight_elements(s) + 1) * sizeof(float));
    same_bits("dbias", a->dbias, b->dbias, (size_t)(s->outputs + 1) * sizeof(float));
}

static void test_same_bits_everywhere(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    const size_t count = ls_vector_loops_list(list);
    for (int i = 0; i < BY_WINOGRAD; i++) {
        const ls_conv_shape *s = &shapes[i];
        const int64_t all = ls_vector_winograd_tiles(s);
        outcome want = outcome_make(s);
        by_loops(list[0], s, all, s->channels / 16, &want);
        for (size_t k = 1; k < count; k++) {
            outcome got = outcome_make(s);
            by_loops(list[k], s, all, s->channels / 16, &got);
            same_outcome(s, &got, &want);
            outcome_free(got);
            got = outcome_make(s);
            by_loops(list[k], s, 7, 1, &got);
            same_outcome(s, &got, &want);
            outcome_free(got);
        }
        outcome_free(want);
    }
}

/* ---- The table ------------------------------------------------------------------------------ */

static void close_to(const char *what, const float *got, const float *want, int64_t count)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    if (!(sqrt(off) <= 3e-6 * sqrt(size)))
        fail_msg("%s: off by %.3g of %.3g", what, sqrt(off), sqrt(size));
    same_bits("behind", got + count, want + count, sizeof *got);
}

static void check_name(const ls_op *op, bool winograd)
{
    const ls_vector_loops *loops = ls_vector_loops_pick();
    const bool expected = winograd && loops->fused;
    if (expected != (strstr(op->name, ".winograd") != NULL))
        fail_msg("an operation is %s", op->name);
    if (expected)
        assert_int_equal(op->reorders, 2);
}

/* Forward with and without bias and ReLU, both gradients; `winograd`: the cpu table uses it. */
static void check_shape(fixture *f, const ls_conv_shape *s, bool winograd, bool whole)
{
    const int64_t in = in_elements(s), out = out_elements(s), elements = weight_elements(s);
    float *x = randoms(in, 1), *dy = randoms(out, 2), *weight = randoms(elements, 3);
    float *bias = randoms(s->outputs, 4), *y[2] = {randoms(out, 5), randoms(out, 5)};
    float *dw[2] = {randoms(elements, 6), randoms(elements, 6)};
    float *db[2] = {randoms(s->outputs, 7), randoms(s->outputs, 7)};
    float *dx[2] = {randoms(in, 8), randoms(in, 8)};
    ls_kernels *const tables[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        const ls_kernel_table *table = tables[k]->table;
        ls_op *op[3];
        must(table->conv_forward(
            tables[k],
            &(ls_conv_forward_args){*s, x, weight, whole ? bias : NULL, y[k],
                                    whole ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE},
            &op[0]));
        must(table->conv_backward_weights(
            tables[k], &(ls_conv_backward_weights_args){*s, x, dy, dw[k], whole ? db[k] : NULL},
            &op[1]));
        must(table->conv_backward_data(
            tables[k], &(ls_conv_backward_data_args){*s, dy, weight, dx[k], NULL}, &op[2]));
        for (int i = 0; i < 3; i++) {
            if (!k)
                check_name(op[i], winograd);
            run(f, op[i]);
        }
    }
    close_to("y", y[0], y[1], out);
    close_to("dweight", dw[0], dw[1], elements);
    close_to("dbias", db[0], db[1], s->outputs);
    close_to("dx", dx[0], dx[1], in);
    for (int k = 0; k < 2; k++)
        free(y[k]), free(dw[k]), free(db[k]), free(dx[k]);
    free(x), free(dy), free(weight), free(bias);
}

static void test_table(void **state)
{
    for (int i = 1; i < SHAPES; i++)
        for (int whole = 0; whole < 2; whole++)
            check_shape(*state, &shapes[i], i < BY_WINOGRAD, whole);
}

/* Too few tiles for it to pay: like other convolutions. */
static void test_few_tiles(void **state)
{
    const ls_conv_shape s = {1, 16, 16, {16, 16, 16, 16, 3, 3, 1, 1, 1, 1}};
    check_shape(*state, &s, false, true);
}

/* Runs all three on a device of `cores`. */
static void by_cores(int cores, const ls_conv_shape *s, const outcome *o)
{
    fixture f;
    fixture_open(&f, cores);
    const ls_kernel_table *table = f.cpu->table;
    float *x = randoms(in_elements(s), 1), *dy = randoms(out_elements(s), 2);
    float *weight = randoms(weight_elements(s), 3);
    ls_op *op[3];
    must(table->conv_forward(
        f.cpu, &(ls_conv_forward_args){*s, x, weight, NULL, o->y, LS_ACTIVATION_NONE}, &op[0]));
    must(table->conv_backward_weights(
        f.cpu, &(ls_conv_backward_weights_args){*s, x, dy, o->dweight, o->dbias}, &op[1]));
    must(table->conv_backward_data(
        f.cpu, &(ls_conv_backward_data_args){*s, dy, weight, o->turned, NULL}, &op[2]));
    for (int i = 0; i < 3; i++) {
        check_name(op[i], i != 1 || s->channels >= 16 * cores);
        run(&f, op[i]);
    }
    free(x), free(dy), free(weight);
    fixture_close(&f);
}

/* Two cores share tiles and channels with the bits of one. oneDNN computes a single channel
 * block. */
static void test_two_cores(void **state)
{
    if (ls_machine_describe(((fixture *)*state)->machine)->cores_allowed < 2) {
        print_message("this process may use one core\n");
        skip();
    }
    const ls_conv_shape s = {8, 48, 48, {18, 18, 18, 18, 3, 3, 1, 1, 1, 1}};
    const ls_conv_shape few = {8, 16, 16, {18, 18, 18, 18, 3, 3, 1, 1, 1, 1}};
    outcome one = outcome_make(&s), two = outcome_make(&s), left = outcome_make(&few);
    by_cores(1, &s, &one);
    by_cores(2, &s, &two);
    by_cores(2, &few, &left);
    if (ls_vector_loops_pick()->fused) /* otherwise a library sums, in another order */
        same_outcome(&s, &two, &one);
    outcome_free(one), outcome_free(two), outcome_free(left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test_setup_teardown(test_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_few_tiles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_cores, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
