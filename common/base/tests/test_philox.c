/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 against the known answers of Random123, and the streams built on it. */
#include "common/base/random/philox_inline.h"
#include "common/base/tests/must.h"

#include <math.h>

enum { COUNT = 1 << 20 };
static const double sigmas = 5; /* most standard deviations of a mean */

/* Random123, kat_vectors, the three lines "philox4x32 10". */
static void test_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        uint32_t out[4];
        ls_philox_block(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].answer, sizeof out);
    }
}

/* The seed becomes the key, the stream the counter's upper half, index / 4 its lower half. */
static void test_layout(void **state)
{
    const ls_random random = {.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e};
    const uint64_t block = 0x05a308d3243f6a88; /* so that 4 * block fits */
    const uint32_t counter[4] = {0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344};
    const uint32_t key[2] = {0xa4093822, 0x299f31d0};
    uint32_t out[4];
    ls_philox_block(counter, key, out);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ls_random_bits(random, 4 * block + i), out[i]);
}

static void test_streams_differ(void **state)
{
    ls_random a = ls_random_stream(1, "init/dense0.weight");
    ls_random b = ls_random_stream(1, "init/dense1.weight");
    ls_random c = ls_random_stream(2, "init/dense0.weight");
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same += ls_random_bits(a, i) == ls_random_bits(b, i);
        same += ls_random_bits(a, i) == ls_random_bits(c, i);
        same += ls_random_bits(a, i) == ls_random_bits(a, i + 1);
    }
    assert_int_equal(same, 0);
}

/* Any range of a stream is that range of the whole. */
static void test_fill_ranges(void **state)
{
    ls_random random = ls_random_stream(7, "fill");
    float whole[40], part[40];
    ls_random_fill(random, 0, 40, -2, 3, whole);
    for (uint64_t i = 0; i < 40; i++)
        assert_true(whole[i] == -2 + 5 * ls_random_uniform(random, i));
    for (uint64_t first = 0; first < 40; first++) {
        for (uint64_t count = 0; first + count <= 40; count++) {
            ls_random_fill(random, first, count, -2, 3, part);
            assert_memory_equal(part, whole + first, count * sizeof(float));
        }
    }
}

static void test_uniform(void **state)
{
    ls_random random = ls_random_stream(3, "uniform");
    double sum = 0, squares = 0, neighbours = 0, before = 0.5;
    for (uint64_t i = 0; i < COUNT; i++) {
        float value = ls_random_uniform(random, i);
        assert_true(value >= 0 && value < 1 && value * 0x1p24f == floorf(value * 0x1p24f));
        double centred = (double)value - 0.5;
        sum += centred;
        squares += centred * centred;
        neighbours += centred * before;
        before = centred;
    }
    /* Variances of u - 1/2, its square and the product of two: 1/12, 1/180, 1/144. */
    assert_true(fabs(sum / COUNT) < sigmas * sqrt(1.0 / 12 / COUNT));
    assert_true(fabs(squares / COUNT - 1.0 / 12) < sigmas * sqrt(1.0 / 180 / COUNT));
    assert_true(fabs(neighbours / COUNT) < sigmas * sqrt(1.0 / 144 / COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),  cmocka_unit_test(test_layout),
        cmocka_unit_test(test_streams_differ), cmocka_unit_test(test_fill_ranges),
        cmocka_unit_test(test_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
