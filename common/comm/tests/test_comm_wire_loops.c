/* SPDX-License-Identifier: MIT */
/*
 * Rounding for a wire against its definition, element by element: rows of any length that begin
 * anywhere, ties, zeros, values that are not finite, and the error that it reports. No tolerance:
 * bits.
 */
#include "common/comm/comm_wire_loops.h"

#include "common/base/bf16_inline.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000, ROWS = 14, BLOCKS = 3 };

static const size_t begins[ROWS + 1] = {3,    515,  1027, 1028, 1030, 1045, 1500, 2012,
                                        2524, 3036, 3548, 4060, 4572, 5000, 5003};

static void *memory_of(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

/* Row 2 is one element, 4 is zeros, 5 has ties, 7 an infinity, 8 a NaN. */
static void fill(float *x, unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(rand() - RAND_MAX / 2) / (float)(1 << rand() % 30);
    for (size_t i = begins[4] - 3; i < begins[5] - 3; i++)
        x[i] = i % 2 ? 0.0f : -0.0f;
    for (size_t i = begins[5] - 3; i < begins[6] - 3; i++)
        x[i] = (float)((int)(i % 255) - 127) / 2;
    x[begins[5] - 3] = 127; /* scale 1: a half of an odd number is a tie */
    x[begins[7] + 40] = INFINITY;
    x[begins[8] + 41] = NAN;
}

static bool finite_row(const float *x, size_t r)
{
    bool finite = true;
    for (size_t i = begins[r] - 3; i < begins[r + 1] - 3; i++)
        finite = finite && isfinite(x[i]);
    return finite;
}

static float scale_of(const float *x, size_t r)
{
    float largest = 0;
    for (size_t i = begins[r] - 3; i < begins[r + 1] - 3; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return finite_row(x, r) ? largest / 127 : NAN;
}

/* x as sent, and the largest error. */
static void send(ls_wire_form wire, float *x, float *error)
{
    for (size_t i = 0; wire == LS_WIRE_BF16 && i < COUNT; i++) {
        const float sent = ls_float_of_bf16(ls_bf16_of_float(x[i]));
        if (isfinite(sent) && x[i] != 0)
            *error = fmaxf(*error, fabsf(sent - x[i]) / fabsf(x[i]));
        x[i] = sent;
    }
    for (size_t r = 0; wire == LS_WIRE_INT8 && r < ROWS; r++) {
        const float scale = scale_of(x, r);
        for (size_t i = begins[r] - 3; i < begins[r + 1] - 3; i++) {
            const float q = scale > 0 ? (float)(int)rintf(x[i] / scale) : 0; /* no -0 */
            if (scale > 0)
                *error = fmaxf(*error, fabsf(q - x[i] / scale));
            x[i] = q * scale;
        }
    }
}

static void assert_bits(const float *x, const float *y)
{
    for (size_t i = 0; i < COUNT; i++)
        if (ls_bits_of_float(x[i]) != ls_bits_of_float(y[i]) && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("element %zu: %a, by definition %a", i, (double)x[i], (double)y[i]);
}

static void check(ls_wire_form wire)
{
    float *x = memory_of(COUNT * sizeof *x), *y = memory_of(COUNT * sizeof *y),
          *sum = memory_of(COUNT * sizeof *sum), error = 0, expected = 0;
    unsigned char *packed[BLOCKS];
    const ls_wire_rows rows = {wire, COUNT, wire == LS_WIRE_INT8 ? ROWS : 0, begins};
    for (unsigned d = 0; d < BLOCKS; d++) {
        packed[d] = memory_of(COUNT * sizeof(uint16_t) + ROWS * sizeof(float));
        fill(x, d + 1);
        ls_wire_loop(&(ls_wire_work){.rows = rows, .values = x, .out = packed[d], .error = &error});
        memset(y, 0xff, COUNT * sizeof *y);
        ls_wire_loop(&(ls_wire_work){.rows = rows,
                                     .in = (const unsigned char *const[]){packed[d]},
                                     .ranks = 1,
                                     .values = y});
        send(wire, x, &expected);
        assert_bits(y, x);
        for (size_t i = 0; i < COUNT; i++)
            sum[i] = d ? sum[i] + x[i] : x[i];
    }
    assert_true(error == expected && error > 0);
    for (size_t i = 0; i < COUNT; i++)
        sum[i] = sum[i] / BLOCKS;
    /* The mean, packed where one of its addends was. */
    ls_wire_loop(&(ls_wire_work){.rows = rows,
                                 .in = (const unsigned char *const *)packed,
                                 .ranks = BLOCKS,
                                 .mean = true,
                                 .values = y,
                                 .out = packed[1],
                                 .error = &error});
    assert_bits(y, sum);
    send(wire, sum, &expected);
    ls_wire_loop(&(ls_wire_work){
        .rows = rows, .in = (const unsigned char *const[]){packed[1]}, .ranks = 1, .values = y});
    assert_bits(y, sum);
    assert_true(error == expected && error <= (wire == LS_WIRE_INT8 ? 0.5f : 1.0f / 256));
    for (int d = 0; d < BLOCKS; d++)
        free(packed[d]);
    free(x);
    free(y);
    free(sum);
}

static void test_int8(void **state)
{
    (void)state;
    check(LS_WIRE_INT8);
}

static void test_bf16(void **state)
{
    (void)state;
    check(LS_WIRE_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_int8), cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
