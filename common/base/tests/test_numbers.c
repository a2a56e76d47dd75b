/* SPDX-License-Identifier: MIT */
/* Checked sizes at their limits, and which texts are numbers on the command line. */
#include "common/base/numbers.h"
#include "common/base/tests/must.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void test_sizes(void **state)
{
    size_t out = 7;
    assert_true(ls_size_multiply(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    assert_true(ls_size_multiply(SIZE_MAX, 0, &out) && out == 0);
    assert_true(ls_size_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_true(ls_size_round_up(0, 64, &out) && out == 0);
    assert_true(ls_size_round_up(1, 64, &out) && out == 64);
    assert_true(ls_size_round_up(64, 64, &out) && out == 64);
    out = 7;
    assert_false(ls_size_multiply((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_false(ls_size_add(SIZE_MAX, 1, &out));
    assert_false(ls_size_round_up(SIZE_MAX - 1, 64, &out));
    assert_int_equal(out, 7); /* untouched */
}

static void test_integers(void **state)
{
    int64_t out = 7;
    assert_true(ls_parse_integer("0", 0, 9, &out) && out == 0);
    assert_true(ls_parse_integer("-12", -12, 9, &out) && out == -12);
    assert_true(ls_parse_integer("9223372036854775807", 0, INT64_MAX, &out) && out == INT64_MAX);
    out = 7;
    static const char *const wrong[] = {"",
                                        " 1",
                                        "+1",
                                        "1 ",
                                        "12x",
                                        "0x10",
                                        "1.0",
                                        "1e3",
                                        "-",
                                        "nan",
                                        "10",
                                        "-1",
                                        "9223372036854775808",
                                        "-99999999999999999999"};
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_false(ls_parse_integer(wrong[i], 0, 9, &out));
    assert_false(ls_parse_integer(NULL, 0, 9, &out));
    assert_false(ls_parse_integer("9223372036854775808", 0, INT64_MAX, &out));
    assert_int_equal(out, 7);
}

static void test_reals(void **state)
{
    double out;
    assert_true(ls_parse_real("0.001", &out) && out == 0.001);
    assert_true(ls_parse_real("-1e-3", &out) && out == -1e-3);
    assert_true(ls_parse_real(".5", &out) && out == 0.5);
    assert_true(ls_parse_real("1e-400", &out) && out == 0);
    out = 7;
    static const char *const wrong[] = {"",      " 1",    "1 ",     "1x", "nan", "inf", "-inf",
                                        "0x1p3", "1e999", "-1e999", ".",  "-",   "e5",  "1,5"};
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_false(ls_parse_real(wrong[i], &out));
    assert_false(ls_parse_real(NULL, &out));
    assert_true(out == 7);
}

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } right[] = {{"0", 0},
                 {"65536", 65536},
                 {"64KiB", 65536},
                 {"1kB", 1000},
                 {"1KB", 1000},
                 {"25MiB", 26214400},
                 {"1GB", 1000000000},
                 {"1GiB", 1073741824},
                 {"0.5KiB", 512},
                 {"3B", 3}};
    size_t out;
    for (size_t i = 0; i < LENGTH(right); i++)
        assert_true(ls_parse_bytes(right[i].text, &out) && out == right[i].bytes);
    static const char *const wrong[] = {"",     "-1",   "KiB", "1 KiB", "1kib",
                                        "0.3B", "1e30", "nan", "1GBs",  "1GB/s"};
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_false(ls_parse_bytes(wrong[i], &out));
    assert_false(ls_parse_bytes(NULL, &out));
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } right[] = {{"0", 0},        {"2", 2000000000}, {"20s", 20000000000}, {"3ms", 3000000},
                 {"50us", 50000}, {"100ns", 100},    {"1.5us", 1500},      {"1min", 60000000000}};
    uint64_t out;
    for (size_t i = 0; i < LENGTH(right); i++)
        assert_true(ls_parse_duration(right[i].text, &out) && out == right[i].ns);
    static const char *const wrong[] = {"", "-1s", "s", "1 s", "1h", "1e12s", "inf"};
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_false(ls_parse_duration(wrong[i], &out));
}

static void test_bandwidths(void **state)
{
    double out;
    assert_true(ls_parse_bandwidth("1GB/s", &out) && out == 1e9);
    assert_true(ls_parse_bandwidth("125MB/s", &out) && out == 125e6);
    assert_true(ls_parse_bandwidth("4GiB/s", &out) && out == 4294967296.0);
    assert_true(ls_parse_bandwidth("10Gbps", &out) && out == 1.25e9);
    assert_true(ls_parse_bandwidth("8Mbit/s", &out) && out == 1e6);
    static const char *const wrong[] = {"", "1GB", "/s", "0GB/s", "-1GB/s", "1GB/h", "1Gb/s"};
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_false(ls_parse_bandwidth(wrong[i], &out));
    assert_false(ls_parse_bandwidth(NULL, &out));
}

static void test_format(void **state)
{
    char text[32];
    assert_string_equal(ls_format_bytes(0, text), "0 B");
    assert_string_equal(ls_format_bytes(1023, text), "1023 B");
    assert_string_equal(ls_format_bytes(1572864, text), "1.5 MiB");
    assert_string_equal(ls_format_bytes(1e18, text), "909494.7 TiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_reals),     cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_bandwidths),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
