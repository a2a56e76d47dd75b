/* SPDX-License-Identifier: MIT */
/* Questions in SQL to rows in memory, to a file, and to chosen rows. */
#include "bench/output/results_db.h"
#include "bench/rows/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_ok(ls_status status)
{
    if (status)
        fail_msg("%s", ls_status_text(status));
}

static const char rows_file[] = LS_SOURCE_DIR "/results/training.jsonl";

/* The first row's columns, joined by '|'. */
static const char *answer(ls_results *results, const char *sql)
{
    static char text[256];
    sqlite3_stmt *statement;
    bool more = false;
    *text = 0;
    assert_ok(ls_results_prepare(results, sql, &statement));
    assert_ok(ls_results_step(results, statement, &more));
    for (int i = 0; more && i < sqlite3_column_count(statement); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "|" : "",
                 ls_results_text(statement, i));
    sqlite3_finalize(statement);
    return text;
}

/* Also where a transaction is undone. */
static void the_view_outlives_a_transaction(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    for (int i = 0; i < 2; i++) {
        assert_ok(ls_results_begin(results));
        assert_string_equal(answer(results, "SELECT count(number) FROM v"), "0");
        ls_status_free(ls_results_end(results, ls_fail(LS_CODE_CHECK, "test", NULL, "undone")));
        assert_string_equal(answer(results, "SELECT count(number) FROM s"), "0");
    }
    ls_results_close(results);
}

/* Whether rows with two values of this field of `case` are of one case. */
static bool leaves_out(ls_results *results, const char *field, unsigned but)
{
    char sql[192];
    snprintf(sql, sizeof sql,
             "SELECT case_key(json_object('case', json_object('%s', 1)), %u) ="
             " case_key(json_object('case', json_object('%s', 2)), %u)",
             field, but, field, but);
    return strcmp(answer(results, sql), "1") == 0;
}

static void what_comparisons_leave_out(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    assert_false(leaves_out(results, "model", LS_BUT_REPEATS));
    assert_true(leaves_out(results, "seed", LS_BUT_REPEATS));
    assert_false(leaves_out(results, "seed", LS_BUT_BLOCKS));
    assert_true(leaves_out(results, "blocks", LS_BUT_BLOCKS));
    assert_false(leaves_out(results, "blocks", LS_BUT_STEPS));
    assert_true(leaves_out(results, "steps", LS_BUT_STEPS));
    assert_false(leaves_out(results, "steps", LS_BUT_BLOCKS));
    assert_true(leaves_out(results, "devices_asked", 0));
    assert_false(leaves_out(results, "unheard_of", LS_BUT_REPEATS));
    ls_results_close(results);
}

/* An option stays next to its value, unless both are wider than a line. */
static void words_are_wrapped(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    assert_string_equal(answer(results, "SELECT replace(replace(wrapped(replace(hex(zeroblob(36)),"
                                        " '00', 'ab') || ' --to ab', 0, 2, 79), char(10), '/'),"
                                        " replace(hex(zeroblob(36)), '00', 'ab'), 'W')"),
                        "  W/  --to ab/");
    assert_string_equal(answer(results, "SELECT replace(replace(wrapped('--to ' || replace("
                                        "hex(zeroblob(38)), '00', 'ab'), 0, 2, 79), char(10), '/'),"
                                        " replace(hex(zeroblob(38)), '00', 'ab'), 'W')"),
                        "  --to/  W/");
    ls_results_close(results);
}

/* Functions that read whole rows take what a damaged file may have for one. */
static void damaged_rows_say_nothing(void **state)
{
    (void)state;
    static const char *const damaged[] = {"",
                                          "{",
                                          "{ ",
                                          "{\"",
                                          "{\"label\"",
                                          "{\"label\" ",
                                          "{\"label\":",
                                          "{\"case\":{\"a\":\"\\",
                                          "[1]",
                                          "1",
                                          "{\"label\":\"a,b:c}\",\"case\"",
                                          "{,,}",
                                          "{\"result\":{\"status\":\"failed\"]}"};
    ls_results *results;
    sqlite3_stmt *insert;
    bool more;
    assert_ok(ls_results_memory(&results));
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_ok(
            ls_results_prepare(results, "INSERT INTO rows (id, row) VALUES (?1, ?1)", &insert));
        sqlite3_bind_text(insert, 1, damaged[i], -1, SQLITE_STATIC);
        assert_ok(ls_results_step(results, insert, &more));
        sqlite3_finalize(insert);
    }
    assert_string_equal(answer(results, "SELECT count(*), count(pace),"
                                        " count(DISTINCT case_key(row, 0, 4080)) > 0 FROM v"),
                        "13|0|1");
    ls_results_close(results);
}

static void rows_in_memory_answer(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    assert_string_equal(answer(results, "SELECT count(*) FROM v"), "0");
    assert_ok(ls_results_load(results, "test", rows_file, (size_t[2]){0}));
    const int rows = atoi(answer(results, "SELECT count(*) FROM v"));
    assert_true(rows > 5);
    assert_ok(ls_results_load(results, "test", rows_file, (size_t[2]){0})); /* all known */
    assert_int_equal(atoi(answer(results, "SELECT count(*) FROM v")), rows);
    assert_int_equal(atoi(answer(results, "SELECT count(*) FROM v WHERE is_bad OR is_predicted")),
                     0);
    assert_string_equal(answer(results,
                               "SELECT sum(pace IS NULL), sum(NOT (pace_low <= pace AND pace <= "
                               "pace_high)) FROM v WHERE \"time.step_ms.ci95\" IS NOT NULL"),
                        "0|0");
    json_auto_t *values = json_pack("{s:f,s:i,s:s,s:[f]}", "a", 0.5, "b", 2, "c", "x", "d", 0.25);
    json_auto_t *found = json_array();
    assert_ok(ls_results_query(results,
                               "SELECT :a * :b AS a, :c AS c, :d ->> 0 AS d, median(:a) AS m",
                               values, found)); /* parameters have their types */
    json_auto_t *wanted = json_pack("[{s:f,s:s,s:f,s:f}]", "a", 1.0, "c", "x", "d", 0.25, "m", 0.5);
    assert_true(json_equal(found, wanted));
    assert_string_equal(answer(results, "SELECT count(*) FROM s"), "0");
    assert_string_equal(
        answer(results, "INSERT INTO chosen SELECT NULL, number FROM v WHERE devices = 1"), "");
    assert_string_equal(answer(results, "SELECT min(devices), max(devices), min(place) FROM s"),
                        "1|1|1");
    ls_results_close(results);
}

static void functions_write_values_as_csv_does(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    assert_string_equal(answer(results, "SELECT number_text(0.1), number_text(3), number_text('x'),"
                                        " number_text(NULL) IS NULL, number_text(2.0)"),
                        "0.1|3|x|1|2.0");
    assert_string_equal(answer(results,
                               "SELECT list_text('[1,[2,3],1e300,null]'),"
                               " list_text('{\"A\":\"b\"}'), list_text('[]'), list_text(1.5)"),
                        "1+2,3+1e300+|A=b||1.5");
    assert_string_equal(answer(results, "SELECT optimizer_shown('adam:beta1=0.9'),"
                                        " 'cpu:2' < 'cpu:10' COLLATE NUMBERED"),
                        "adam|1");
    assert_string_equal(answer(results, "SELECT ratio(3, 2.9, 3.1, 2, 1.9, 2.1) ->> 'value',"
                                        " ratio(3, 2.9, 3.1, 2, 1.9, 2.1) ->> 'verdict',"
                                        " ratio(2, NULL, NULL, 2, 1.9, 2.1) ->> 'verdict',"
                                        " key_path('batch'), key_path('memory.formula') IS NULL,"
                                        " heading('case.batch_global')"),
                        "1.5|slower|cannot tell|case.batch_global|1|batch");
    ls_results_close(results);
}

static void cases_have_keys(void **state)
{
    (void)state;
    ls_results *results;
    assert_ok(ls_results_memory(&results));
    const char *rows[] = {"{\"id\":\"a\",\"case\":{\"model\":\"m\",\"lr\":1,\"seed\":1}}",
                          "{\"id\":\"b\",\"case\":{\"seed\":2,\"lr\":1.0,\"model\":\"m\"}}"};
    for (size_t i = 0; i < 2; i++) {
        json_t *row = json_loads(rows[i], 0, NULL);
        assert_ok(ls_results_append(results, row));
        json_decref(row);
    }
    assert_string_equal(answer(results, "SELECT count(DISTINCT case_key(row, 0)),"
                                        " count(DISTINCT case_key(row, 4)) FROM v"),
                        "2|1"); /* LS_BUT_REPEATS leaves out the seed */
    ls_results_close(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_view_outlives_a_transaction),
        cmocka_unit_test(what_comparisons_leave_out),
        cmocka_unit_test(words_are_wrapped),
        cmocka_unit_test(damaged_rows_say_nothing),
        cmocka_unit_test(rows_in_memory_answer),
        cmocka_unit_test(functions_write_values_as_csv_does),
        cmocka_unit_test(cases_have_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
