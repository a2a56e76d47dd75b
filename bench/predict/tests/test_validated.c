/* SPDX-License-Identifier: MIT */
/*
 * What the program's own table of validated rows says of kinds of cases. Goals of the committed
 * rows: of a machine that is left out 85% of the intervals hold; half widths are at most 12% where
 * no core is shared, 30% where devices share cores.
 */
#include "bench/predict/validated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static json_t *row_of(const char *machine, bool shared, bool busy, double predicted,
                      double measured)
{
    return json_pack("{s:s,s:b,s:b,s:f,s:f}", "machine", machine, "shared", shared, "busy", busy,
                     "predicted_ms", predicted, "measured_ms", measured);
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * wanted))
        fail_msg("%.9f instead of %.9f", value, wanted);
}

static void kinds(void **state)
{
    (void)state;
    size_t count;
    json_auto_t *table = json_array();
    for (int i = 1; i <= 21; i++) /* errors of 1 to 21%, some too slow */
        json_array_append_new(table, row_of("a", false, true, 1, exp(i % 2 ? -.01 * i : .01 * i)));
    json_array_append_new(table, row_of("b", false, true, 1, exp(0.5)));
    json_array_append_new(table, row_of("b", true, true, 2, 4));
    near(ls_validated_error(table, false, true, "b", &count), 0.19);
    assert_int_equal(count, 21);
    near(ls_validated_error(table, false, true, "a", &count), 0.5);
    near(ls_validated_error(table, true, true, NULL, &count), log(2));
    assert_int_equal(count, 1);
    assert_true(ls_validated_error(table, true, false, NULL, &count) == 0);
    assert_int_equal(count, 0);
}

/* A step is busy if it computes for more than a third of the time, or sends more than a message a
 * device and ms. */
static void busy(void **state)
{
    (void)state;
    const struct {
        double computing;
        int messages;
        bool busy;
    } cases[] = {{0.3, 40, false}, {0.4, 40, true}, {0.3, 41, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_auto_t *row =
            json_pack("{s:{s:[s,s]},s:{s:f},s:{s:i},s:{s:{s:f}}}", "case", "devices", "cpu:0",
                      "cpu:1", "prediction", "computing", cases[i].computing, "traffic",
                      "messages_sent", cases[i].messages, "time", "step_ms", "median", 20.0);
        assert_int_equal(ls_validated_busy(row), cases[i].busy);
    }
}

static void left_out(void **state)
{
    (void)state;
    static const double widest[] = {0.12, 0.30};
    json_auto_t *table = ls_validated_table();
    size_t held = 0, count = 0;
    assert_true(json_array_size(table) > 100);
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *row = json_array_get(table, i);
        const bool shared = json_is_true(json_object_get(row, "shared"));
        const double width =
            ls_validated_error(table, shared, json_is_true(json_object_get(row, "busy")),
                               json_string_value(json_object_get(row, "machine")), &count);
        held += fabs(log(json_number_value(json_object_get(row, "measured_ms")) /
                         json_number_value(json_object_get(row, "predicted_ms")))) <= width;
        assert_true(count > 0 && expm1(width) <= widest[shared]);
    }
    print_message("%zu of %zu hold\n", held, json_array_size(table));
    assert_true((double)held >= 0.85 * (double)json_array_size(table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds), cmocka_unit_test(busy),
                                       cmocka_unit_test(left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
