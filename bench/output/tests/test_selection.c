/* SPDX-License-Identifier: MIT */
/* Keys, conditions and orders on rows with known answers; which rows stand beside each other; level
 * changes on series with known answers, and how often pure noise seems to have one. */
#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/output/selection.h"
#include "bench/statistics/statistics.h"
#include "common/base/random/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char text[] =
    "{\"id\":\"a\",\"timestamp\":\"2026-11-20T10:00:00Z\",\"label\":\"x,y\","
    "\"case\":{\"strategy\":\"mirrored\",\"devices\":[\"cpu:0\",\"cpu:1\"],\"lr\":0.1,"
    "\"optimizer\":\"adam:beta1=0.8,beta2=0.999,eps=1e-08\",\"shuffle\":true},\"time\":{\"step_"
    "ms\":{\"median\":2.5,\"n\":20}},"
    "\"memory\":{\"devices\":[{\"peak\":7},{\"peak\":9}]},"
    "\"device_load\":[{\"busy_ms\":0.5},{\"busy_ms\":2.0}]}";

/* ---- Keys ----------------------------------------------------------------------------------- */

static void keys(void **state)
{
    (void)state;
    static const char *const found[][2] = {{"case.strategy", "case.strategy"},
                                           {"strategy", "case.strategy"},
                                           {"median", "time.step_ms.median"},
                                           {"id", "id"},
                                           {"accuracy", "train.accuracy"},
                                           {"messages_sent", "traffic.messages_sent"},
                                           {"commit", "provenance.commit"},
                                           {"zlib", "provenance.libraries.zlib"},
                                           {"ps_mode", "case.ps_mode"},
                                           {"devices", "case.devices"},
                                           {"train.target.loss", "train.target.loss"},
                                           {"steps", "case.steps"},
                                           {"step_ms.median", "time.step_ms.median"},
                                           {"batch", "case.batch_global"},
                                           {"bucket-bytes", "case.bucket_bytes"},
                                           {"eff", "time.efficiency"},
                                           {"gate", "equivalence.grade"},
                                           {"size", "micro.size_bytes"},
                                           {"algbw GB/s", "micro.algbw_gbs"},
                                           {"GB/s", "micro.algbw_gbs"},
                                           {"busbw", "micro.busbw_gbs"},
                                           {"time", "timestamp"},
                                           {"what", "peer.what"}};
    const char *key;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        assert_null(ls_row_key_find("--sort", found[i][0], strlen(found[i][0]), &key));
        assert_string_equal(key, found[i][1]);
    }
    static const char *const refused[][3] = {
        {"peak", "memory.devices.peak", "memory.devices.formula.peak"},
        {"stratgy", "unknown key", "case.strategy"},
        {"time.median", "unknown key", "time.step_ms.median"},
        {"case", "unknown key", "case."},
        {"", "unknown key", "case.model"},
        {"qqq", "unknown key", "case.model"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_status status = ls_row_key_find("--sort", refused[i][0], strlen(refused[i][0]), &key);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(strstr(ls_status_text(status), refused[i][1]));
        assert_non_null(strstr(ls_status_text(status), refused[i][2]));
        ls_status_free(status);
    }
}

/* ---- Filters -------------------------------------------------------------------------------- */

static const struct {
    const char *where;
    bool holds;
} conditions[] = {
    {"strategy=mirrored", true},
    {"strategy=mirror", false},
    {"strategy~irr", true},
    {"strategy~xyz", false},
    {"strategy!=single", true},
    {"strategy!=mirrored", false},
    {"median=2.50", true},
    {"median=2.51", false},
    {"median>2.4", true},
    {"median>2.5", false},
    {"median>=2.5", true},
    {"median<10", true}, /* compared as numbers, not as texts */
    {"median<2.5", false},
    {"median<=2.5", true},
    {"median!=2.5", false},
    {"lr=1e-1", true},
    {"shuffle=true", true},
    {"shuffle=yes", true},
    {"shuffle!=yes", false},
    {"shuffle=no", false},
    {"shuffle!=no", true},
    {"optimizer=adam:beta1=0.8", true},
    {"optimizer!=adam:beta1=0.8", false},
    {"optimizer=adam", false},
    {"optimizer=adam:beta1=0.8\\,beta2=0.999\\,eps=1e-08", true},
    {"optimizer~0.999", true},
    {"case.devices=cpu:0+cpu:1", true},
    {"memory.devices.peak=9", true},       /* of the fullest device */
    {"device_load.busy_ms=0.5+2.0", true}, /* of each device */
    {"timestamp>2026-11-19", true},
    {"timestamp<2026-11-20T09", false},
    {"label=x\\,y", true},
    {"strategy=mirrored,median<3", true},
    {"strategy=mirrored,median<2", false},
    {"strategy=single,median<3", false},
    {"accuracy>0", false}, /* absent */
    {"accuracy<1", false},
    {"accuracy=", true},
    {"accuracy!=", false},
    {"accuracy!=1", true},
    {"strategy!=", true},
    {"strategy>1", false}, /* a text is not a number */
};

/* Rows in memory. */
static ls_results *with_rows(const char *const *rows, size_t count)
{
    ls_results *results;
    assert_null(ls_results_memory(&results));
    for (size_t i = 0; i < count; i++) {
        json_auto_t *row = json_loads(rows[i], 0, NULL);
        assert_non_null(row);
        assert_null(ls_results_append(results, row));
    }
    return results;
}

/* The ids that are selected, in order, each one letter. */
static const char *selected(ls_results *results, const char *where, const char *last,
                            const char *sort)
{
    static char ids[16];
    ls_selection selection;
    json_auto_t *rows = json_array();
    size_t count;
    assert_null(ls_selection_open(where, NULL, last, sort, &selection));
    assert_null(ls_selection_choose(&selection, results, &count));
    assert_null(ls_results_chosen(results, ls_results_collect, rows));
    assert_int_equal(count, json_array_size(rows));
    ls_selection_close(&selection);
    *ids = 0;
    for (size_t i = 0; i < count; i++)
        strcat(ids, json_string_value(json_object_get(json_array_get(rows, i), "id")));
    return ids;
}

static void filters(void **state)
{
    (void)state;
    ls_results *results = with_rows((const char *const[]){text}, 1);
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (strcmp(selected(results, conditions[i].where, NULL, NULL),
                   conditions[i].holds ? "a" : "") != 0)
            fail_msg("%s: %d", conditions[i].where, !conditions[i].holds);
    ls_results_close(results);
    static const char *const refused[] = {
        "strategy", "=x", "strategy=a,", "a==", "median>", "peak=1", "strategy~", "nothing=1",
        "strategy!mlp", "id=a,,id=b", "label=x\\\\,y", /* ends in a backslash; then y */
        /* a text is no number, of whatever row */
        "median>fast", "batch=abc", "seed!=x", "ps_staleness<=x"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_selection selection;
        ls_status status = ls_selection_open(refused[i], NULL, NULL, NULL, &selection);
        if (ls_status_code(status) != LS_CODE_USAGE)
            fail_msg("%s is taken", refused[i]);
        ls_status_free(status);
        ls_selection_close(&selection);
    }
}

/* Numbers are compared exactly, as the double nearest to what was written or as 64 bits. */
static void numbers(void **state)
{
    (void)state;
    static const char *const in_order[] = {
        "-1e30",
        "-9223372036854775808",
        "-9223372036854775807",
        "-1.5",
        "-1",
        "-0.5",
        "0",
        "1e-3",
        "0.3",
        "0.30000000000000004",
        "1",
        "1.0000000000000002",
        "9007199254740992",
        "9007199254740993",
        "9007199254740994",
        "9223372036854775807",
        "9223372036854775808.0",
        "1e19",
    };
    static const char *const equal[][2] = {{"0.001", "1e-3"}, {"1", "1.0"},     {"0", "-0.0"},
                                           {"0.1", "1e-1"},   {"100", "1e2"},   {"-2", "-2.0"},
                                           {"0.3", ".3"},     {"1e19", "1E+19"}};
    const size_t count = sizeof in_order / sizeof *in_order;
    char row[96], where[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(row, sizeof row, "{\"id\":\"a\",\"case\":{\"lr\":%s}}", in_order[i]);
        ls_results *results = with_rows((const char *const[]){row}, 1);
        for (size_t k = 0; k < count; k++)
            for (int sign = -1; sign <= 1; sign++) {
                snprintf(where, sizeof where, "lr%c%s", "<=>"[sign + 1], in_order[k]);
                if ((*selected(results, where, NULL, NULL) != 0) != (sign == (i > k) - (i < k)))
                    fail_msg("%s of %s", where, in_order[i]);
            }
        ls_results_close(results);
    }
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        snprintf(row, sizeof row, "{\"id\":\"a\",\"case\":{\"lr\":%s}}", equal[i][0]);
        snprintf(where, sizeof where, "lr=%s", equal[i][1]);
        ls_results *results = with_rows((const char *const[]){row}, 1);
        assert_string_equal(selected(results, where, NULL, NULL), "a");
        ls_results_close(results);
    }
    json_auto_t *nested = json_loads("{\"a\":[1,{\"b\":2.0}]}", 0, NULL),
                *other = json_loads("{\"a\":[1.0,{\"b\":2}]}", 0, NULL),
                *more = json_loads("{\"a\":[1,{\"b\":2,\"c\":null}]}", 0, NULL);
    assert_true(ls_value_equal(nested, other));
    assert_false(ls_value_equal(nested, more));
    assert_false(ls_value_equal(more, nested));
}

/* Numbers, texts, rows without a value; equal ones by time. `--last` counts by time. */
static void orders(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{\"id\":\"a\",\"timestamp\":\"3\",\"case\":{\"lr\":10.0}}",
        "{\"id\":\"b\",\"timestamp\":\"6\",\"case\":{\"lr\":\"9\"}}",
        "{\"id\":\"c\",\"timestamp\":\"1\",\"case\":{}}",
        "{\"id\":\"d\",\"timestamp\":\"5\",\"case\":{\"lr\":2}}",
        "{\"id\":\"e\",\"timestamp\":\"2\",\"case\":{\"lr\":\"a\"}}",
        "{\"id\":\"f\",\"timestamp\":\"5\",\"case\":{\"lr\":2.0}}",
    };
    ls_results *results = with_rows(rows, sizeof rows / sizeof *rows);
    assert_string_equal(selected(results, NULL, NULL, NULL), "ceadfb");
    assert_string_equal(selected(results, NULL, "2", NULL), "fb");
    assert_string_equal(selected(results, NULL, NULL, "lr"), "dfabec");
    assert_string_equal(selected(results, NULL, NULL, "-lr"), "ebadfc");
    assert_string_equal(selected(results, NULL, "4", "lr"), "dfab");
    assert_string_equal(selected(results, "lr>1", "2", "-lr"), "df");
    ls_results_close(results);
}

static void since(void **state)
{
    (void)state;
    static const time_t now = 1795435200; /* 2026-11-23T12:00:00Z */
    static const char *const good[][2] = {
        {"2d", "2026-11-21T12:00:00Z"},         {"12h", "2026-11-23T00:00:00Z"},
        {"30min", "2026-11-23T11:30:00Z"},      {"1w", "2026-11-16T12:00:00Z"},
        {"2026-11-20", "2026-11-20T00:00:00Z"}, {"2026-11-20T08:30", "2026-11-20T08:30:00Z"},
        {"2024-02-29", "2024-02-29T00:00:00Z"}, {"2026-11-20T08:30:05Z", "2026-11-20T08:30:05Z"}};
    static const char *const bad[] = {"2",
                                      "d",
                                      "2y",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-11-2",
                                      "yesterday",
                                      "-2d",
                                      "2026-11-20T25:00",
                                      "20261120",
                                      "1.5d",
                                      "2026-11-20t08:30",
                                      "2026-11-20T08:30:05z"};
    char stamp[21];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_null(ls_since_read(good[i][0], now, stamp));
        assert_string_equal(stamp, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_status status = ls_since_read(bad[i], now, stamp);
        if (ls_status_code(status) != LS_CODE_USAGE)
            fail_msg("%s is taken", bad[i]);
        ls_status_free(status);
    }
}

/* ---- Beside ---------------------------------------------------------------------------------- */

static void same_but(void **state)
{
    (void)state;
    static const char *const lr[] = {"lr", NULL};
    static const struct {
        const char *other;
        bool same;
    } rows[] = {
        {"{'case':{'model':'mlp','lr':0.1}}", true},
        {"{'case':{'model':'mlp','lr':0.2}}", true},
        {"{'case':{'model':'cnn','lr':0.1}}", false},
        {"{'case':{'model':'mlp','lr':0.1},'peer':{'what':'PyTorch'}}", false},
        {"{'case':{'model':'mlp','lr':0.1},'result':{'warnings':['predicted']}}", false},
        {"{'case':{'model':'mlp','lr':0.1},'result':{'status':'failed'}}", false},
        {"{'case':{'model':'mlp','lr':0.1},'provenance':{'host':'there'}}", false},
    };
    json_auto_t *row = json_loads("{\"case\":{\"model\":\"mlp\",\"lr\":0.1},"
                                  "\"provenance\":{\"host\":\"here\"}}",
                                  0, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char quoted[160];
        snprintf(quoted, sizeof quoted, "%s", rows[i].other);
        for (char *c = quoted; (c = strchr(c, '\'')); *c = '"') {
        }
        json_auto_t *other = json_loads(quoted, 0, NULL);
        assert_non_null(other);
        if (ls_row_same_but(row, other, lr, false) != rows[i].same)
            fail_msg("%s: %d", rows[i].other, !rows[i].same);
    }
}

/* ---- Level changes -------------------------------------------------------------------------- */

enum { LONGEST = 40, SERIES = 400 };

/* "4,8": indices where levels begin. */
static void assert_changes(const double *values, size_t n, const char *wanted)
{
    bool changes[LONGEST];
    char found[160] = "";
    assert_null(ls_level_changes(values, n, changes));
    for (size_t i = 0; i < n; i++)
        if (changes[i])
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%zu",
                     *found ? "," : "", i);
    assert_string_equal(found, wanted);
}

static void known_series(void **state)
{
    (void)state;
    assert_changes((double[]){1, 1, 1, 2, 2, 2}, 6, "3");
    assert_changes((double[]){2, 2, 1, 1, 1}, 5, "2");
    assert_changes((double[]){1, 1, 1, 1, 1, 1, 1}, 7, "");
    assert_changes((double[]){1, 1.01, 0.99, 1, 2, 2.01, 1.99, 2, 1, 1.01, 1}, 11, "4,8");
    assert_changes((double[]){10, 10.1, 9.9, 10.05, 9.95, 10, 10.1, 9.9}, 8, "");
    assert_changes((double[]){1, 1, 1, 1, 1.001, 1.001, 1.001}, 7, ""); /* too small to count */
    assert_changes((double[]){1e9, 1e9, 1e9, 1e9, 1.02e9, 1.02e9, 1.02e9}, 7, "4");
    assert_changes((double[]){1, 5}, 2, "");
    assert_changes((double[]){1, 5, 5}, 3, "");
    assert_changes((double[]){0, 0, 0, 0, 0}, 5, "");
    assert_changes(NULL, 0, "");
}

/* The sum of four uniform numbers: nearly normal, with standard deviation 1. */
static double noise(size_t series, size_t place)
{
    const ls_random random = ls_random_stream(7, "noise");
    double sum = 0;
    for (size_t i = 0; i < 4; i++)
        sum += ls_random_uniform(random, (series * LONGEST + place) * 4 + i) - 0.5;
    return 1.7320508 * sum;
}

static size_t with_changes(size_t n, double step)
{
    size_t count = 0;
    for (size_t s = 0; s < SERIES; s++) {
        double values[LONGEST];
        bool changes[LONGEST], only = true;
        for (size_t i = 0; i < n; i++)
            values[i] = 100 + noise(s, i) + (i >= n / 2 ? step : 0);
        assert_null(ls_level_changes(values, n, changes));
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            any |= changes[i];
            only &= changes[i] == (i == n / 2);
        }
        count += step > 0 ? only : any;
    }
    return count;
}

static void noise_and_steps(void **state)
{
    (void)state;
    const size_t lengths[] = {4, 6, 10, 40};
    for (size_t i = 0; i < 4; i++)
        assert_true(with_changes(lengths[i], 0) <= SERIES * 6 / 100);
    assert_true(with_changes(10, 8) >= SERIES * 95 / 100);
    assert_true(with_changes(40, 5) >= SERIES * 95 / 100);
}

/* Predicted rows stand beside measured ones only where a condition speaks of them. */
static void predictions(void **state)
{
    (void)state;
    static const struct {
        const char *where;
        bool mixes;
    } cases[] = {{NULL, false},
                 {"strategy=mirrored", false},
                 {"prediction.engine=ports", true},
                 {"result.warnings~predicted", true}};
    json_auto_t *rows = json_loads(/* no ids are needed */
                                   "[{\"timestamp\":\"2\",\"case\":{\"strategy\":\"mirrored\"}},"
                                   " {\"timestamp\":\"3\",\"case\":{\"strategy\":\"mirrored\"},"
                                   "  "
                                   "\"prediction\":{\"engine\":\"ports\"},\"result\":{\"warnings\":"
                                   "[\"predicted\"]}},"
                                   " {\"timestamp\":\"1\",\"case\":{\"strategy\":\"mirrored\"}}]",
                                   0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_selection selection;
        ls_results *results;
        int64_t taken, first;
        size_t count;
        assert_null(ls_selection_open(cases[i].where, NULL, NULL, NULL, &selection));
        assert_int_equal(selection.predictions, cases[i].mixes);
        assert_null(ls_results_of_rows(rows, &results));
        assert_null(ls_selection_choose(&selection, results, &count));
        assert_null(ls_selection_unmix(&selection, results));
        assert_null(ls_results_ask(results, "SELECT count(*) FROM chosen", &taken));
        assert_null(ls_results_ask(results, "SELECT number FROM chosen ORDER BY place", &first));
        assert_int_equal(taken, cases[i].mixes ? 1 : 2);
        assert_int_equal(first, cases[i].mixes ? 2 : 3); /* by time */
        ls_results_close(results);
        ls_selection_close(&selection);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),         cmocka_unit_test(predictions),
        cmocka_unit_test(filters),      cmocka_unit_test(numbers),
        cmocka_unit_test(since),        cmocka_unit_test(orders),
        cmocka_unit_test(known_series), cmocka_unit_test(noise_and_steps),
        cmocka_unit_test(same_but),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
