/* SPDX-License-Identifier: MIT */
/* Rounding to bf16, around each of its 65,536 values: the neighbour at the smaller distance, in
 * double, of two equally near ones that with an even last bit. Exact. */
#include "common/base/bf16_inline.h"

#include "common/base/tests/must.h"

#include <math.h>

/* The value of a finite bf16's bits; behind the largest one the next power of two. */
static double value(uint32_t upper)
{
    const int exponent = (int)(upper >> 7 & 0xff), fraction = (int)(upper & 0x7f);
    return exponent ? ldexp(128 + fraction, exponent - 134) : ldexp(fraction, -133);
}

/* Of a float32 between the values of `upper` and upper + 1, both positive. */
static uint32_t nearest(uint32_t upper, double x)
{
    const double below = x - value(upper), above = value(upper + 1) - x;
    return below < above || (below == above && upper % 2 == 0) ? upper : upper + 1;
}

static void around_each_value(void **state)
{
    static const uint32_t low[] = {0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
    (void)state;
    for (uint32_t upper = 0; upper < 0x7f80; upper++)
        for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
            const float x = ls_float_of_bits(upper << 16 | low[i]);
            const uint32_t rounded = nearest(upper, (double)x);
            assert_int_equal(ls_bf16_of_float(x), rounded);
            assert_int_equal(ls_bf16_of_float(-x), rounded | 0x8000);
        }
}

static void not_finite(void **state)
{
    (void)state;
    assert_int_equal(ls_bf16_of_float(INFINITY), 0x7f80);
    assert_int_equal(ls_bf16_of_float(-INFINITY), 0xff80);
    assert_int_equal(ls_bf16_of_float(0x1.fep127f), 0x7f7f);
    assert_int_equal(ls_bf16_of_float(0x1.fefffep127f), 0x7f7f);
    assert_int_equal(ls_bf16_of_float(0x1.ffp127f), 0x7f80); /* half way: to even, infinity */
    for (uint32_t bits = 1; bits < 0x800000; bits = bits * 3 + 1)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const uint16_t r = ls_bf16_of_float(ls_float_of_bits(sign << 31 | 0x7f800000 | bits));
            assert_true((r & 0x7f80) == 0x7f80 && (r & 0x7f) && r >> 15 == sign);
        }
}

static void widens(void **state)
{
    (void)state;
    for (uint32_t upper = 0; upper < 0x10000; upper++) {
        const float wide = ls_float_of_bf16((uint16_t)upper);
        assert_int_equal(ls_bits_of_float(wide), upper << 16);
        const bool signalling = isnan(wide) && !(upper & 0x40);
        assert_int_equal(ls_bf16_of_float(wide), signalling ? upper | 0x40 : upper);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(around_each_value),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(widens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
