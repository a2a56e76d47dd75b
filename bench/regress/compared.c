/* SPDX-License-Identifier: MIT */
/*
 * Matches the rows of both sides by case (bench/output/row_same.h). Rows left on both sides match
 * if their common fields are equal, since one program may not have a field. The number of blocks is
 * ignored, and so are steps where alternating runs choose their number.
 */
#include "bench/regress/regress.h"
#include "bench/report/report.h"
#include "common/base/clock.h"
#include "template_add.h"
#include "template_cases.h"
#include "template_steps.h"
#include "template_worse.h"

#include <unistd.h>

ls_status ls_regress_do(const ls_regress *regress, const char *step, const json_t *values,
                        json_t *out)
{
    return ls_results_section(regress->results, ls_template_steps, step, values, out);
}

unsigned ls_regress_but(const ls_regress_task *task)
{
    return LS_BUT_BLOCKS | (task->fixed_steps ? LS_BUT_TRAINED : LS_BUT_STEPS);
}

ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side, int64_t turn,
                         unsigned but, const json_t *rows)
{
    const ls_selection all = {.predictions = true};
    const ls_selection *meant = turn ? &all : &task->where;
    json_auto_t *values = json_pack("{s:O,s:i,s:I,s:I}", "rows", rows, "side", side, "turn",
                                    (json_int_t)turn, "but", (json_int_t)but);
    size_t count;
    LS_TRY(ls_regress_do(regress, "put", values, NULL));
    LS_TRY(ls_selection_choose(meant, regress->results, &count));
    LS_TRY(ls_selection_unmix(meant, regress->results));
    return ls_results_query(regress->results, ls_template_add, values, NULL);
}

/* What worse.sql wants of the task. */
static json_t *facts_of(const ls_regress_task *task)
{
    json_t *fail_on = json_array();
    for (size_t i = 0; i < task->fail_count; i++)
        json_array_append_new(fail_on, json_pack("{s:s,s:f}", "key", task->fail_on[i].path,
                                                 "tolerance", task->fail_on[i].tolerance));
    return json_pack("{s:o,s:s,s:s}", "fail_on", fail_on, "base", task->side[LS_BASE], "new",
                     task->side[LS_NEW]);
}

ls_status ls_regress_judge_each(const ls_regress_task *task, ls_regress *regress, const char *sql)
{
    json_auto_t *cases = json_array(), *facts = facts_of(task);
    json_t *one;
    size_t index;
    LS_TRY(ls_results_query(regress->results, sql, NULL, cases));
    json_array_foreach(cases, index, one)
    {
        json_object_update(one, facts);
        LS_TRY(ls_results_query(regress->results, ls_template_worse, one, NULL));
    }
    return ls_regress_do(regress, "decide", NULL, NULL);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

/* Gives a case of BASE the first case of NEW that is left and agrees in the common fields. */
static ls_status join(const ls_regress_task *task, const ls_regress *regress)
{
    json_auto_t *but = json_pack("{s:i}", "but", (int)ls_regress_but(task));
    LS_TRY(ls_regress_do(regress, "find", but, NULL));
    for (int64_t left = 1; left > 0;) {
        LS_TRY(ls_regress_do(regress, "join", NULL, NULL));
        LS_TRY(ls_results_ask(regress->results, "SELECT count(*) FROM alike", &left));
    }
    return LS_OK;
}

static ls_status name_cases(const ls_regress *regress)
{
    json_auto_t *rows = json_array();
    json_auto_t *names = NULL;
    LS_TRY(ls_regress_do(regress, "choose", NULL, NULL));
    LS_TRY(ls_results_chosen(regress->results, ls_results_collect, rows));
    LS_TRY(ls_report_names(rows, &names));
    json_auto_t *values = json_pack("{s:O}", "names", names);
    return ls_regress_do(regress, "name", values, NULL);
}

ls_status ls_regress_judge(const ls_regress_task *task, ls_regress *regress)
{
    json_auto_t *facts = facts_of(task), *found = json_array();
    const char *key;
    int64_t count;
    LS_TRY(join(task, regress));
    LS_TRY(ls_regress_do(regress, "make", NULL, NULL));
    LS_TRY(ls_results_ask(regress->results, "SELECT count(*) FROM cases", &count));
    if (count == 0)
        return ls_fail(LS_CODE_MISSING, "regress", task->side[LS_NEW],
                       "nothing can be compared, since %s",
                       task->where.narrows
                           ? "no row matches --where; give other conditions"
                           : "this program printed no result row of a case; run it alone with the "
                             "same options to see why");
    LS_TRY(ls_regress_judge_each(task, regress, "SELECT kase FROM cases"));
    LS_TRY(ls_regress_do(regress, "unknown", facts, found));
    if (json_unpack(found, "[{s:s}]", "key", &key) == 0) /* it would always pass */
        return ls_fail(LS_CODE_USAGE, "--fail-on", key,
                       "no row that is compared has this key; name a key that the rows have");
    return name_cases(regress);
}

/* ---- A comparison from its beginning to its end --------------------------------------------- */

static ls_status compare(const ls_regress_task *task, ls_regress *out)
{
    const bool files = ls_regress_is_file(task->side[LS_BASE]);
    if (files != ls_regress_is_file(task->side[LS_NEW]))
        return ls_fail(LS_CODE_USAGE, "regress", task->side[files],
                       "this is a program, but %s is a results file; name two programs or two "
                       "files (PROGRAM run --format jsonl > FILE makes a file)",
                       task->side[!files]);
    if (files && (task->option_count > 0 || task->instructions))
        return ls_fail(LS_CODE_USAGE, "option",
                       task->instructions ? "--instructions" : task->options[0],
                       "applies only to two programs, but two results files are compared; remove "
                       "this option%s",
                       task->instructions ? "" : " (to choose cases of files, use --where)");
    if (files)
        return ls_regress_read(task, out);
    LS_TRY(ls_regress_can_count(task));
    LS_TRY(ls_regress_turns(task, out));
    return task->instructions ? ls_regress_instructions(task, &out->instructions) : LS_OK;
}

ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out)
{
    const uint64_t begin = ls_clock_ns();
    *out = (ls_regress){0};
    LS_TRY(ls_results_memory(&out->results));
    LS_TRY(ls_results_execute(out->results, ls_template_cases));
    LS_TRY(compare(task, out));
    out->seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    return ls_regress_do(out, "unmeasured", NULL, NULL);
}

void ls_regress_close(ls_regress *regress)
{
    ls_results_close(regress->results);
    json_decref(regress->instructions);
    *regress = (ls_regress){0};
}

/* ---- Undecided ------------------------------------------------------------------------------ */

ls_status ls_regress_count_undecided(const char *path, int64_t most, ls_regress *regress)
{
    json_error_t error;
    json_auto_t *before = json_load_file(path, 0, &error);
    json_t *cases = NULL;
    if (access(path, F_OK) == 0 &&
        (json_unpack(before, "{s:o}", "cases", &cases) < 0 || !json_is_array(cases)))
        return ls_fail(LS_CODE_MISSING, "--fail-on undecided", path,
                       "this file is not an earlier report of lockstep regress: %s; name such a "
                       "report, or delete this file to count undecided comparisons from 0",
                       before ? "it has no cases" : error.text);
    json_auto_t *values = json_pack("{s:O*,s:I}", "before", cases, "most", (json_int_t)most);
    return ls_regress_do(regress, "undecided", values, NULL);
}
