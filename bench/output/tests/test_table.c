/* SPDX-License-Identifier: MIT */
/*
 * The table: the head above it, its columns, what is dropped if a line is too long, groups. Leaves
 * out how a cell is written (test_format.c), and who is fastest (test_ranks.c).
 */
#include "bench/output/row_keys.h"
#include "bench/output/tests/made_table.h"

static void assert_table(const char *text, const char *expected)
{
    if (strcmp(text, expected) != 0)
        fail_msg("the table is:\n%s\ninstead of:\n%s", text, expected);
}

/* Shared values are printed above, different ones in columns; dependent fields in none. */
static void table_shares(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("mirrored", 2, 1.0, 0.02, "ok")};
    json_object_set_new(json_object_get(rows[1], "result"), "warnings", json_pack("[s]", "noisy"));
    json_object_set_new(json_object_get(rows[1], "time"), "speedup", json_real(2.0));
    json_object_set_new(json_object_get(rows[1], "time"), "efficiency", json_real(0.9951));
    char *text = table_of(rows, 2, 120, 2, NULL);
    assert_table(text,
                 "model mlp, data synthetic, batch 256\n"
                 "strategy devices bucket-bytes step ms     ± samples/s speed-up  eff    loss "
                 "accuracy gate    status\n"
                 "single   1 cpu            101   2.000  1.0%    128000                0.5000   "
                 "0.7500 bounded ok\n"
                 "mirrored 2 cpu            102   1.000  2.0%    256000     2.00 100%  0.5000   "
                 "0.7500 bounded ok, noisy\n");
    free(text);
}

/* Longest line, in characters. */
static int longest(const char *text)
{
    int most = 0, now = 0;
    for (; *text; text++) {
        now = *text == '\n' ? 0 : now + (((unsigned char)*text & 0xc0) != 0x80);
        most = now > most ? now : most;
    }
    return most;
}

/* At any width no line is longer. First dropped is the option that follows from others, then loss,
 * accuracy, gate; status and step always remain. */
static void table_fits(void **state)
{
    (void)state;
    static const struct {
        int width;
        const char *has, *lacks;
    } steps[] = {{83, "bucket-bytes", "eff"}, {82, "loss", "bucket-bytes"},
                 {69, "accuracy", "loss"},    {62, "gate", "accuracy"},
                 {53, "samples/s", "gate"},   {45, "±", "samples/s"},
                 {35, "devices", "±"}};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                          made_row("mirrored", 2, 1.0, 0.02, "ok")};
        char *text = table_of(rows, 2, steps[s].width, 2, NULL);
        char *head = strstr(text, "\nstrategy");
        assert_non_null(head);
        char *line = strndup(head + 1, strcspn(head + 1, "\n"));
        if (!strstr(line, steps[s].has) || strstr(line, steps[s].lacks) ||
            !strstr(line, "step ms") || !strstr(line, "status"))
            fail_msg("at %d characters the columns are: %s", steps[s].width, line);
        free(line);
        free(text);
    }
    for (int width = 24; width < 140; width++) {
        json_t *rows[] = {made_row("model-parallel", 3, 2.0, 0.01, "failed"),
                          made_row("mirrored", 12, 1.0, 0.02, "ok")};
        json_object_set_new(json_object_get(rows[0], "result"), "reason",
                            json_string("a reason of many words that does not fit a line, "
                                        "with_one_word_that_is_longer_than_any_line_has_room_for"));
        json_object_set_new(json_object_get(rows[1], "result"), "warnings",
                            json_pack("[s,s,s]", "oversubscribed", "noisy", "skewed"));
        char *text = table_of(rows, 2, width, 2, NULL);
        if (longest(text) > width)
            fail_msg("at %d characters a line has %d:\n%s", width, longest(text), text);
        free(text);
    }
}

/* The status is truncated first, before step and interval; a warning must be a text. */
static void the_status_is_cut(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("mirrored", 2, 1.0, 0.02, "ok")};
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(json_object_get(rows[i], "result"), "warnings",
                            json_pack("[s,i,s,s]", i ? "oversubscribed" : "oversubscriber", 7,
                                      i ? "autocorrelated" : "autocorrelates", "short"));
    char *text = table_of(rows, 2, 60, 2, NULL);
    assert_table(text, "model mlp, data synthetic, batch 256\n"
                       "strategy devices step ms    ± status\n"
                       "single   1 cpu     2.000 1.0% ok, oversubscriber, autocorr..\n"
                       "mirrored 2 cpu     1.000 2.0% ok, oversubscribed, autocorr..\n"
                       "each of: short\n"
                       "no room for: bucket-bytes, samples/s, loss, accuracy, gate\n");
    free(text);
}

/* What all rows warn of stands once below them where lines are too long; what is left is whole. */
static void shared_warnings_are_said_once(void **state)
{
    (void)state;
    for (int width = 60; width <= 140; width += 80) {
        json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                          made_row("mirrored", 2, 1.0, 0.02, "ok")};
        json_object_set_new(json_object_get(rows[0], "result"), "warnings",
                            json_pack("[s,s,s]", "oversubscribed", "short", "skewed"));
        json_object_set_new(json_object_get(rows[1], "result"), "warnings",
                            json_pack("[s,s,s,s]", "oversubscribed", "noisy", "skewed", "shorter"));
        char *text = table_of(rows, 2, width, 2, NULL);
        if (width > 100)
            assert_non_null(strstr(text, " ok, noisy, oversubscribed, skewed, shorter\n"));
        else
            assert_table(text, "model mlp, data synthetic, batch 256\n"
                               "strategy devices step ms     ± samples/s status\n"
                               "single   1 cpu     2.000  1.0%    128000 ok, short\n"
                               "mirrored 2 cpu     1.000  2.0%    256000 ok, noisy, shorter\n"
                               "each of: oversubscribed, skewed\n"
                               "no room for: bucket-bytes, loss, accuracy, gate\n");
        free(text);
    }
}

/* Who asked for a baseline sees the speed-up and the efficiency, and not which group it was. */
static void speedup_stays(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("pipeline", 2, 2.0, 0.01, "ok"),
                      made_row("mirrored", 2, 1.0, 0.02, "ok")};
    for (size_t i = 0; i < 2; i++) {
        json_object_update_new(
            json_object_get(rows[i], "time"),
            json_pack("{s:f,s:f,s:i}", "speedup", 1.5, "efficiency", 0.75, "group", (int)i));
        json_object_set_new(rows[i], "pipeline",
                            json_pack("{s:f,s:f}", "bubble", 0.2, "bubble_equal", 0.25));
    }
    char *text = table_of(rows, 2, 60, 2, NULL);
    if (!strstr(text, "\nstrategy step ms     ± speed-up  eff idle if equal status\n"))
        fail_msg("%s", text);
    free(text);
}

/* Groups share one header, since the varying options are known before the first row. */
static void table_groups(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("single", 1, 3.0, 0.01, "ok"),
                      made_row("towers", 1, 2.1, 0.01, "ok")};
    char *text = table_of(rows, 3, 80, 1, NULL);
    assert_non_null(strstr(text, "strategy step ms"));
    assert_null(strstr(strstr(text, "strategy step ms") + 1, "strategy step ms"));
    const char *second = strstr(text, "3.000");
    assert_true(strstr(text, "2.000") < second && second < strstr(text, "2.100"));
    free(text);
}

/* Half of an interval stays as wide as its column. */
static void wide_intervals_are_words(void **state)
{
    (void)state;
    static const struct {
        double half;
        const char *cell;
    } cells[] = {{0.999, " 99.9% "}, {0.9996, "  100% "}, {402, " >100% "}};
    for (size_t i = 0; i < 3; i++) {
        json_t *rows[] = {made_row("single", 1, 2.0, cells[i].half, "ok")};
        json_array_set_new(json_object_get(step_of(rows[0]), "ci95"), 0, json_real(1e-3));
        json_array_set_new(json_object_get(step_of(rows[0]), "ci95"), 1,
                           json_real(1e-3 + 4 * cells[i].half));
        char *text = table_of(rows, 1, 100, 1, NULL);
        if (!strstr(text, cells[i].cell))
            fail_msg("half an interval of %g is not '%s':\n%s", cells[i].half, cells[i].cell, text);
        free(text);
    }
}

/* An option that some rows lack gets a column only if cases differ in nothing else. */
static void table_lacks(void **state)
{
    (void)state;
    json_t *alike[] = {made_row("mirrored", 1, 2.0, 0.01, "ok"),
                       made_row("mirrored", 1, 1.0, 0.01, "ok")};
    json_object_set_new(json_object_get(alike[1], "case"), "link", json_string("latency=1us"));
    char *text = table_of(alike, 2, 80, 2, NULL);
    assert_non_null(strstr(text, "\nlink        step ms"));
    free(text);
    json_t *other[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                       made_row("mirrored", 1, 1.0, 0.01, "ok")};
    json_object_set_new(json_object_get(other[1], "case"), "link", json_string("latency=1us"));
    text = table_of(other, 2, 120, 2, NULL);
    assert_non_null(strstr(text, ", link latency=1us"));
    assert_non_null(strstr(text, "\nstrategy step ms"));
    free(text);
}

/* At 80 columns, long values that differ at their end still differ. */
static void long_values_still_differ(void **state)
{
    (void)state;
    json_t *rows[3];
    char link[64];
    for (int i = 0; i < 3; i++) {
        snprintf(link, sizeof link, "latency=200us,bandwidth=%dGB/s", i + 1);
        rows[i] = made_row("mirrored", 2, 2.0, 0.01, "ok");
        json_object_set_new(json_object_get(rows[i], "case"), "link", json_string(link));
    }
    char *text = table_of(rows, 3, 80, 3, NULL);
    assert_non_null(strstr(text, "\nlatency=200u..dwidth=1GB/s "));
    assert_non_null(strstr(text, "\nlatency=200u..dwidth=3GB/s "));
    free(text);
}

/* At 80 columns a swept option stays that others tell, too; what was derived goes first. */
static void swept_options_stay(void **state)
{
    (void)state;
    json_t *rows[5];
    for (int i = 0; i < 5; i++) {
        const int stage = i % 3;
        rows[i] = made_row("hybrid", 4, 2.0, 0.01, "ok");
        json_t *group = json_object_get(rows[i], "case");
        json_object_set_new(group, "hybrid_inner",
                            json_string(i < 3 ? "tensor-parallel" : "pipeline"));
        json_object_set_new(group, "hybrid_outer", json_string(stage ? "zero" : "mirrored"));
        if (stage)
            json_object_set_new(group, "zero_stage", json_integer(stage));
        if (i < 3)
            json_object_set_new(group, "micro_splits", json_integer(2));
    }
    swept = json_pack("{s:b,s:b,s:b}", "hybrid_inner", 1, "hybrid_outer", 1, "zero_stage", 1);
    char *text = table_of(rows, 5, 80, 5, NULL);
    assert_non_null(strstr(text, "\nhybrid-inner    hybrid-outer zero-stage step ms"));
    free(text);
}

/* An option that tells cases apart goes after the rate, even beside another that tells them apart,
 * too; one that follows from others goes before it. */
static void options_stay_longer_than_the_rate(void **state)
{
    (void)state;
    json_t *rows[2];
    for (int i = 0; i < 2; i++) {
        rows[i] = made_row("mirrored", 2, 2.0, 0.01, "ok");
        json_object_update_new(json_object_get(rows[i], "case"),
                               json_pack("{s:s,s:f,s:i}", "optimizer", i ? "adam" : "sgd", "lr",
                                         i ? 0.001 : 0.1, "bucket_bytes", i));
    }
    char *text = table_of(rows, 2, 40, 2, NULL);
    if (!strstr(text, "\noptimizer    lr step ms     ± status\n"))
        fail_msg("%s", text);
    free(text);
}

/* Where one row's steps are not alike, all rows of a table have the rate of all steps, also where
 * nothing is ranked; rows of older versions, which lack it, keep theirs. */
static void a_table_has_one_rate(void **state)
{
    (void)state;
    static const ls_column listed[] = {LS_COLUMN(time_samples_per_s, 9, 0)};
    static const ls_columns columns = {.column = listed, .count = 1};
    for (int known = 0; known < 2; known++) {
        json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                          made_row("ps", 1, 1.0, 0.01, "ok")};
        json_object_set_new(json_object_get(rows[1], "case"), "ps_mode", json_string("async"));
        for (int i = 0; i < 2 && known; i++)
            json_object_set_new(json_object_get(rows[i], "time"), "samples_per_s_mean",
                                json_real(100e3 + i));
        char *text = table_of(rows, 2, 100, 2, &columns);
        assert_non_null(strstr(text, known ? "\nstrategy mean samples/s\nsingle           100000\n"
                                             "ps               100001\n"
                                           : "\nstrategy samples/s\nsingle      128000\n"));
        free(text);
    }
}

/* What was compared, in words; the drift is labelled as not judged. */
static void table_compares(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("towers", 1, 2.0, 0.01, "ok"), made_row("ps", 1, 1.0, 0.01, "ok"),
                      made_row("single", 1, 1.0, 0.01, "ok")};
    for (size_t i = 0; i < 3; i++)
        json_object_update_new(json_object_get(rows[i], "equivalence"),
                               json_pack("{s:i,s:f,s:f,s:f}", "steps", 12, "max_rel", 0.52,
                                         "gradient_rel", 1e-7, "bound", 0.02));
    char *text = table_of(rows, 3, 200, 3, &ls_verify_columns);
    assert_non_null(strstr(text, "compared  gradient     drift"));
    assert_non_null(strstr(text, "\ntowers, ps, bounded: after each of 12 steps the bits of an "
                                 "oracle"));
    assert_non_null(strstr(text, "\nsingle, bounded: after each of 12 steps the bits of a second, "
                                 "fresh run"));
    assert_non_null(strstr(text, "\ndrift: distance from single's parameters; for information: "));
    free(text);
}

static void columns_are_chosen(void **state)
{
    (void)state;
    ls_chosen chosen;
    static const char *const refused[][2] = {
        {"nonsuch", "--columns: nonsuch: unknown key"},
        {"strategy,,median", "--columns: '': unknown key"},
        {"peak", "--columns: peak: several keys end like this; write the whole key, one of "
                 "memory.devices.peak, "}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_status status = ls_chosen_read(refused[i][0], &chosen);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(strstr(ls_status_text(status), refused[i][1]));
        ls_status_free(status);
    }
    assert_null(ls_chosen_read(NULL, &chosen));
    assert_int_equal(chosen.columns.count, 0);
    assert_null(ls_chosen_read("ci95,moved_bytes,host", &chosen)); /* also of provenance, lists */
    assert_string_equal(chosen.columns.column[0].path, "time.step_ms.ci95");
    assert_string_equal(chosen.columns.column[1].path, "elastic.moved_bytes");
    assert_string_equal(chosen.columns.column[2].path, "provenance.host");
    assert_null(ls_chosen_read("loss_last,strategy,time.step_ms.median", &chosen));
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("towers", 1, 1.0 / 3, 0.01, "ok")};
    char *text = table_of(rows, 2, 80, 2, &chosen.columns);
    assert_non_null(strstr(text, "\nloss_last strategy time.step_ms.median\n"
                                 "      0.5 single                     2\n"
                                 "      0.5 towers              0.333333\n"));
    free(text);
    /* a share is one, also where it is asked for by name */
    assert_null(ls_chosen_read("efficiency,mfu,idle,accuracy,equivalence.bound", &chosen));
    json_t *shares = json_pack("{s:{s:f,s:f},s:{s:f},s:{s:f},s:{s:f}}", "time", "efficiency", 0.314,
                               "mfu", 0.25, "pipeline", "bubble", 0.5, "train", "accuracy", 0.75,
                               "equivalence", "bound", 0.02);
    text = table_of(&shares, 1, 80, 1, &chosen.columns);
    assert_non_null(strstr(text, "efficiency mfu idle accuracy equivalence.bound\n"
                                 "31%        25% 50%  0.7500                0.02\n"));
    free(text);
    /* what is asked for by name has a column in a narrow table, too, even an empty one */
    assert_null(
        ls_chosen_read("digest,train.accuracy,time.step_ms.median,loss_last,grade,mfu", &chosen));
    json_t *again[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                       made_row("towers", 1, 1.0 / 3, 0.01, "ok")};
    text = table_of(again, 2, 30, 2, &chosen.columns);
    for (size_t i = 0; i < chosen.columns.count; i++)
        assert_non_null(strstr(text, chosen.title[i]));
    assert_null(strstr(text, "no room for"));
    free(text);
}

/* Bandwidths of a busy machine, which four digits would make wider than their columns. */
static void columns_of_micro_keep_their_width(void **state)
{
    (void)state;
    json_t *rows[2];
    for (size_t i = 0; i < 2; i++)
        rows[i] = json_pack("{s:{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:f,s:i}}", "micro", "op", "allreduce",
                            "kernel", "halving-doubl", "shape", i ? "in place" : "out of place",
                            "size_bytes", 67108864, "count", 16777216, "time_us", 1234567.0,
                            "algbw_gbs", 0.0012987, "busbw_gbs", 0.0002, "wrong", 0);
    char *text = table_of(rows, 2, 80, 2, NULL);
    assert_non_null(strstr(text, "\n67108864 halving-doubl  1234567 0.0013 0.0002     0"
                                 "  1234567 0.0013 0.0002     0\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_shares),
        cmocka_unit_test(table_fits),
        cmocka_unit_test(table_groups),
        cmocka_unit_test(table_lacks),
        cmocka_unit_test(long_values_still_differ),
        cmocka_unit_test(swept_options_stay),
        cmocka_unit_test(options_stay_longer_than_the_rate),
        cmocka_unit_test(a_table_has_one_rate),
        cmocka_unit_test(table_compares),
        cmocka_unit_test(columns_are_chosen),
        cmocka_unit_test(the_status_is_cut),
        cmocka_unit_test(shared_warnings_are_said_once),
        cmocka_unit_test(speedup_stays),
        cmocka_unit_test(wide_intervals_are_words),
        cmocka_unit_test(columns_of_micro_keep_their_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
