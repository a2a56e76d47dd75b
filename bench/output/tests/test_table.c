/* SPDX-License-Identifier: MIT */
/*
 * The table: the head above it, its columns, what is dropped if a line is too long, groups, and the
 * lines below. Leaves out how a cell is written (test_format.c).
 */
#include "bench/output/format_parts.h"
#include "bench/output/row_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A row of `run`; fields that are not given are the same in all rows. */
static json_t *made_row(const char *strategy, int devices, double step_ms, double half,
                        const char *status)
{
    json_t *names = json_array();
    for (int i = 0; i < devices; i++)
        json_array_append_new(names, json_sprintf("cpu:%d", i));
    return json_pack("{s:{s:s,s:s,s:s,s:o,s:i,s:i,s:i},s:{s:s},s:{s:{s:f,s:[f,f]},s:f},s:{s:f,s:f},"
                     "s:{s:s,s:b}}",
                     "case", "model", "mlp", "data", "synthetic", "strategy", strategy, "devices",
                     names, "batch_global", 256, "parameters", 7, "bucket_bytes", 100 + devices,
                     "result", "status", status, "time", "step_ms", "median", step_ms, "ci95",
                     step_ms * (1 - half), step_ms * (1 + half), "samples_per_s", 256e3 / step_ms,
                     "train", "loss_last", 0.5, "accuracy", 0.75, "equivalence", "grade", "bounded",
                     "pass", 1);
}

static json_t *step_of(const json_t *row)
{
    return json_object_get(json_object_get(row, "time"), "step_ms");
}

static json_t *swept; /* options of the next table's cases that are asked to differ */

/* Prints these rows (takes ownership) at a width, with a flush after every `group` rows. */
static char *table_of(json_t **rows, size_t count, int width, size_t group,
                      const ls_columns *columns, bool colour)
{
    const ls_format *format;
    ls_writer *writer;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_null(ls_format_find("table", &format));
    assert_null(ls_writer_open(format, stream, &writer));
    json_t *cases = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append(cases, json_object_get(rows[i], "case"));
    ls_writer_expect(writer, cases, swept);
    swept = NULL;
    writer->width = width;
    writer->colour = colour;
    if (columns)
        ls_writer_set_columns(writer, columns);
    for (size_t i = 0; i < count; i++) {
        assert_null(ls_writer_row(writer, rows[i]));
        json_decref(rows[i]);
        if ((i + 1) % group == 0)
            assert_null(ls_writer_flush(writer));
    }
    assert_null(ls_writer_close(writer));
    fclose(stream);
    return text;
}

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
    char *text = table_of(rows, 2, 120, 2, NULL, false);
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
        char *text = table_of(rows, 2, steps[s].width, 2, NULL, false);
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
        char *text = table_of(rows, 2, width, 2, NULL, false);
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
                            json_pack("[s,i,s,s]", "oversubscribed", 7, "autocorrelated", "short"));
    char *text = table_of(rows, 2, 60, 2, NULL, false);
    assert_table(text, "model mlp, data synthetic, batch 256\n"
                       "strategy devices step ms    ± status\n"
                       "single   1 cpu     2.000 1.0% ok, oversubscribed, autocorr..\n"
                       "mirrored 2 cpu     1.000 2.0% ok, oversubscribed, autocorr..\n"
                       "no room for: bucket-bytes, samples/s, loss, accuracy, gate\n");
    free(text);
}

/* Groups share one header, since the varying options are known before the first row. */
static void table_groups(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("single", 1, 3.0, 0.01, "ok"),
                      made_row("towers", 1, 2.1, 0.01, "ok")};
    char *text = table_of(rows, 3, 80, 1, NULL, false);
    assert_non_null(strstr(text, "strategy step ms"));
    assert_null(strstr(strstr(text, "strategy step ms") + 1, "strategy step ms"));
    const char *second = strstr(text, "3.000");
    assert_true(strstr(text, "2.000") < second && second < strstr(text, "2.100"));
    free(text);
}

static void table_ranks(void **state)
{
    (void)state;
    json_t *near[] = {made_row("single", 1, 2.0, 0.03, "ok"), made_row("towers", 1, 1.0, 0.2, "ok"),
                      made_row("mirrored", 1, 1.1, 0.1, "ok")};
    char *text = table_of(near, 3, 80, 3, NULL, false);
    assert_non_null(strstr(text, "\nfastest: towers; within the noise of it: mirrored\n"));
    free(text);
    json_t *twice[] = {made_row("zero", 1, 1.0, 0.1, "ok"), made_row("zero", 1, 1.02, 0.1, "ok"),
                       made_row("mirrored", 1, 1.011, 0.1, "ok")};
    text = table_of(twice, 3, 80, 3, NULL, false);
    assert_non_null(strstr(text, "\nfastest: zero; within the noise of it: mirrored\n"));
    free(text);
    json_t *bad[] = {made_row("single", 1, 2.0, 0.03, "ok"),
                     made_row("towers", 1, 1.0, 0.2, "failed")};
    text = table_of(bad, 2, 80, 2, NULL, false);
    assert_null(strstr(text, "fastest")); /* a single row has none */
    free(text);
    json_t *models[] = {
        made_row("single", 1, 2.0, 0.01, "ok"), made_row("towers", 1, 1.0, 0.01, "ok"),
        made_row("single", 1, 2.0, 0.01, "ok"), made_row("towers", 1, 4.0, 0.01, "ok")};
    for (size_t i = 2; i < 4; i++)
        json_object_set_new(json_object_get(models[i], "case"), "model", json_string("cnn"));
    text = table_of(models, 4, 80, 4, NULL, false);
    assert_non_null(strstr(text, "\nfastest of mlp: towers, 2.00 times"));
    assert_non_null(strstr(text, "\nfastest of cnn: single, 2.00 times"));
    free(text);
    /* All that tells two cases apart is said, but for what follows from other options. */
    json_t *other[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                       made_row("mirrored", 1, 1.0, 0.02, "ok")};
    for (size_t i = 0; i < 2; i++) {
        json_t *group = json_object_get(other[i], "case");
        json_object_set_new(group, "optimizer", json_string(i ? "adam" : "sgd"));
        json_object_set_new(group, "seed", json_integer(9007199254740992 + (json_int_t)i));
        json_object_set_new(group, "lr", i ? json_integer(1) : json_real(1.0));
    }
    text = table_of(other, 2, 200, 2, NULL, false);
    assert_non_null(strstr(text,
                           "\nfastest: mirrored optimizer adam seed 9007199254740993, 2.00 times "
                           "as fast as the next (1.96 to 2.05), single optimizer sgd seed "
                           "9007199254740992\n"));
    free(text);
}

/* Cases of other batches, links or devices answer another question, and are ranked apart. */
static void environments_rank_apart(void **state)
{
    (void)state;
    json_t *rows[] = {
        made_row("towers", 2, 2.0, 0.01, "ok"), made_row("mirrored", 2, 1.0, 0.01, "ok"),
        made_row("towers", 4, 1.0, 0.01, "ok"), made_row("mirrored", 4, 2.0, 0.01, "ok"),
        made_row("single", 1, 0.1, 0.01, "ok")};
    for (size_t i = 2; i < 4; i++)
        json_object_set_new(json_object_get(rows[i], "case"), "link", json_string("latency=1us"));
    char *text = table_of(rows, 5, 120, 5, NULL, false);
    assert_non_null(strstr(text, "\nfastest of link none, 2 cpu: mirrored, 2.00 times"));
    assert_non_null(strstr(text, "\nfastest of link latency=1us, 4 cpu: towers, 2.00 times"));
    assert_null(strstr(text, "single 1"));
    assert_null(strstr(text, "of 1 cpu"));
    free(text);
}

/* Two groups of one command on two devices: step times `ms` [4], speed-ups if `baselines`. */
static char *table_of_groups(const double ms[4], bool baselines)
{
    static const char *const names[] = {"towers", "mirrored", "zero", "pipeline"};
    json_t *rows[4];
    for (int i = 0; i < 4; i++) {
        rows[i] = made_row(names[i], 2, ms[i], 0.01, "ok");
        json_t *time = json_object_get(rows[i], "time");
        json_object_update_new(time, json_pack("{s:i,s:i}", "group", 1 + i / 2, "groups", 2));
        const double speedup = (i < 2 ? 4 : 8) / ms[i]; /* the machine was slower then */
        if (baselines)
            json_object_update_new(time, json_pack("{s:f,s:[f,f]}", "speedup", speedup,
                                                   "speedup_ci95", 0.98 * speedup, 1.02 * speedup));
    }
    return table_of(rows, 4, 120, 4, NULL, false);
}

/* Groups ran one after the other: their cases are compared by each group's own baseline, or not. */
static void groups_rank_apart(void **state)
{
    (void)state;
    const double ms[] = {2, 1, 1.5, 4};
    char *text = table_of_groups(ms, false);
    assert_non_null(strstr(text, " group "));
    assert_non_null(strstr(text, "\nfastest of group 1 of 2: mirrored, 2.00 times as fast as the"));
    assert_non_null(strstr(text, "\nfastest of group 2 of 2: zero, 2.67 times as fast as the"));
    assert_non_null(strstr(text, "\ngroups ran one after the other"));
    free(text);
    text = table_of_groups(ms, true);
    assert_non_null(strstr(text,
                           "\nfastest by speed-up over single in each group's own turns: zero, "
                           "1.33 times as fast as the next"));
    assert_null(strstr(text, "groups ran"));
    free(text);
}

/* Who is not meant to compute what single does is no winner. */
static void unequal_are_not_ranked(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("independent", 2, 1.0, 0.01, "ok"),
                      made_row("mirrored", 2, 2.0, 0.01, "ok"),
                      made_row("towers", 2, 4.0, 0.01, "ok")};
    char *text = table_of(rows, 3, 200, 3, NULL, false);
    assert_non_null(strstr(text,
                           "\nfastest: mirrored, 2.00 times as fast as the next (1.97 to 2.03), "
                           "towers; not meant to be equal to single, so not ranked: "
                           "independent (2.00 times as fast)\n"));
    free(text);
}

/* One step has no interval: of width 0 in older rows, absent in others. Such rows are not ranked.
 */
static void one_step_is_not_ranked(void **state)
{
    (void)state;
    json_t *none[] = {made_row("single", 1, 2.0, 0, "ok"), made_row("towers", 1, 1.0, 0, "ok")};
    json_object_del(step_of(none[1]), "ci95");
    char *text = table_of(none, 2, 100, 2, NULL, false);
    assert_non_null(strstr(text, "\nfastest: cannot be told; without an interval, so not ranked: "
                                 "towers, single\n"));
    assert_null(strstr(text, "±"));
    free(text);
    json_t *some[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("towers", 1, 3.0, 0.01, "ok"),
                      made_row("mirrored", 1, 1.0, 0, "ok")};
    text = table_of(some, 3, 200, 3, NULL, false);
    assert_non_null(strstr(text,
                           "\nfastest: single, 1.50 times as fast as the next (1.48 to 1.52), "
                           "towers; without an interval, so not ranked: mirrored\n"));
    free(text);
}

/* If the steps of one case are not alike, all are compared by all samples over the time. */
static void uneven_steps_rank_by_the_mean(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"), made_row("ps", 1, 1.0, 0.01, "ok")};
    const double rate[] = {100e3, 50e3};
    for (size_t i = 0; i < 2; i++)
        json_object_update_new(json_object_get(rows[i], "time"),
                               json_pack("{s:f,s:[f,f]}", "samples_per_s_mean", rate[i],
                                         "samples_per_s_mean_ci95", rate[i] * 0.9, rate[i] * 1.1));
    json_object_set_new(json_object_get(rows[1], "case"), "ps_mode", json_string("async"));
    char *text = table_of(rows, 2, 120, 2, NULL, false);
    assert_non_null(strstr(text, " mean samples/s "));
    assert_non_null(strstr(text, "100000"));
    assert_non_null(strstr(text,
                           "\nfastest by samples trained / time: single, 2.00 times as fast as "
                           "the next (1.7"));
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
        char *text = table_of(rows, 1, 100, 1, NULL, false);
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
    char *text = table_of(alike, 2, 80, 2, NULL, false);
    assert_non_null(strstr(text, "\nlink        step ms"));
    free(text);
    json_t *other[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                       made_row("mirrored", 1, 1.0, 0.01, "ok")};
    json_object_set_new(json_object_get(other[1], "case"), "link", json_string("latency=1us"));
    text = table_of(other, 2, 120, 2, NULL, false);
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
    char *text = table_of(rows, 3, 80, 3, NULL, false);
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
    char *text = table_of(rows, 5, 80, 5, NULL, false);
    assert_non_null(strstr(text, "\nhybrid-inner    hybrid-outer zero-stage step ms"));
    free(text);
}

static void table_colours(void **state)
{
    (void)state;
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("towers", 1, 1.0, 0.01, "failed")};
    char *text = table_of(rows, 2, 80, 2, NULL, true);
    const char *red = strstr(text, "\033[31mfailed\033[0m\n");
    assert_non_null(red);
    assert_null(strstr(red + 5, "\033[31m"));
    assert_ptr_equal(strstr(text, "\033[31m"), red);
    free(text);
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
    char *text = table_of(rows, 3, 200, 3, &ls_verify_columns, false);
    assert_non_null(strstr(text, "compared  gradient     drift"));
    assert_non_null(strstr(text, "\ntowers, ps, bounded: after each of 12 steps the bits of an "
                                 "oracle"));
    assert_non_null(strstr(text, "\nsingle, bounded: after each of 12 steps the bits of a second, "
                                 "fresh run"));
    assert_non_null(strstr(text, "\ndrift: how far the parameters came from those of single; it "
                                 "judges nothing"));
    free(text);
}

static void columns_are_chosen(void **state)
{
    (void)state;
    ls_chosen chosen;
    static const char *const refused[][2] = {
        {"nonsuch", "--columns: nonsuch: unknown key"},
        {"strategy,,median", "--columns: '': unknown key"},
        {"peak", "--columns: peak: is the end of several keys; give one of memory.devices.peak, "}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_status status = ls_chosen_read(refused[i][0], &chosen);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(strstr(ls_status_text(status), refused[i][1]));
        ls_status_free(status);
    }
    assert_null(ls_chosen_read(NULL, &chosen));
    assert_int_equal(chosen.columns.count, 0);
    assert_null(ls_chosen_read("loss_last,strategy,time.step_ms.median", &chosen));
    json_t *rows[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("towers", 1, 1.0 / 3, 0.01, "ok")};
    char *text = table_of(rows, 2, 80, 2, &chosen.columns, false);
    assert_non_null(strstr(text, "\nloss_last strategy time.step_ms.median\n"
                                 "      0.5 single                     2\n"
                                 "      0.5 towers              0.333333\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_shares),
        cmocka_unit_test(table_fits),
        cmocka_unit_test(table_groups),
        cmocka_unit_test(table_ranks),
        cmocka_unit_test(table_lacks),
        cmocka_unit_test(long_values_still_differ),
        cmocka_unit_test(swept_options_stay),
        cmocka_unit_test(table_colours),
        cmocka_unit_test(table_compares),
        cmocka_unit_test(columns_are_chosen),
        cmocka_unit_test(the_status_is_cut),
        cmocka_unit_test(environments_rank_apart),
        cmocka_unit_test(groups_rank_apart),
        cmocka_unit_test(unequal_are_not_ranked),
        cmocka_unit_test(one_step_is_not_ranked),
        cmocka_unit_test(uneven_steps_rank_by_the_mean),
        cmocka_unit_test(wide_intervals_are_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
