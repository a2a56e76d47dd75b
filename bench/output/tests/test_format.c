/* SPDX-License-Identifier: MIT */
/*
 * Formats: the exact text of a full and a failed row in each. The rows contain awkward values: text
 * with quotes, commas, bars and line ends, reals that need 17 digits, more devices than fit a
 * column, nested arrays, and a field that no schema names. No tolerance.
 */
#include "bench/output/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char full_row[] =
    "{\"schema\":1,\"id\":\"20261121T051700Z-0011aabbccdd\",\"timestamp\":\"2026-11-21T05:17:00Z\","
    "\"command\":\"lockstep run --label \\\"a, b\\\"\",\"label\":\"a|b\\n\\u001b[2J\","
    "\"case\":{\"model\":\"mlp:784-1024-1024-1024-10\",\"strategy\":\"single\","
    "\"devices\":[\"cpu:0\",\"cpu:1\"],\"batch_global\":256,\"batch_per_device\":[128,128],"
    "\"steps\":100,\"lr\":0.1,\"shuffle\":true},"
    "\"result\":{\"status\":\"ok\"},"
    "\"time\":{\"step_ms\":{\"median\":0.6823,\"p90\":12.0,\"ci95\":[0.1,0.30000000000000004],"
    "\"n\":100},\"samples_per_s\":374890.5,\"mfu\":0.8412},"
    "\"train\":{\"loss_last\":1e-07,\"losses\":[0.5,null,1e+20],\"accuracy\":0.85,"
    "\"target\":{\"accuracy\":0.85}},"
    "\"equivalence\":{\"grade\":\"bounded\",\"pass\":true},"
    "\"memory\":{\"devices\":[{\"device\":\"cpu:0\",\"parameters\":8,\"peak\":8,\"formula\":{"
    "\"parameters\":8}"
    ","
    "\"extra\":1},{\"device\":\"cpu:1\",\"parameters\":9,\"peak\":10,\"formula\":{\"parameters\":9}"
    "}]},"
    "\"provenance\":{\"libraries\":{\"zlib\":\"1.2\"},\"kernels\":{\"gemm\":\"dnnl\"},\"cores\":[["
    "0,1],[2]]},"
    "\"novel\":{\"x\":[1,2]}}";

static const char failed_row[] =
    "{\"schema\":1,\"id\":\"f\",\"case\":{\"model\":\"poly\",\"strategy\":\"model-parallel\","
    "\"devices\":[\"cpu:0\",\"cpu:1\",\"cpu:2\"],\"steps\":100},"
    "\"result\":{\"status\":\"failed\",\"reason\":\"loss is NaN: step 7: a | b; a smaller --lr\"},"
    "\"equivalence\":{\"grade\":\"bounded\",\"pass\":false}}";

static const char micro_row[] =
    "{\"schema\":1,\"id\":\"m\",\"micro\":{\"op\":\"copy\",\"size_bytes\":4096,\"time_us\":0.5,"
    "\"algbw_gbs\":8.192,\"roof_share\":0.5,\"wrong\":0,\"kernel\":\"memcpy\"}}";

/* Formats `count` rows given as JSON; owned by the caller. */
static char *written(const char *name, const char *const *rows, size_t count)
{
    const ls_format *format;
    ls_writer *writer;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_null(ls_format_find(name, &format));
    assert_null(ls_writer_open(format, stream, &writer));
    for (size_t i = 0; i < count; i++) {
        json_error_t error;
        json_t *row = json_loads(rows[i], 0, &error);
        if (!row)
            fail_msg("row %zu: %s", i, error.text);
        assert_null(ls_writer_row(writer, row));
        json_decref(row);
    }
    assert_null(ls_writer_close(writer));
    fclose(stream);
    return text;
}

static void assert_writes(const char *name, const char *const *rows, size_t count,
                          const char *expected)
{
    char *text = written(name, rows, count);
    if (strcmp(text, expected) != 0)
        fail_msg("%s wrote:\n%s\ninstead of:\n%s", name, text, expected);
    free(text);
}

static const char *const both[] = {full_row, failed_row};

static void table(void **state)
{
    (void)state;
    assert_writes(
        "table", both, 2,
        "batch 256, steps 100, lr 0.1, shuffle yes\n"
        "model                     strategy       devices step ms     ± samples/s status\n"
        "mlp:784-1024-1024-1024-10 single         2 cpu    0.6823 14.7%    374890 ok\n"
        "poly                      model-parallel 3 cpu                           failed\n"
        "  loss is NaN: step 7: a | b; a smaller --lr\n"
        "no room for: loss, accuracy, gate\n");
    assert_writes("table", NULL, 0, "");
    const char *const mixed[] = {failed_row, micro_row, failed_row};
    char *text = written("table", mixed, 3);
    const char *first = strstr(text, "gate   status\n"), *micro = strstr(text, "\nop  ");
    assert_true(first && micro && first < micro);
    assert_non_null(strstr(micro, "gate   status\n")); /* repeated when the kind changes back */
    assert_non_null(strstr(micro,
                           "\nop              size  time us algbw GB/s   roof  host us wrong "
                           "kernel\n"
                           "copy            4096   0.5000      8.192  50.0%              0 "
                           "memcpy\n"));
    free(text);
}

static void markdown(void **state)
{
    (void)state;
    assert_writes(
        "md", both, 2,
        "| label | model | strategy | devices | batch | steps | step ms | ± | samples/s | loss | "
        "accuracy | gate | status | reason |\n"
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|---|\n"
        "| a\\|b\\\\n\\\\x1b\\[2J | mlp:784-1024-1024-1024-10 | single | 2 cpu | 256 | 100 | "
        "0.6823 | 14.7% | "
        "374890 | "
        "1.000e-07 | 0.8500 | bounded | ok | |\n"
        "| | poly | model-parallel | 3 cpu | | 100 | | | | | | failed | failed | loss is NaN: step "
        "7: a "
        "\\| b; a smaller --lr |\n");
    assert_writes("md", NULL, 0, "");
}

/* Fields in the order of the row, shortest reals: the text from which the row was parsed. */
static void json_lines(void **state)
{
    (void)state;
    char expected[sizeof full_row + sizeof failed_row + 16];
    snprintf(expected, sizeof expected, "%s\n%s\n", full_row, failed_row);
    assert_writes("jsonl", both, 2, expected);
    assert_writes("jsonl", NULL, 0, "");
}

static void json_array_of_rows(void **state)
{
    (void)state;
    const char *const rows[] = {failed_row, micro_row};
    char expected[sizeof failed_row + sizeof micro_row + 16];
    snprintf(expected, sizeof expected, "[\n%s,\n%s\n]\n", failed_row, micro_row);
    assert_writes("json", rows, 2, expected);
    assert_writes("json", NULL, 0, "[]\n");
}

/* Counts the fields of the line at `text`, respecting quotes; *end is after its line end. */
static size_t count_fields(const char *text, const char **end)
{
    size_t fields = 1;
    bool quoted = false;
    for (; *text && (quoted || *text != '\n'); text++) {
        quoted = quoted != (*text == '"');
        fields += !quoted && *text == ',';
    }
    *end = *text ? text + 1 : text;
    return fields;
}

static const char *next_row(const char *row)
{
    const char *next;
    count_fields(row, &next);
    return next;
}

/* The end of the field at `text`. */
static const char *field_end(const char *text)
{
    bool quoted = false;
    for (; *text && (quoted || (*text != '\n' && *text != ',')); text++)
        quoted = quoted != (*text == '"');
    return text;
}

/* Asserts that the row has this text in the named column. */
static void assert_field(const char *header, const char *row, const char *name, const char *want)
{
    for (;;) {
        const char *end = field_end(header), *row_end = field_end(row);
        if ((size_t)(end - header) == strlen(name) && memcmp(header, name, strlen(name)) == 0) {
            if ((size_t)(row_end - row) != strlen(want) || memcmp(row, want, strlen(want)) != 0)
                fail_msg("%s is %.*s, not %s", name, (int)(row_end - row), row, want);
            return;
        }
        if (*end != ',')
            fail_msg("there is no column %s", name);
        header = end + 1;
        row = row_end + 1;
    }
}

static void csv(void **state)
{
    (void)state;
    char *text = written("csv", both, 2), *header = written("csv", NULL, 0);
    const char *line = strchr(text, '\n') + 1, *next;
    assert_int_equal(strncmp(text, header, strlen(header)), 0);
    assert_int_equal(strncmp(text, "schema,id,timestamp,command,label,case.model,case.data,", 55),
                     0);
    size_t columns = count_fields(text, &next);
    assert_ptr_equal(next, line);
    assert_int_equal(count_fields(line, &next), columns);
    assert_int_equal(count_fields(next, &next), columns);
    assert_int_equal(*next, 0);
    static const char *const values[][3] = {
        /* column, in the first row, in the second */
        {"schema", "1", "1"},
        {"command", "\"lockstep run --label \"\"a, b\"\"\"", ""},
        {"label", "\"a|b\n\\x1b[2J\"", ""},
        {"case.strategy", "single", "model-parallel"},
        {"case.devices", "cpu:0+cpu:1", "cpu:0+cpu:1+cpu:2"},
        {"case.batch_per_device", "128+128", ""},
        {"case.shuffle", "true", ""},
        {"case.bucket_bytes", "", ""},
        {"result.reason", "", "loss is NaN: step 7: a | b; a smaller --lr"},
        {"time.step_ms.ci95", "0.1+0.30000000000000004", ""},
        {"time.samples_per_s", "374890.5", ""},
        {"train.losses", "0.5++1e20", ""},
        {"train.target.accuracy", "0.85", ""},
        {"equivalence.pass", "true", "false"},
        {"memory.devices.device", "cpu:1", ""},
        {"memory.devices.parameters", "9", ""},
        {"memory.devices.formula.parameters", "9", ""},
        {"provenance.kernels.gemm", "dnnl", ""},
        {"provenance.libraries.zlib", "1.2", ""},
        {"provenance.cores", "\"0,1+2\"", ""},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_field(text, line, values[i][0], values[i][1]);
        assert_field(text, next_row(line), values[i][0], values[i][2]);
    }
    free(header);
    free(text);
}

static void reals_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } reals[] = {{0.1, "0.1"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {5.0, "5.0"},
                 {-0.0, "-0.0"},
                 {1e300, "1e+300"},
                 {5e-324, "4.94065645841247e-324"},
                 {1.0 / 3.0, "0.3333333333333333"},
                 {123456789012345680.0, "1.2345678901234568e+17"}};
    char text[32];
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        assert_string_equal(ls_real_text(reals[i].value, text), reals[i].text);
        assert_true(strtod(text, NULL) == reals[i].value);
    }
}

static void json_for_people(void **state)
{
    (void)state;
    json_t *value =
        json_pack("{s:i,s:{s:[i,i],s:{}},s:[{s:n}]}", "a", 1, "b", "c", 1, 2, "d", "e", "f");
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    ls_json_print(stream, value, 2);
    fclose(stream);
    assert_string_equal(text,
                        "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [1, 2],\n    \"d\": {}\n  },\n"
                        "  \"e\": [\n    {\n      \"f\": null\n    }\n  ]\n}");
    free(text);
    json_decref(value);
}

static void failures(void **state)
{
    (void)state;
    const ls_format *format;
    ls_writer *writer;
    ls_status status = ls_format_find("xml", &format);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_string_equal(ls_status_text(status),
                        "--format: xml: this is not a format; valid are: table, "
                        "jsonl, json, csv, md");
    ls_status_free(status);
    assert_null(ls_writer_close(NULL));
    FILE *full = fopen("/dev/full", "w");
    if (!full) {
        print_message("part skipped: no /dev/full here\n");
        return;
    }
    json_t *row = json_object();
    assert_null(ls_format_find("jsonl", &format));
    assert_null(ls_writer_open(format, full, &writer));
    status = ls_writer_row(writer, row);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "No space left on device"));
    ls_status_free(status);
    ls_status_free(ls_writer_close(writer));
    json_decref(row);
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(markdown),
        cmocka_unit_test(json_lines),
        cmocka_unit_test(json_array_of_rows),
        cmocka_unit_test(csv),
        cmocka_unit_test(reals_are_short_and_exact),
        cmocka_unit_test(json_for_people),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
