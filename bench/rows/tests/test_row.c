/* SPDX-License-Identifier: MIT */
/* Values of a row: set, found and dropped by field. Exact. */
#include "bench/rows/put.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_text(json_t *row, const char *expected)
{
    char *text = json_dumps(row, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    assert_string_equal(text, expected);
    free(text);
    json_decref(row);
}

static void setters_make_groups(void **state)
{
    (void)state;
    json_t *row = json_object();
    ls_put_schema(row, (unsigned char)1);
    ls_put_time_step_ms_median(row, 1.5);
    ls_put_time_step_ms_ci95(row, ls_interval_value(1, 2));
    ls_put_provenance_dirty(row, true);
    ls_put_traffic_bytes_sent(row, (uint64_t)INT64_MAX);
    ls_row_append(row, LS_F_case_devices, json_string("cpu:0"));
    ls_row_append(row, LS_F_case_devices, json_string("cpu:1"));
    assert_true(ls_row_real(row, LS_F_time_step_ms_median) == 1.5);
    assert_true(ls_row_real_at(row, LS_F_time_step_ms_ci95, 1) == 2);
    assert_true(ls_row_integer(row, LS_F_traffic_bytes_sent) == INT64_MAX);
    assert_true(ls_row_true(row, LS_F_provenance_dirty));
    assert_string_equal(ls_row_string_at(row, LS_F_case_devices, 1), "cpu:1");
    assert_int_equal(ls_row_count(row, LS_F_case_devices), 2);
    ls_row_drop(row, LS_F_traffic_bytes_sent);
    check_text(row, "{\"case\":{\"devices\":[\"cpu:0\",\"cpu:1\"]},\"provenance\":{\"dirty\":true},"
                    "\"schema\":1,\"time\":{\"step_ms\":{\"ci95\":[1.0,2.0],\"median\":1.5}},"
                    "\"traffic\":{}}");
}

/* What does not apply makes no group either, and leaves what was there. */
static void what_does_not_apply_is_absent(void **state)
{
    (void)state;
    json_t *row = json_object();
    ls_put_time_mfu(row, NAN);
    ls_put_noise_others(row, INFINITY);
    ls_put_label(row, NULL);
    ls_put_time_speedup_ci95(row, ls_interval_value(NAN, NAN));
    ls_put_provenance_environment(row, NULL);
    ls_row_drop(row, LS_F_traffic_bytes_sent);
    assert_false(ls_row_has(row, LS_F_time_mfu) || ls_row_group(row, LS_G_time));
    assert_string_equal(ls_row_string(row, LS_F_label), "");
    assert_true(ls_row_real(row, LS_F_time_mfu) == 0);
    ls_put_label(row, "a\xff"); /* not UTF-8 */
    ls_put_label(row, NULL);
    ls_put_train_losses(row, ls_reals((double[]){1, NAN}, 2));
    check_text(row, "{\"label\":\"a\\\\xff\",\"train\":{\"losses\":[1.0,null]}}");
}

static void lists_of_objects_have_elements(void **state)
{
    (void)state;
    json_t *row = json_object(), *device;
    for (int i = 0; i < 3; i++) {
        device = ls_row_make(row, LS_G_memory_devices);
        ls_put_memory_devices_peak(device, 5 * (i > 0));
        ls_put_memory_devices_formula_peak(device, i);
    }
    assert_int_equal(json_array_size(ls_row_group(row, LS_G_memory_devices)), 3);
    assert_true(ls_row_integer(device, LS_F_memory_devices_formula_peak) == 2);
    device = ls_row_fullest(row);
    assert_true(ls_row_integer(device, LS_F_memory_devices_formula_peak) == 1);
    assert_ptr_equal(ls_row_make(row, LS_G_time), ls_row_make(row, LS_G_time));
    json_decref(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setters_make_groups),
        cmocka_unit_test(what_does_not_apply_is_absent),
        cmocka_unit_test(lists_of_objects_have_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
