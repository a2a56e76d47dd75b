/* SPDX-License-Identifier: MIT */
/*
 * Turns: blocks of two programs run alternately; a coin decides the order within each pair. A block
 * is one process, `PROGRAM run OPTIONS --format jsonl`. The first block of each side runs with the
 * given options and the gate, and shows which cases there are. Later blocks skip the gate, and
 * unless the number of steps is given, they time steps for BLOCK_MS. Rows are kept as printed.
 */
#include "bench/regress/compared.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_MS = 300, STEPS_LEAST = 20, STEPS_MOST = 200000 };

static const uint64_t second = 1000000000, block_most_ns = 600 * second;

/* ---- One block ------------------------------------------------------------------------------ */

/* The failure of a program that printed no rows, in its own words. */
static ls_status refuse(const ls_regress_task *task, int side, const ls_child *child)
{
    char line[700];
    const char *path = task->side[side];
    ls_child_says(child, line, sizeof line);
    if (child->signal)
        return ls_fail(LS_CODE_MISSING, "regress", path,
                       "was ended by signal %d (%s); nothing is compared", child->signal,
                       strsignal(child->signal));
    if (child->code == LS_CODE_USAGE) /* NEW, which runs first, accepts the options */
        return ls_fail(LS_CODE_MISSING, "regress", path, "does not take these options%s: %s",
                       side == LS_BASE ? ", it may be too old for one" : "",
                       *line ? line : "it says nothing");
    return ls_fail(LS_CODE_MISSING, "regress", path,
                   "does not run: exit status %d, %s; it has to print rows by run --format jsonl",
                   child->code, *line ? line : "and it says nothing");
}

/* Parses the JSON lines of a program's output. */
static ls_status read_rows(const char *path, char *text, json_t *rows)
{
    json_error_t error;
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        json_t *row = json_loads(line, 0, &error);
        if (!row || !json_is_object(row) ||
            json_integer_value(json_object_get(row, "schema")) != 1) {
            json_decref(row);
            return ls_fail(LS_CODE_MISSING, "regress", path,
                           "prints a line that is not a row of schema 1: %.60s", line);
        }
        json_array_append_new(rows, row);
    }
    return LS_OK;
}

bool ls_regress_is_given(const ls_regress_task *task, const char *option)
{
    for (size_t i = 0; i < task->option_count; i++)
        if (strncmp(task->options[i], option, strcspn(option, "=") + 1) == 0)
            return true;
    return false;
}

ls_status ls_regress_run(const ls_regress_task *task, int side, const char *const *before,
                         const char *const *after, uint64_t limit_ns, ls_child *out)
{
    const char *const head[] = {task->side[side], "run", NULL};
    const char *const tail[] = {"--format=jsonl", "--results=none", NULL};
    const char *const *const parts[] = {before, head, (const char *const *)task->options, tail,
                                        after};
    size_t n = 0;
    char **argv;
    LS_TRY(ls_allocate("options", &argv, task->option_count + 16, sizeof *argv));
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (size_t i = 0; parts[part] && parts[part][i]; i++)
            if (parts[part] != after || !ls_regress_is_given(task, after[i]))
                argv[n++] = (char *)(size_t)parts[part][i];
    ls_status status = ls_child_run(argv, NULL, false, limit_ns, out);
    free(argv);
    return status;
}

static bool all_well(const json_t *rows)
{
    bool well = true;
    for (size_t i = 0; i < json_array_size(rows); i++)
        well &= strcmp(ls_regress_status(json_array_get(rows, i)), "ok") == 0;
    return well;
}

/* Runs a block; returns its rows as an array, owned by the caller. */
static ls_status run_block(const ls_regress_task *task, int side, int64_t steps, bool gate,
                           uint64_t limit_ns, json_t **rows)
{
    char count[40];
    const char *after[4] = {NULL};
    size_t n = 0;
    ls_child child;
    snprintf(count, sizeof count, "--steps=%lld", (long long)steps);
    if (steps > 0)
        after[n++] = count;
    if (!gate && !task->plan_gate)
        after[n++] = "--gate-steps=0";
    if (!gate && !task->plan_blocks)
        after[n++] = "--blocks=1";
    *rows = json_array();
    ls_status status = ls_regress_run(task, side, NULL, after, limit_ns, &child);
    if (!status && !child.signal)
        status = read_rows(task->side[side], child.out, *rows);
    if (!status && (child.signal || child.code > LS_CODE_MISSING || json_array_size(*rows) == 0 ||
                    (child.code && all_well(*rows))))
        status = refuse(task, side, &child);
    ls_child_free(&child);
    if (status)
        json_decref(*rows);
    return status;
}

/* ---- Rows of blocks ------------------------------------------------------------------------- */

static ls_status keep_rows(ls_results *results, json_t *rows, const char *label)
{
    ls_status status = ls_results_begin(results);
    for (size_t i = 0; i < json_array_size(rows) && !status; i++) {
        json_t *row = json_array_get(rows, i);
        bool there = false;
        if (!json_object_get(row, "label"))
            json_object_set_new(row, "label", json_string(label));
        if (!json_is_string(json_object_get(row, "id"))) /* id generated by another program */
            continue;
        status = ls_results_has(results, json_string_value(json_object_get(row, "id")), &there);
        if (!status && !there)
            status = ls_results_put(results, row);
    }
    return ls_results_end(results, status);
}

typedef struct turns {
    const ls_regress_task *task;
    ls_regress *regress;
    ls_results *results; /* NULL: rows are not saved */
    int64_t steps;       /* per block; 0: as the options say */
    uint64_t begin, deadline;
    size_t measured; /* the first `measured` cases have rows; the rest count them as slower */
    double *sums;    /* [2 x measured] logarithms of one pair */
    size_t *counts;
} turns;

/* Runs a block and saves its rows. */
static ls_status take_block(turns *t, int side, bool gate, uint64_t limit_ns, json_t **rows)
{
    LS_TRY(run_block(t->task, side, gate ? 0 : t->steps, gate, limit_ns, rows));
    ls_status status =
        t->results ? keep_rows(t->results, *rows, side == LS_BASE ? "regress base" : "regress new")
                   : LS_OK;
    if (status)
        json_decref(*rows);
    return status;
}

/* Runs the first block of each side, NEW first: options that neither side accepts are then not
 * blamed on an old base. */
static ls_status check_programs(turns *t)
{
    for (int side = LS_SIDES; side-- > 0;) {
        json_t *rows;
        LS_TRY(take_block(t, side, true, block_most_ns, &rows));
        ls_status status = LS_OK;
        for (size_t i = 0; i < json_array_size(rows) && !status; i++)
            status = ls_regress_add(t->regress, t->task, side, json_array_get(rows, i));
        json_decref(rows);
        if (status)
            return status;
    }
    return LS_OK;
}

/* The number of steps with which the slowest case is timed for BLOCK_MS, and each for a period. */
static int64_t fit_steps(const ls_regress *regress)
{
    double slowest = 0, least = STEPS_LEAST;
    for (size_t i = 0; i < regress->count; i++)
        for (int side = 0; side < LS_SIDES; side++) {
            const json_t *row = regress->cases[i].row[side];
            slowest = fmax(slowest, ls_regress_time(row));
            least = fmax(least, ls_case_period(json_object_get(row, "case")));
        }
    if (slowest <= 0)
        return 0;
    return (int64_t)fmax(fmin(BLOCK_MS / slowest, STEPS_MOST), least);
}

/* A good row has become bad or is missing (NULL): replaces it in all copies of its case. */
static void replace_row(turns *t, size_t measured, int side, const json_t *row)
{
    for (size_t i = measured; i < t->regress->count; i += t->measured)
        ls_regress_replace(t->task, &t->regress->cases[i], side, row);
}

static ls_status run_side(turns *t, int side)
{
    json_t *rows;
    bool *seen;
    LS_TRY(ls_allocate("cases", &seen, t->measured, sizeof *seen));
    const uint64_t now = ls_clock_ns(), left = t->deadline > now ? t->deadline - now : 0;
    ls_status status = take_block(t, side, false, left + 60 * second, &rows);
    for (size_t i = 0; !status && i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const ls_regress_case *one = ls_regress_find(t->regress, t->task, side, row);
        const double time = ls_regress_time(row);
        if (!one)
            continue;
        const size_t at = (size_t)(one - t->regress->cases);
        seen[at] = true;
        if (strcmp(ls_regress_status(row), "ok") != 0)
            replace_row(t, at, side, row);
        if (time <= 0)
            continue;
        t->sums[2 * at + (size_t)side] += log(time);
        t->counts[2 * at + (size_t)side]++;
    }
    for (size_t i = 0; i < t->measured && !status; i++)
        if (!seen[i])
            replace_row(t, i, side, NULL);
    free(seen);
    if (!status)
        json_decref(rows);
    return status;
}

/* Runs a pair of blocks: each case measured in both gets one more log ratio. */
static ls_status run_pair(turns *t, uint64_t number)
{
    const ls_random order = ls_random_stream(t->task->seed, "regress/order");
    const int first = ls_random_bits(order, number) & 1 ? LS_NEW : LS_BASE;
    memset(t->sums, 0, 2 * t->measured * sizeof *t->sums);
    memset(t->counts, 0, 2 * t->measured * sizeof *t->counts);
    LS_TRY(run_side(t, first));
    LS_TRY(run_side(t, !first));
    for (size_t i = 0; i < t->regress->count; i++) {
        ls_regress_case *one = &t->regress->cases[i];
        const size_t from = 2 * (i % t->measured);
        if (one->decided || !t->counts[from + LS_BASE] || !t->counts[from + LS_NEW])
            continue;
        for (size_t side = 0; side < LS_SIDES; side++)
            LS_TRY(ls_log_push(&one->logs[side],
                               t->sums[from + side] / (double)t->counts[from + side] +
                                   (side == LS_NEW ? log1p(one->slowed) : 0)));
    }
    return LS_OK;
}

/* ---- Looks ---------------------------------------------------------------------------------- */

static ls_status look_at(ls_regress_case *one, const ls_ratio_test *test, double share)
{
    const size_t n = one->logs[LS_NEW].count;
    double *ratios;
    LS_TRY(ls_allocate("ratios", &ratios, n, sizeof *ratios));
    for (size_t i = 0; i < n; i++)
        ratios[i] = one->logs[LS_NEW].items[i] - one->logs[LS_BASE].items[i];
    ls_status status = ls_ratio_look(test, ratios, n, share, &one->result);
    one->decided = one->result.verdict != LS_VERDICT_CANNOT_TELL;
    free(ratios);
    return status;
}

/* Tests all undecided cases; *open: how many remain undecided. */
static ls_status look(turns *t, ls_ratio_test *test, double share, size_t *open)
{
    *open = 0;
    for (size_t i = 0; i < t->regress->count; i++) {
        ls_regress_case *one = &t->regress->cases[i];
        if (one->decided)
            continue;
        one->seconds = (double)(ls_clock_ns() - t->begin) * 1e-9;
        LS_TRY(look_at(one, test, share));
        *open += !one->decided;
    }
    test->spent = share;
    return LS_OK;
}

static size_t fewest_blocks(const ls_regress *regress)
{
    size_t fewest = LS_RATIO_BLOCKS_MOST;
    for (size_t i = 0; i < regress->count; i++)
        if (!regress->cases[i].decided && regress->cases[i].logs[LS_NEW].count < fewest)
            fewest = regress->cases[i].logs[LS_NEW].count;
    return fewest;
}

static ls_status take_turns(turns *t, uint64_t max_ns)
{
    ls_ratio_test test = {.threshold = t->task->threshold, .cases = t->measured};
    size_t open = 0;
    t->begin = ls_clock_ns();
    t->deadline = t->begin + max_ns;
    for (size_t i = 0; i < t->regress->count; i++) {
        for (int side = 0; side < LS_SIDES; side++)
            t->regress->cases[i].logs[side].count = 0; /* the first block included the gate */
        open += !t->regress->cases[i].decided;
    }
    if (!t->task->quiet && open > 0)
        ls_log_stderr("regress: %zu cases in turns, for %.0f s at most", open,
                      (double)max_ns * 1e-9);
    for (uint64_t pairs = 0; open > 0 && test.spent < 1;) {
        LS_TRY(run_pair(t, pairs++));
        const double spent = (double)(ls_clock_ns() - t->begin) / (double)max_ns;
        const bool last = spent * (1 + 1.0 / (double)pairs) > 1 || pairs == LS_RATIO_BLOCKS_MOST;
        const double share = last ? 1 : ls_ratio_due(&test, fewest_blocks(t->regress), spent);
        if (share <= 0)
            continue;
        LS_TRY(look(t, &test, share, &open));
        if (!t->task->quiet)
            ls_log_stderr("regress: after %.0f s and %llu pairs of blocks: %zu cases open",
                          spent * (double)max_ns * 1e-9, (unsigned long long)pairs, open);
    }
    return LS_OK;
}

static ls_status measure(turns *t)
{
    const ls_regress_task *task = t->task;
    LS_TRY(check_programs(t));
    LS_TRY(ls_regress_judge(task, t->regress));
    t->measured = t->regress->count;
    for (size_t i = 1; i < task->slowed_count; i++)
        LS_TRY(ls_regress_repeat(t->regress, t->measured, task->slowed[i]));
    uint64_t max_ns = task->max_ns ? task->max_ns : 60 * second * t->measured;
    if (!task->max_ns && max_ns > 600 * second)
        max_ns = 600 * second;
    t->steps = task->fixed_steps ? 0 : fit_steps(t->regress);
    LS_TRY(ls_allocate("cases", &t->sums, 2 * t->measured, sizeof *t->sums));
    LS_TRY(ls_allocate("cases", &t->counts, 2 * t->measured, sizeof *t->counts));
    return take_turns(t, max_ns);
}

ls_status ls_regress_turns(const ls_regress_task *task, ls_regress *out)
{
    turns t = {.task = task, .regress = out};
    if (task->results)
        LS_TRY(ls_results_open(task->results, true, &t.results));
    ls_status status = measure(&t);
    ls_results_close(t.results);
    free(t.sums);
    free(t.counts);
    return status;
}
