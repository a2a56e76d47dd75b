/* SPDX-License-Identifier: MIT */
/* The lines below a table: who is fastest, of which cases, by how much. */
#include "bench/output/tests/made_table.h"

static void table_ranks(void **state)
{
    (void)state;
    json_t *near[] = {made_row("single", 1, 2.0, 0.03, "ok"), made_row("towers", 1, 1.0, 0.2, "ok"),
                      made_row("mirrored", 1, 1.1, 0.1, "ok")};
    char *text = table_of(near, 3, 80, 3, NULL);
    assert_non_null(strstr(text, "\nfastest: towers; within the noise of it: mirrored\n"));
    free(text);
    json_t *twice[] = {made_row("zero", 1, 1.0, 0.1, "ok"), made_row("zero", 1, 1.02, 0.1, "ok"),
                       made_row("mirrored", 1, 1.011, 0.1, "ok")};
    text = table_of(twice, 3, 80, 3, NULL);
    assert_non_null(strstr(text, "\nfastest: zero; within the noise of it: mirrored\n"));
    free(text);
    /* A noisy row's name says it, of repeats that of any. */
    json_t *noisy[] = {made_row("zero", 1, 1.0, 0.01, "ok"), made_row("zero", 1, 1.0, 0.2, "ok"),
                       made_row("mirrored", 1, 2.0, 0.01, "ok")};
    json_object_set_new(json_object_get(noisy[1], "result"), "warnings",
                        json_pack("[s,s]", "short", "noisy"));
    text = table_of(noisy, 3, 120, 3, NULL);
    assert_non_null(strstr(text, "\nfastest: zero (noisy), 2.00 times as fast as the next ("));
    assert_non_null(strstr(text, "), mirrored\n"));
    free(text);
    json_t *bad[] = {made_row("single", 1, 2.0, 0.03, "ok"),
                     made_row("towers", 1, 1.0, 0.2, "failed")};
    text = table_of(bad, 2, 80, 2, NULL);
    assert_null(strstr(text, "fastest")); /* a single row has none */
    free(text);
    json_t *models[] = {
        made_row("single", 1, 2.0, 0.01, "ok"), made_row("towers", 1, 1.0, 0.01, "ok"),
        made_row("single", 1, 2.0, 0.01, "ok"), made_row("towers", 1, 4.0, 0.01, "ok")};
    for (size_t i = 2; i < 4; i++)
        json_object_set_new(json_object_get(models[i], "case"), "model", json_string("cnn"));
    text = table_of(models, 4, 80, 4, NULL);
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
    text = table_of(other, 2, 200, 2, NULL);
    assert_non_null(strstr(text,
                           "\nfastest: mirrored optimizer adam seed 9007199254740993, 2.00 times "
                           "as fast as the next (1.96 to 2.05), single optimizer sgd seed "
                           "9007199254740992\n"));
    free(text);
}

/* What follows from other options is said where nothing else tells two cases apart. */
static void what_follows_is_said_if_it_tells(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        json_t *rows[2];
        for (int i = 0; i < 2; i++) {
            rows[i] = made_row(alone || i ? "mirrored" : "zero", 2, 2.0 - i, 0.01, "ok");
            json_object_set_new(json_object_get(rows[i], "case"), "bucket_bytes",
                                json_integer(i + 1));
        }
        char *text = table_of(rows, 2, 200, 2, NULL);
        const char *line = strstr(text, "\nfastest: ");
        assert_non_null(line);
        assert_true((strstr(line, "bucket-bytes 2, 2.00 times") != NULL) == alone);
        assert_true((strstr(line, "), zero\n") != NULL) != alone);
        free(text);
    }
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
    char *text = table_of(rows, 5, 120, 5, NULL);
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
    return table_of(rows, 4, 120, 4, NULL);
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
    char *text = table_of(rows, 3, 200, 3, NULL);
    assert_non_null(strstr(text,
                           "\nfastest: mirrored, 2.00 times as fast as the next (1.97 to 2.03), "
                           "towers; not meant to be equal to single, so not ranked: "
                           "independent (2.00 times as fast)\n"));
    free(text);
    json_t *alike[] = {made_row("independent", 2, 2.0, 0.01, "ok"),
                       made_row("mirrored", 2, 2.0, 0.01, "ok")};
    text = table_of(alike, 2, 200, 2, NULL);
    assert_non_null(strstr(text, "\nfastest: mirrored; not meant to be equal to single, so not "
                                 "ranked: independent (1.00 times as fast)\n"));
    free(text);
}

/* Repeats are one case: the median of their rates, the range of all, noisy if one of them is. */
static void repeats_are_one_case(void **state)
{
    (void)state;
    static const double ms[] = {4.0, 1.0, 1.25, 2.0};
    json_t *rows[4];
    for (size_t i = 0; i < 4; i++)
        rows[i] = made_row(i ? "towers" : "single", 1, ms[i], 0.01, "ok");
    json_object_set_new(json_object_get(rows[2], "result"), "warnings", json_pack("[s]", "noisy"));
    char *text = table_of(rows, 4, 200, 4, NULL);
    assert_non_null(strstr(text, "\nfastest: towers (noisy), 3.20 times as fast as the next ("));
    assert_non_null(strstr(text, "), single\n"));
    free(text);
}

/* One step has no interval: of width 0 in older rows, absent in others. Such rows are not ranked.
 */
static void one_step_is_not_ranked(void **state)
{
    (void)state;
    json_t *none[] = {made_row("single", 1, 2.0, 0, "ok"), made_row("towers", 1, 1.0, 0, "ok")};
    json_object_del(step_of(none[1]), "ci95");
    char *text = table_of(none, 2, 100, 2, NULL);
    assert_non_null(strstr(text, "\nfastest: cannot be told; without an interval, so not ranked: "
                                 "towers, single\n"));
    assert_null(strstr(text, "±"));
    free(text);
    json_t *some[] = {made_row("single", 1, 2.0, 0.01, "ok"),
                      made_row("towers", 1, 3.0, 0.01, "ok"),
                      made_row("mirrored", 1, 1.0, 0, "ok")};
    text = table_of(some, 3, 200, 3, NULL);
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
    char *text = table_of(rows, 2, 120, 2, NULL);
    assert_non_null(strstr(text, " mean samples/s "));
    assert_non_null(strstr(text, "100000"));
    assert_non_null(strstr(text,
                           "\nfastest by samples trained / time: single, 2.00 times as fast as "
                           "the next (1.7"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_ranks),
        cmocka_unit_test(environments_rank_apart),
        cmocka_unit_test(what_follows_is_said_if_it_tells),
        cmocka_unit_test(groups_rank_apart),
        cmocka_unit_test(unequal_are_not_ranked),
        cmocka_unit_test(repeats_are_one_case),
        cmocka_unit_test(one_step_is_not_ranked),
        cmocka_unit_test(uneven_steps_rank_by_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
