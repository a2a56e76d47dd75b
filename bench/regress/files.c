/* SPDX-License-Identifier: MIT */
/*
 * Compares the rows of two results files, unpaired. They were measured at different times, so
 * bounds include how much one program drifts between two times. Both must come from one class of
 * machine. Rows with the same id are the same measurement, hence equal.
 */
#include "bench/output/rows_file.h"
#include "bench/regress/regress.h"
#include "bench/rows/fields.h"

#include <string.h>
#include <sys/stat.h>

bool ls_regress_is_file(const char *path)
{
    static const char *const endings[] = {".jsonl", ".db", ".json", ".sqlite"};
    const char *end = strrchr(path, '.');
    struct stat facts;
    bool found = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode); /* of a report */
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        found |= end && end != path && strcmp(end, endings[i]) == 0;
    return found;
}

/* Refuses rows that were measured on another class of machine than the row that represents their
 * case on side `a`. */
static ls_status check_class(const ls_regress_task *task, const ls_regress *regress, int a, int b)
{ /* 48: LS_OF_CLASS | LS_OF_SHARE */
    static const char sql[] =
        "SELECT path, ifnull(nullif(row_text(a, path), ''), 'none') AS a,"
        " ifnull(nullif(row_text(b, path), ''), 'none') AS b"
        " FROM (SELECT base.row AS a, rows.row AS b, other_machine(base.row, rows.row, 48) AS path"
        "  FROM represents AS base JOIN held AS other USING (kase)"
        "  JOIN main.rows ON rows.rowid = other.number WHERE base.side = :a AND other.side = :b"
        "  AND (:a = :b OR other.number IN (SELECT number FROM represents))"
        "  ORDER BY kase, other.number)"
        " WHERE path IS NOT NULL LIMIT 1";
    const char *path, *before, *after;
    json_auto_t *sides = json_pack("{s:i,s:i}", "a", a, "b", b), *found = json_array();
    LS_TRY(ls_results_query(regress->results, sql, sides, found));
    if (json_unpack(found, "[{s:s,s:s,s:s}]", "path", &path, "a", &before, "b", &after) != 0)
        return LS_OK;
    if (a == b)
        return ls_fail(LS_CODE_MISSING, "regress", task->side[a],
                       "rows of one case were measured on different kinds of machines: %s is %s, "
                       "but %s in another row; choose rows of one machine with --where",
                       strchr(path, '.') + 1, before, after);
    return ls_fail(
        LS_CODE_MISSING, "regress", task->side[a],
        "the two files were measured on different kinds of machines: %s is %s in this file, but %s "
        "in %s; measure both files on one machine, or on machines of the same kind",
        strchr(path, '.') + 1, before, after, task->side[b]);
}

/* Adds the rows of a file. Rows with other steps are matched once all are read. */
static ls_status read_side(const ls_regress_task *task, int side, ls_regress *regress)
{
    json_auto_t *rows = json_array();
    int64_t any;
    LS_TRY(ls_rows_each("regress", task->side[side], ls_results_collect, rows));
    LS_TRY(ls_regress_add(regress, task, side, 0, LS_BUT_BLOCKS | LS_BUT_TRAINED, rows));
    LS_TRY(check_class(task, regress, side, side));
    LS_TRY(ls_results_ask(regress->results, "SELECT count(*) FROM fresh", &any));
    return any ? LS_OK
               : ls_fail(LS_CODE_MISSING, "regress", task->side[side],
                         "this file has no row of a case%s; lockstep run --format jsonl > FILE "
                         "makes such a file",
                         task->where.narrows ? " that matches --where" : "");
}

ls_status ls_regress_read(const ls_regress_task *task, ls_regress *out)
{
    /* 0.01: the standard deviation of the logarithm of a median step between two times on one
     * machine. `half`: of the first interval of a row. */
    static const char sql[] =
        "INSERT INTO times SELECT 0, side, kase, ln(pace) FROM held WHERE pace > 0 ORDER BY number;"
        "CREATE TEMP TABLE sides AS SELECT kase, side,"
        " (SELECT row ->> '$.id' FROM represents AS r WHERE r.kase = h.kase AND r.side = h.side)"
        "  AS id,"
        " (SELECT '[' || group_concat(number_text(ln)) || ']' FROM times AS t"
        "  WHERE t.kase = h.kase AND t.side = h.side) AS logs,"
        " (SELECT half FROM held AS one WHERE one.kase = h.kase AND one.side = h.side"
        "  AND half > 0 ORDER BY number LIMIT 1) AS half"
        " FROM held AS h GROUP BY kase, side;"
        "UPDATE cases SET result = (SELECT iif(a.id = b.id AND a.logs = b.logs,"
        "  json_object('verdict', 'same', 'ratio', 1.0, 'low', 1.0, 'high', 1.0, 'blocks',"
        "   json_array_length(a.logs), 'more', 0),"
        "  unpaired(a.logs, a.half, b.logs, b.half, :threshold,"
        "   (SELECT count(*) FROM cases), 0.01))"
        " FROM sides AS a JOIN sides AS b ON a.kase = cases.kase AND b.kase = cases.kase"
        " AND b.side > a.side) WHERE NOT decided";
    json_auto_t *values = json_pack("{s:f}", "threshold", task->threshold);
    LS_TRY(read_side(task, LS_BASE, out));
    LS_TRY(read_side(task, LS_NEW, out));
    LS_TRY(ls_regress_judge(task, out));
    LS_TRY(check_class(task, out, LS_BASE, LS_NEW));
    return ls_results_query(out->results, sql, values, NULL);
}
