/* SPDX-License-Identifier: MIT */
/*
 * Turns: blocks of two programs run alternately; a coin decides the order within each pair. A block
 * is one process, `PROGRAM run OPTIONS --format jsonl`. The first block of each side runs with the
 * given options and the gate, and shows which cases there are. Later blocks skip the gate, and
 * unless the number of steps is given, they time steps for BLOCK_MS. Rows are kept as printed.
 */
#include "bench/output/results_db.h"
#include "bench/regress/regress.h"
#include "bench/rows/put.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/random/philox.h"

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
                       "this program was ended by signal %d (%s), so nothing is compared; run the "
                       "program alone to see why",
                       child->signal, strsignal(child->signal));
    if (child->code == LS_CODE_USAGE) /* NEW, which runs first, accepts the options */
        return ls_fail(
            LS_CODE_MISSING, "regress", path, "this program refuses the options%s; it printed: %s",
            side == LS_BASE ? " (perhaps it is too old for one)" : "", *line ? line : "nothing");
    return ls_fail(LS_CODE_MISSING, "regress", path,
                   "this program ended with exit status %d, %s; name a program that prints rows "
                   "with run --format jsonl",
                   child->code, *line ? line : "and printed no reason");
}

/* Parses the JSON lines of a program's output. */
static ls_status read_rows(const char *path, char *text, json_t *rows)
{
    json_error_t error;
    for (char *line; (line = strsep(&text, "\n")) && (*line || text);) {
        json_int_t schema = 0;
        json_t *row = json_loads(line, 0, &error);
        json_unpack(row, "{s:I}", "schema", &schema);
        if (schema != 1) {
            json_decref(row);
            return ls_fail(LS_CODE_MISSING, "regress", path,
                           "this program printed a line that is not a row of schema 1: %.60s; name "
                           "a program that prints rows with run --format jsonl",
                           line);
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
    ls_auto char **argv = NULL;
    LS_TRY(ls_allocate("options", &argv, task->option_count + 16, sizeof *argv));
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (size_t i = 0; parts[part] && parts[part][i]; i++)
            if (parts[part] != after || !ls_regress_is_given(task, after[i]))
                argv[n++] = (char *)(size_t)parts[part][i];
    return ls_child_run(argv, limit_ns, out);
}

/* Runs a block, and appends its rows. */
static ls_status run_block(const ls_regress_task *task, int side, int64_t steps, bool gate,
                           uint64_t limit_ns, json_t *rows)
{
    char count[40];
    const char *after[4] = {NULL};
    size_t n = 0;
    bool well = true;
    ls_child child;
    snprintf(count, sizeof count, "--steps=%lld", (long long)steps);
    if (steps > 0)
        after[n++] = count;
    if (!gate && !task->plan_gate)
        after[n++] = "--gate-steps=0";
    if (!gate && !task->plan_blocks)
        after[n++] = "--blocks=1";
    ls_status status = ls_regress_run(task, side, NULL, after, limit_ns, &child);
    if (!status && !child.signal)
        status = read_rows(task->side[side], child.out, rows);
    for (size_t i = 0; i < json_array_size(rows); i++)
        well &= ls_regress_is_ok(json_array_get(rows, i));
    if (!status && (child.signal || child.code > LS_CODE_MISSING || json_array_size(rows) == 0 ||
                    (child.code && well)))
        status = refuse(task, side, &child);
    ls_child_free(&child);
    return status;
}

/* ---- Turns ---------------------------------------------------------------------------------- */

typedef struct turns {
    const ls_regress_task *task;
    ls_regress *regress;
    ls_results *results; /* NULL means rows are not saved */
    int64_t steps;       /* per block; 0 means as the options say */
    uint64_t begin, deadline;
    size_t measured; /* the first `measured` cases have rows; the rest count them as slower */
} turns;

static ls_status keep_rows(ls_results *results, const json_t *rows, const char *label)
{
    json_t *row;
    size_t index;
    ls_status status = ls_results_begin(results);
    json_array_foreach(rows, index, row)
    {
        const char *id = ls_row_string(row, LS_F_id);
        bool there = !*id; /* generated by another program */
        if (!ls_row_has(row, LS_F_label))
            ls_put_label(row, label);
        if (!status && !there)
            status = ls_results_put(results, row, &there);
    }
    return ls_results_end(results, status);
}

/* Runs a block and saves its rows. */
static ls_status take_block(turns *t, int side, bool gate, uint64_t limit_ns, json_t *rows)
{
    LS_TRY(run_block(t->task, side, gate ? 0 : t->steps, gate, limit_ns, rows));
    return t->results
               ? keep_rows(t->results, rows, side == LS_BASE ? "regress base" : "regress new")
               : LS_OK;
}

/* The number of steps with which the slowest case is timed for BLOCK_MS, and every case for a
 * period. */
static int64_t fit_steps(const ls_regress *regress)
{
    double slowest = 0, least = STEPS_LEAST;
    for (size_t i = 0; i < regress->count; i++)
        for (int side = 0; side < LS_SIDES; side++) {
            const json_t *row = ls_regress_row(&regress->cases[i], side);
            slowest = fmax(slowest, ls_regress_time(row));
            least = fmax(least, ls_case_period(ls_row_group(row, LS_G_case)));
        }
    return slowest > 0 ? (int64_t)fmax(fmin(BLOCK_MS / slowest, STEPS_MOST), least) : 0;
}

/* A good row of a case has become bad, or is missing (NULL). Judges it again, and its copies. */
static ls_status replace_row(turns *t, size_t at, int side, json_t *row)
{
    for (; at < t->regress->count; at += t->measured) {
        ls_regress_case *one = &t->regress->cases[at];
        if (!ls_regress_is_ok(ls_regress_row(one, side)))
            continue;
        json_array_clear(one->rows[side]);
        json_array_append(one->rows[side], row);
        LS_TRY(ls_regress_judge_case(t->task, t->regress, one));
        one->decided = true;
    }
    return LS_OK;
}

static ls_status run_side(turns *t, int side)
{
    json_auto_t *rows = json_array();
    json_t *row;
    size_t index;
    const uint64_t now = ls_clock_ns(), left = t->deadline > now ? t->deadline - now : 0;
    LS_TRY(take_block(t, side, false, left + 60 * second, rows));
    for (size_t i = 0; i < t->measured; i++)
        t->regress->cases[i].seen = false;
    json_array_foreach(rows, index, row)
    {
        ls_regress_case *one = ls_regress_find(t->regress, t->task, row);
        const double time = ls_regress_time(row);
        if (!one)
            continue;
        one->seen = true;
        if (!ls_regress_is_ok(row))
            LS_TRY(replace_row(t, (size_t)(one - t->regress->cases), side, row));
        one->sum[side] += time > 0 ? log(time) : 0;
        one->times[side] += time > 0;
    }
    for (size_t i = 0; i < t->measured; i++)
        if (!t->regress->cases[i].seen)
            LS_TRY(replace_row(t, i, side, NULL));
    return LS_OK;
}

/* Runs a pair of blocks: each case measured in both gets one more log ratio. */
static ls_status run_pair(turns *t, uint64_t number)
{
    const ls_random order = ls_random_stream(t->task->seed, "regress/order");
    const int first = ls_random_bits(order, number) & 1 ? LS_NEW : LS_BASE;
    for (size_t i = 0; i < LS_SIDES * t->measured; i++) {
        t->regress->cases[i / LS_SIDES].sum[i % LS_SIDES] = 0;
        t->regress->cases[i / LS_SIDES].times[i % LS_SIDES] = 0;
    }
    LS_TRY(run_side(t, first));
    LS_TRY(run_side(t, !first));
    for (size_t i = 0; i < t->regress->count; i++) {
        ls_regress_case *one = &t->regress->cases[i];
        const ls_regress_case *pair = &t->regress->cases[i % t->measured];
        if (one->decided || !pair->times[LS_BASE] || !pair->times[LS_NEW])
            continue;
        for (int side = 0; side < LS_SIDES; side++)
            LS_TRY(ls_log_push(&one->logs[side], pair->sum[side] / (double)pair->times[side] +
                                                     (side == LS_NEW ? log1p(one->slowed) : 0)));
    }
    return LS_OK;
}

/* ---- Looks ---------------------------------------------------------------------------------- */

/* Tests all undecided cases; *open: how many remain undecided. */
static ls_status look(turns *t, ls_ratio_test *test, double share, size_t *open)
{
    *open = 0;
    for (size_t i = 0; i < t->regress->count; i++) {
        ls_regress_case *one = &t->regress->cases[i];
        const size_t n = one->logs[LS_NEW].count;
        ls_auto double *ratios = NULL;
        if (one->decided)
            continue;
        LS_TRY(ls_allocate("ratios", &ratios, n, sizeof *ratios));
        for (size_t k = 0; k < n; k++)
            ratios[k] = one->logs[LS_NEW].items[k] - one->logs[LS_BASE].items[k];
        LS_TRY(ls_ratio_look(test, ratios, n, share, &one->result));
        one->seconds = (double)(ls_clock_ns() - t->begin) * 1e-9;
        one->decided = one->result.verdict != LS_VERDICT_CANNOT_TELL;
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

static ls_status take_turns(turns *t)
{
    ls_ratio_test test = {.threshold = t->task->threshold, .cases = t->measured};
    const uint64_t each = 60 * second * t->measured;
    const double max_s = 1e-9 * (double)(t->task->max_ns       ? t->task->max_ns
                                         : each < 600 * second ? each
                                                               : 600 * second);
    size_t open = 0;
    t->begin = ls_clock_ns();
    t->deadline = t->begin + (uint64_t)(max_s * 1e9);
    for (size_t i = 0; i < t->regress->count; i++) {
        for (int side = 0; side < LS_SIDES; side++)
            t->regress->cases[i].logs[side].count = 0; /* the first block included the gate */
        open += !t->regress->cases[i].decided;
    }
    if (!t->task->quiet && open > 0)
        ls_log_stderr("regress: comparing %zu cases, by turns, for at most %.0f s", open, max_s);
    for (uint64_t pairs = 0; open > 0 && test.spent < 1;) {
        LS_TRY(run_pair(t, pairs++));
        const double spent = (double)(ls_clock_ns() - t->begin) * 1e-9 / max_s;
        const bool last = spent * (1 + 1.0 / (double)pairs) > 1 || pairs == LS_RATIO_BLOCKS_MOST;
        const double share = last ? 1 : ls_ratio_due(&test, fewest_blocks(t->regress), spent);
        if (share <= 0)
            continue;
        LS_TRY(look(t, &test, share, &open));
        if (!t->task->quiet)
            ls_log_stderr("regress: after %.0f s and %llu pairs of blocks %zu cases are undecided",
                          spent * max_s, (unsigned long long)pairs, open);
    }
    return LS_OK;
}

static ls_status measure(turns *t)
{
    const ls_regress_task *task = t->task;
    for (int side = LS_SIDES; side-- > 0;) { /* NEW first: options that nobody knows are not */
        json_auto_t *rows = json_array();    /* blamed on an old base */
        LS_TRY(take_block(t, side, true, block_most_ns, rows));
        LS_TRY(ls_regress_add(t->regress, task, side, rows));
    }
    LS_TRY(ls_regress_judge(task, t->regress));
    t->measured = t->regress->count;
    for (size_t i = 1; i < task->slowed_count; i++)
        LS_TRY(ls_regress_repeat(t->regress, t->measured, task->slowed[i]));
    t->steps = task->fixed_steps ? 0 : fit_steps(t->regress);
    return take_turns(t);
}

ls_status ls_regress_turns(const ls_regress_task *task, ls_regress *out)
{
    turns t = {.task = task, .regress = out};
    if (task->results)
        LS_TRY(ls_results_open(task->results, true, &t.results));
    ls_status status = measure(&t);
    ls_results_close(t.results);
    return status;
}
