/* SPDX-License-Identifier: MIT */
/* Noise of a case: texts of the system, what follows from counters of its cores, over ranks, and in
 * words. Exact, but for sums of decimal fractions: 1e-9. */
#include "bench/output/format.h"
#include "bench/row/row.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <stdlib.h>

static const double tick_s = 0.01;

/* ---- Texts ---------------------------------------------------------------------------------- */

static const char stat_text[] = "cpu  1 9657 16835 28621 404 0 16 206 0 0\n"
                                "cpu0 100 20 30 1000 5 7 9 4 50 0\n"
                                "cpu1 200 0 0 1000 0 0 0 0 0 0\n"
                                "cpu10 1 2 3 4 5 6 7 8 9 10\n"
                                "intr 4711 0 3\n"
                                "cpu3 1 1 1 1 1 1 1 1 1 1\n"; /* the processors are all before */

static ls_noise_mask mask_of(int first, int second)
{
    ls_noise_mask mask = {0};
    mask.words[first / 64] |= UINT64_C(1) << first % 64;
    mask.words[second / 64] |= UINT64_C(1) << second % 64;
    return mask;
}

static void check_stat(const char *text, int first, int second, double busy_s, double stolen_s)
{
    const ls_noise_mask mask = mask_of(first, second);
    ls_noise_counters found = {0};
    ls_noise_take_stat(text, tick_s, &mask, &found);
    if (isnan(busy_s)) {
        assert_true(isnan(found.busy_s) && isnan(found.stolen_s));
        return;
    }
    assert_true(fabs(found.busy_s - busy_s) < 1e-9);
    assert_true(fabs(found.stolen_s - stolen_s) < 1e-9);
}

static void only_the_cases_cores_count(void **state)
{
    check_stat(stat_text, 0, 0, 1.5, 0.04); /* no interrupts; guests are in the first */
    check_stat(stat_text, 1, 1, 2, 0);
    check_stat(stat_text, 0, 1, 3.5, 0.04);
    check_stat(stat_text, 10, 10, 0.06, 0.08);
    check_stat(stat_text, 3, 3, NAN, NAN);
    check_stat(stat_text, 0, 2, NAN, NAN); /* one of them is hidden: nothing is known */
    check_stat("", 0, 0, NAN, NAN);
    check_stat("cpu0 1 2 3\n", 0, 0, NAN, NAN);
    check_stat("cpu8191 1 0 0 0 0 0 0 0 0 0", 8191, 8191, 0.01, 0);
}

static void threads_counters_parse(void **state)
{
    double ran_s = -1, waited_s = -1;
    assert_true(ls_noise_take_schedstat("2500000000 500000000 17\n", &ran_s, &waited_s));
    assert_true(ran_s == 2.5 && waited_s == 0.5);
    assert_true(ls_noise_take_schedstat("0 500000000 1\n", &ran_s, &waited_s)); /* has just begun */
    assert_false(ls_noise_take_schedstat("0 0 0\n", &ran_s, &waited_s));        /* not counted */
    assert_false(ls_noise_take_schedstat("1 2\n", &ran_s, &waited_s));
    assert_false(ls_noise_take_schedstat("", &ran_s, &waited_s));
}

/* ---- What follows --------------------------------------------------------------------------- */

/* A device's seconds of 10 s in 20 blocks, whose error is 3 x 5 ms x sqrt(1000 + 20) = 0.479 s. */
static void check_judged(ls_noise_counters sum, double throttled_s, double others, double stolen,
                         double throttled)
{
    ls_noise_device device = {.cores = mask_of(2, 2), .count = 1, .sum = sum};
    const ls_noise noise = {
        .devices = &device, .count = 1, .timed_s = 10, .blocks = 20, .throttled_s = throttled_s};
    const ls_noise_found found = ls_noise_judge(&noise, tick_s);
    const double values[][2] = {
        {found.others, others}, {found.stolen, stolen}, {found.throttled, throttled}};
    for (int i = 0; i < 3; i++)
        if (isnan(values[i][1]) ? !isnan(values[i][0])
                                : !(fabs(values[i][0] - values[i][1]) < 1e-9))
            fail_msg("figure %d: %g, not %g", i, values[i][0], values[i][1]);
}

static void others_are_what_is_left(void **state)
{
    /* busy, stolen, own, waited; throttled: others, stolen, throttled */
    check_judged((ls_noise_counters){10, 0, 5, 5}, 0, 0.5, 0, 0);     /* half of a core */
    check_judged((ls_noise_counters){9, 0, 9, 0.01}, 0, 0, 0, 0);     /* alone */
    check_judged((ls_noise_counters){10, 0, 10, 10}, 0, 0, 0, 0);     /* its devices share a core */
    check_judged((ls_noise_counters){10, 0, 6.6, 13}, 0, 0.34, 0, 0); /* and others are there */
    check_judged((ls_noise_counters){10, 0, 2, 0.01}, 0, 0.001, 0, 0); /* others, while it sleeps */
    check_judged((ls_noise_counters){5, 0, 4.53, 2}, 0, 0, 0, 0);      /* the ticks cannot tell */
    check_judged((ls_noise_counters){5, 0, 4.5, 2}, 0, 0.05, 0, 0);
    check_judged((ls_noise_counters){3, 0, 4, 2}, 0, 0, 0, 0);
    check_judged((ls_noise_counters){10, 0, 5, 5}, 4, 0.1, 0, 0.4); /* it waited for its quota */
    check_judged((ls_noise_counters){5, 0, 5, 5}, 40, 0, 0,
                 0.5); /* in other members of the group */
    check_judged((ls_noise_counters){9, 1, 9, 0}, 0, 0, 0.1, 0);
    check_judged((ls_noise_counters){9, 0.06, 9, 0}, 0, 0, 0, 0); /* roundings */
}

static void what_is_not_counted_is_not_known(void **state)
{
    check_judged((ls_noise_counters){10, 0, NAN, NAN}, 0, NAN, 0, 0); /* no counters of threads */
    check_judged((ls_noise_counters){10, 0, NAN, NAN}, 3, NAN, 0, 0.3);
    check_judged((ls_noise_counters){NAN, NAN, 5, 5}, 0, NAN, NAN, 0); /* no /proc/stat */
    check_judged((ls_noise_counters){10, 0, 5, 5}, NAN, 0.5, 0, NAN);  /* no group with quotas */
    const ls_noise nothing = {.timed_s = 1};
    const ls_noise_found found = ls_noise_judge(&nothing, tick_s);
    assert_true(isnan(found.others) && isnan(found.stolen));
}

static void the_device_that_lost_most_counts(void **state)
{
    ls_noise_device devices[3] = {{.cores = mask_of(0, 0), .count = 1, .sum = {9, 0, 9, 0}},
                                  {.cores = mask_of(1, 1), .count = 1, .sum = {10, 0, 4, 6}},
                                  {.cores = mask_of(2, 2), .count = 1, .sum = {10, 0.9, 8, 2}}};
    const ls_noise noise = {.devices = devices, .count = 3, .timed_s = 10, .blocks = 20};
    const ls_noise_found found = ls_noise_judge(&noise, tick_s);
    assert_true(fabs(found.others - 0.6) < 1e-9 && fabs(found.stolen - 0.09) < 1e-9);
    assert_int_equal(found.device, 1);
}

/* This process's own counters, where the kernel has them. */
static void blocks_are_summed(void **state)
{
    ls_noise noise = {0};
    ls_noise_begin(&noise, NULL, 0); /* without devices: all cores that it may use */
    ls_noise_end(&noise);
    ls_noise_begin(&noise, NULL, 0);
    ls_noise_end(&noise);
    assert_int_equal(noise.count, 1);
    assert_int_equal(noise.blocks, 2);
    assert_true(noise.timed_s > 0 && noise.devices->count > 0);
    assert_false(noise.devices->sum.own_s < 0);
    assert_false(noise.devices->sum.busy_s < 0);
    ls_noise_close(&noise);
    assert_null(noise.devices);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* The row's note on noise, or "". */
static void check_words(const char *noise, const char *expected)
{
    json_t *row = json_pack("{s{}s{sf}}", "result", "time", "timed_s", 10.0);
    json_object_set_new(row, "noise", json_loads(noise, 0, NULL));
    ls_row_add_warnings(row);
    json_t *notes = ls_row_get(row, LS_F_result_notes),
           *warnings = ls_row_get(row, LS_F_result_warnings);
    const char *note = json_string_value(json_array_get(notes, 0));
    if (strcmp(note ? note : "", expected) != 0)
        fail_msg("%s: %s", noise, note);
    bool warned = false;
    for (size_t i = 0; i < json_array_size(warnings); i++)
        warned |= strcmp(json_string_value(json_array_get(warnings, i)), "noisy") == 0;
    assert_int_equal(warned, *expected != 0);
    json_decref(row);
}

static void what_took_most_is_named(void **state)
{
    check_words(
        "{\"others\": 0.5, \"cores\": [0], \"stolen\": 0.1, \"throttled\": 0.4}",
        "noisy: other programs used core 0 for 50% of the time while this case waited; taskset, or "
        "the launcher's binding, gives it separate cores");
    check_words("{\"others\": 0.03, \"cores\": [4, 5], \"of_rank\": 3}",
                "noisy: other programs used 0.03 of cores 4+5 of rank 3 while this case waited; "
                "taskset, or the launcher's binding, gives it separate cores");
    check_words("{\"others\": 0.1, \"cores\": [0], \"throttled\": 0.4}",
                "noisy: a control group's quota held it back 40% of the time; fewer devices or "
                "cores, or a larger quota, works");
    check_words("{\"stolen\": 0.05}", "noisy: a hypervisor took 5% of a core's time");
    check_words("{\"others\": 0.02, \"cores\": [0], \"stolen\": 0.02, \"throttled\": 0.02}", "");
    check_words("{\"heat\": 1}", "noisy: its first core was slowed down for heat");
    check_words("{\"mhz_first\": 3000, \"mhz_last\": 2000}",
                "noisy: its first core went from 3000 to 2000 MHz");
    check_words("{\"mhz_first\": 3000, \"mhz_last\": 2900}", "");
    check_words("{}", "");
}

static void check_join(const char *rows_text, bool shared, const char *expected)
{
    json_t *rows = json_loads(rows_text, 0, NULL), *row;
    json_auto_t *hosts = shared ? json_array() : NULL;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        json_array_append_new(hosts, json_pack("[i]", 7));
        json_object_set_new(row, "provenance",
                            json_pack("{s:[[i,i]]}", "cores", (int)i, (int)i + 1));
    }
    assert_null(ls_rows_join(rows, hosts));
    char *found = json_dumps(json_object_get(json_array_get(rows, 0), "noise"), JSON_SORT_KEYS);
    assert_string_equal(found ? found : "none", expected);
    free(found);
    json_decref(rows);
}

static void ranks_are_joined(void **state)
{
    static const char rows[] = "[{\"noise\": {\"others\": 0.1, \"cores\": [0], \"stolen\": 0.5}},"
                               " {\"noise\": {\"others\": 0.25, \"cores\": [3], \"stolen\": 0.25, "
                               "\"throttled\": 0.5}}, {}]";
    check_join(
        rows, false,
        "{\"cores\": [3], \"of_rank\": 1, \"others\": 0.25, \"stolen\": 0.5, \"throttled\": 0.5}");
    check_join(rows, true, "{\"stolen\": 0.5, \"throttled\": 0.5}");
    check_join("[{\"noise\": {\"others\": 0.0, \"cores\": [0]}}, {\"noise\": {\"others\": 0.0, "
               "\"cores\": [1]}}]",
               false, "{\"cores\": [0], \"of_rank\": 0, \"others\": 0.0}");
    check_join("[{}, {\"noise\": {\"stolen\": 0.5}}]", false, "{\"stolen\": 0.5}");
}

/* Each kind of ls_join on a field. */
static void fields_are_joined(void **state)
{
    static const char rows_text[] =
        "[{\"case\": {\"devices\": [\"cpu:0\"], \"lr\": 1}, \"memory\": {\"rss_peak\": 5, "
        "\"growth_per_step\": 1.5}, \"provenance\": {\"loops_isa\": \"AVX2\", \"environment\": "
        "{\"A\": \"1\"}}},"
        " {\"case\": {\"devices\": [\"cpu:0\", \"cpu:1\"], \"lr\": 2}, \"memory\": {\"rss_peak\": "
        "7, \"growth_per_step\": 2.0}, \"provenance\": {\"loops_isa\": \"AVX512\"}}]";
    json_t *rows = json_loads(rows_text, 0, NULL);
    assert_null(ls_rows_join(rows, NULL));
    char *found = json_dumps(json_array_get(rows, 0), JSON_SORT_KEYS);
    assert_string_equal(found,
                        "{\"case\": {\"devices\": [\"cpu:0\", \"cpu:0\", \"cpu:1\"], \"lr\": 1}, "
                        "\"memory\": {\"growth_per_step\": 3.5, \"rss_peak\": 7}, \"provenance\": "
                        "{\"environment\": {\"A\": \"1 (ranks 0), unset (ranks 1)\"}, "
                        "\"loops_isa\": \"AVX2 (ranks 0), AVX512 (ranks 1)\"}}");
    free(found);
    json_decref(rows);
}

/* The fields of uses of memory, and of parts of a step, stand in the order of their enums. */
static void counted_fields_are_in_order(void **state)
{
    (void)state;
    static const char *const parts[] = {"compute", "comm_exposed", "wait",
                                        "copy",    "optimizer",    "harness"};
    char path[96];
    for (int use = 0; use < LS_MEMORY_USES; use++) {
        snprintf(path, sizeof path, "memory.devices.%s", ls_memory_use_name((ls_memory_use)use));
        assert_string_equal(ls_fields[LS_F_memory_devices_parameters + use].path, path);
        snprintf(path, sizeof path, "memory.devices.formula.%s",
                 ls_memory_use_name((ls_memory_use)use));
        assert_string_equal(ls_fields[LS_F_memory_devices_formula_parameters + use].path, path);
    }
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        snprintf(path, sizeof path, "waterfall.%s_ms", parts[p]);
        assert_string_equal(ls_fields[LS_F_waterfall_compute_ms + p].path, path);
        snprintf(path, sizeof path, "gap.%s_gap_ms", parts[p]);
        assert_string_equal(ls_fields[LS_F_gap_compute_gap_ms + p].path, path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_cases_cores_count),
        cmocka_unit_test(threads_counters_parse),
        cmocka_unit_test(others_are_what_is_left),
        cmocka_unit_test(what_is_not_counted_is_not_known),
        cmocka_unit_test(the_device_that_lost_most_counts),
        cmocka_unit_test(blocks_are_summed),
        cmocka_unit_test(what_took_most_is_named),
        cmocka_unit_test(fields_are_joined),
        cmocka_unit_test(ranks_are_joined),
        cmocka_unit_test(counted_fields_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
