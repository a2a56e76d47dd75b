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
#include "template_worse.h"

#include <unistd.h>

unsigned ls_regress_but(const ls_regress_task *task)
{
    return LS_BUT_BLOCKS | (task->fixed_steps ? LS_BUT_TRAINED : LS_BUT_STEPS);
}

ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side, int64_t turn,
                         unsigned but, const json_t *rows)
{
    static const char put[] = "INSERT INTO main.rows (id, row)"
                              " SELECT :side || ' ' || :turn || ' ' || key, value"
                              " FROM json_each(:rows)";
    const ls_selection all = {.predictions = true};
    const ls_selection *meant = turn ? &all : &task->where;
    json_auto_t *values = json_pack("{s:O,s:i,s:I,s:I}", "rows", rows, "side", side, "turn",
                                    (json_int_t)turn, "but", (json_int_t)but);
    size_t count;
    LS_TRY(ls_results_query(regress->results, put, values, NULL));
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
    static const char decide[] =
        "UPDATE cases SET decided = 1"
        " WHERE kase IN (SELECT kase FROM found WHERE list IN ('error', 'failed'))";
    json_auto_t *cases = json_array(), *facts = facts_of(task);
    json_t *one;
    size_t index;
    LS_TRY(ls_results_query(regress->results, sql, NULL, cases));
    json_array_foreach(cases, index, one)
    {
        json_object_update(one, facts);
        LS_TRY(ls_results_query(regress->results, ls_template_worse, one, NULL));
    }
    return ls_results_execute(regress->results, decide);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

/* Gives a case of BASE the first case of NEW that is left and agrees in the common fields. */
static ls_status join(const ls_regress_task *task, const ls_regress *regress)
{
    static const char find[] =
        "CREATE TEMP TABLE alike AS SELECT a.kase AS a, b.kase AS b FROM represents AS a"
        " JOIN represents AS b ON a.side = 0 AND b.side = 1"
        " WHERE a.kase NOT IN (SELECT kase FROM held WHERE side = 1)"
        " AND b.kase NOT IN (SELECT kase FROM held WHERE side = 0)"
        " AND same_case(a.row, b.row, :but) ORDER BY 1, 2";
    static const char next[] =
        "UPDATE held SET kase = (SELECT a FROM alike) WHERE kase = (SELECT b FROM alike);"
        "UPDATE keys SET kase = (SELECT a FROM alike) WHERE kase = (SELECT b FROM alike);"
        "DELETE FROM alike WHERE a IN (SELECT kase FROM held WHERE side = 1)"
        " OR b NOT IN (SELECT kase FROM held)";
    json_auto_t *but = json_pack("{s:i}", "but", (int)ls_regress_but(task));
    LS_TRY(ls_results_query(regress->results, find, but, NULL));
    for (int64_t left = 1; left > 0;) {
        LS_TRY(ls_results_execute(regress->results, next));
        LS_TRY(ls_results_ask(regress->results, "SELECT count(*) FROM alike", &left));
    }
    return LS_OK;
}

static ls_status name_cases(ls_results *results)
{
    static const char choose[] = "DELETE FROM chosen; INSERT INTO chosen (number)"
                                 " SELECT number FROM either ORDER BY kase";
    static const char put[] =
        "UPDATE cases SET name = trim(ifnull(row ->> '$.case.model', '') || ' ' || told)"
        " FROM (SELECT kase, row, ltrim(one.value ->> 'name') AS told"
        "  FROM (SELECT *, row_number() OVER (ORDER BY kase) - 1 AS nth FROM either)"
        "  JOIN json_each(:names) AS one ON one.key = nth) AS named WHERE named.kase = cases.kase";
    json_auto_t *rows = json_array();
    json_auto_t *names = NULL;
    LS_TRY(ls_results_execute(results, choose));
    LS_TRY(ls_results_chosen(results, ls_results_collect, rows));
    LS_TRY(ls_report_names(rows, &names));
    json_auto_t *values = json_pack("{s:O}", "names", names);
    return ls_results_query(results, put, values, NULL);
}

ls_status ls_regress_judge(const ls_regress_task *task, ls_regress *regress)
{
    static const char make[] =
        "INSERT INTO cases (kase) SELECT DISTINCT kase FROM held ORDER BY kase";
    static const char unknown[] =
        "WITH known AS (SELECT text FROM found WHERE list = 'known')"
        " SELECT value ->> 'key' AS key FROM json_each(:fail_on)"
        " WHERE value ->> 'key' NOT IN known AND '' IN known ORDER BY json_each.key LIMIT 1";
    json_auto_t *facts = facts_of(task), *found = json_array();
    const char *key;
    int64_t count;
    LS_TRY(join(task, regress));
    LS_TRY(ls_results_execute(regress->results, make));
    LS_TRY(ls_results_ask(regress->results, "SELECT count(*) FROM cases", &count));
    if (count == 0)
        return ls_fail(
            LS_CODE_MISSING, "regress", task->side[LS_NEW],
            "there is no case to compare, since no row %s; change the options of the case",
            task->where.narrows ? "matches --where" : "has a case");
    LS_TRY(ls_regress_judge_each(task, regress, "SELECT kase FROM cases"));
    LS_TRY(ls_results_query(regress->results, unknown, facts, found));
    if (json_unpack(found, "[{s:s}]", "key", &key) == 0) /* it would always pass */
        return ls_fail(LS_CODE_USAGE, "--fail-on", key,
                       "no row that is compared has this key; name a key that the rows have");
    return name_cases(regress->results);
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
                       "this option (--where chooses cases)");
    if (files)
        return ls_regress_read(task, out);
    LS_TRY(ls_regress_can_count(task));
    LS_TRY(ls_regress_turns(task, out));
    return task->instructions ? ls_regress_instructions(task, &out->instructions) : LS_OK;
}

ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out)
{
    static const char unmeasured[] = /* which is not a pass */
        "INSERT INTO found (kase, list, text)"
        " SELECT kase, 'error', 'no block of steps was timed with both programs; raise --max-time' "
        "FROM cases"
        " WHERE NOT ifnull(result ->> 'blocks', 0) AND kase NOT IN"
        " (SELECT kase FROM found WHERE list IN ('error', 'failed', 'worse'))";
    const uint64_t begin = ls_clock_ns();
    *out = (ls_regress){0};
    LS_TRY(ls_results_memory(&out->results));
    ls_regress_add_functions(ls_results_handle(out->results));
    LS_TRY(ls_results_execute(out->results, ls_template_cases));
    LS_TRY(compare(task, out));
    out->seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    return ls_results_execute(out->results, unmeasured);
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
    static const char sql[] =
        "UPDATE cases SET undecided = 1 + ifnull((SELECT value ->> 'undecided'"
        "  FROM json_each(:before) WHERE value ->> 'name' = name ORDER BY key LIMIT 1), 0)"
        " WHERE ifnull(result ->> 'verdict', 'cannot tell') = 'cannot tell'"
        " AND kase NOT IN (SELECT kase FROM found WHERE list = 'error');"
        "INSERT INTO found SELECT kase, 'worse', '', json_object('key', 'undecided', 'base',"
        "  undecided - 1, 'new', undecided, 'reason', 'comparisons in a row that could not tell,'"
        "  || ' which --fail-on undecided limits') FROM cases WHERE undecided >= :most";
    json_error_t error;
    json_auto_t *before = json_load_file(path, 0, &error);
    json_t *cases = NULL;
    if (access(path, F_OK) == 0 &&
        (json_unpack(before, "{s:o}", "cases", &cases) < 0 || !json_is_array(cases)))
        return ls_fail(LS_CODE_MISSING, "--fail-on undecided", path,
                       "this file is not the report of an earlier comparison: %s; name another "
                       "file, or remove this file to begin a new count",
                       before ? "there are no cases in the file" : error.text);
    json_auto_t *values = json_pack("{s:O*,s:I}", "before", cases, "most", (json_int_t)most);
    return ls_results_query(regress->results, sql, values, NULL);
}
