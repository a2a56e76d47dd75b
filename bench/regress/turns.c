/* SPDX-License-Identifier: MIT */
/*
 * Turns: blocks of two programs run alternately; a coin decides the order within each pair. A block
 * is one process, `PROGRAM run OPTIONS --format jsonl`. The first block of each side runs with the
 * given options and the gate, and shows which cases there are. Later blocks skip the gate, and
 * unless the number of steps is given, they time steps for BLOCK_MS. Rows are kept as printed.
 */
#include "bench/regress/regress.h"
#include "bench/rows/put.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/random/philox.h"

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
                       "this program was ended by signal %d (%s), so it cannot be compared; run "
                       "it alone to see why",
                       child->signal, strsignal(child->signal));
    if (child->code == LS_CODE_USAGE) /* NEW, which runs first, accepts the options */
        return ls_fail(LS_CODE_MISSING, "regress", path,
                       "this program refuses the options%s; remove the refused option; its last "
                       "message is: %s",
                       side == LS_BASE ? " (perhaps it is too old for one)" : "",
                       *line ? line : "(none)");
    return ls_fail(
        LS_CODE_MISSING, "regress", path,
        "this program ended with exit status %d; run it alone to see why; its last message is: %s",
        child->code, *line ? line : "(none)");
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
            return ls_fail(
                LS_CODE_MISSING, "regress", path,
                "was started with `run --format jsonl`, but printed a line that is not a "
                "result row of schema 1: '%.60s'; name a build of lockstep",
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
    ls_child child = {0};
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
        well &= strcmp(ls_row_string(json_array_get(rows, i), LS_F_result_status), "ok") == 0;
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
    int64_t cases;
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

/* Sets the number of steps of a block (steps.sql). */
static ls_status fit_steps(turns *t)
{
    json_int_t steps = 0;
    json_auto_t *values =
        json_pack("{s:i,s:i,s:i}", "block", BLOCK_MS, "most", STEPS_MOST, "least", STEPS_LEAST);
    json_auto_t *found = json_array();
    LS_TRY(ls_regress_do(t->regress, "steps", values, found));
    json_unpack(found, "[{s:I}]", "steps", &steps);
    t->steps = steps;
    return LS_OK;
}

static ls_status run_side(turns *t, int side, int64_t turn)
{
    json_auto_t *rows = json_array();
    const uint64_t now = ls_clock_ns(), left = t->deadline > now ? t->deadline - now : 0;
    LS_TRY(take_block(t, side, false, left + 60 * second, rows));
    LS_TRY(ls_regress_add(t->regress, t->task, side, turn, ls_regress_but(t->task), rows));
    return ls_regress_judge_each(t->task, t->regress, "SELECT kase FROM lost");
}

/* Runs a pair of blocks: each case measured in both gets one more log ratio. */
static ls_status run_pair(turns *t, int64_t turn)
{
    const ls_random order = ls_random_stream(t->task->seed, "regress/order");
    const int first = ls_random_bits(order, (uint64_t)turn) & 1 ? LS_NEW : LS_BASE;
    LS_TRY(run_side(t, first, turn));
    LS_TRY(run_side(t, !first, turn));
    return ls_regress_do(t->regress, "lone", NULL, NULL);
}

/* ---- Looks ---------------------------------------------------------------------------------- */

static const char undecided[] = "SELECT count(*) FROM cases WHERE NOT decided";

/* Tests all undecided cases; *open: how many remain undecided. */
static ls_status look(turns *t, ls_ratio_test *test, double share, int64_t *open)
{
    json_auto_t *values = json_pack(
        "{s:f,s:f,s:I,s:f,s:f}", "seconds", (double)(ls_clock_ns() - t->begin) * 1e-9, "threshold",
        test->threshold, "cases", (json_int_t)t->cases, "spent", test->spent, "share", share);
    LS_TRY(ls_regress_do(t->regress, "look", values, NULL));
    test->spent = share;
    return ls_results_ask(t->regress->results, undecided, open);
}

static ls_status take_turns(turns *t)
{
    static const char fewest[] = "SELECT min((SELECT count(*) FROM times WHERE times.kase ="
                                 " cases.kase AND side = 1)) FROM cases WHERE NOT decided";
    ls_ratio_test test = {.threshold = t->task->threshold, .cases = (size_t)t->cases};
    const uint64_t each = 60 * second * test.cases;
    const double max_s = 1e-9 * (double)(t->task->max_ns       ? t->task->max_ns
                                         : each < 600 * second ? each
                                                               : 600 * second);
    int64_t open, blocks;
    LS_TRY(ls_results_ask(t->regress->results, undecided, &open));
    t->begin = ls_clock_ns();
    t->deadline = t->begin + (uint64_t)(max_s * 1e9);
    if (!t->task->quiet && open > 0)
        ls_log_stderr("regress: %lld cases to compare; the two programs run in turn, for at most "
                      "%.0f s in all",
                      (long long)open, max_s);
    for (int64_t pairs = 0; open > 0 && test.spent < 1;) {
        LS_TRY(run_pair(t, ++pairs));
        LS_TRY(ls_results_ask(t->regress->results, undecided, &open)); /* errors decide, too */
        LS_TRY(ls_results_ask(t->regress->results, fewest, &blocks));
        const double spent = (double)(ls_clock_ns() - t->begin) * 1e-9 / max_s;
        const bool last = spent * (1 + 1.0 / (double)pairs) > 1 || pairs == LS_RATIO_BLOCKS_MOST;
        const double share = last ? 1 : ls_ratio_due(&test, (size_t)blocks, spent);
        if (share <= 0 || !open)
            continue;
        LS_TRY(look(t, &test, share, &open));
        if (!t->task->quiet)
            ls_log_stderr(
                "regress: after %.0f s (runs of each program: %lld), undecided cases: %lld%s",
                spent * max_s, (long long)pairs, (long long)open,
                open > 0 && share < 1 ? "; measuring goes on" : "");
    }
    return LS_OK;
}

static ls_status measure(turns *t)
{
    const ls_regress_task *task = t->task;
    for (int side = LS_SIDES; side-- > 0;) { /* NEW first: options that nobody knows are not */
        json_auto_t *rows = json_array();    /* blamed on an old base */
        LS_TRY(take_block(t, side, true, block_most_ns, rows));
        LS_TRY(ls_regress_add(t->regress, task, side, 0, ls_regress_but(task), rows));
    }
    LS_TRY(ls_regress_judge(task, t->regress));
    LS_TRY(ls_results_ask(t->regress->results, "SELECT count(*) FROM cases", &t->cases));
    if (task->calibrates)
        LS_TRY(ls_regress_do(t->regress, "slow", NULL, NULL));
    if (!task->fixed_steps)
        LS_TRY(fit_steps(t));
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
