/* SPDX-License-Identifier: MIT */
/*
 * Compares the rows of two results files, unpaired. They were measured at different times, so
 * bounds include how much one program drifts between two times. Both must come from one class of
 * machine. Rows with the same id are the same measurement, hence equal.
 */
#include "bench/output/results_db.h"
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
{
    const char *path, *before, *after;
    json_auto_t *sides = json_pack("{s:i,s:i}", "a", a, "b", b), *found = json_array();
    LS_TRY(ls_regress_do(regress, "other_class", sides, found));
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
               : ls_fail(
                     LS_CODE_MISSING, "regress", task->side[side],
                     "this file has no row of a %s; lockstep run --format jsonl > FILE writes rows",
                     task->where.narrows
                         ? "case that matches --where, so give other conditions or another file"
                         : "measured case, so give another file");
}

ls_status ls_regress_read(const ls_regress_task *task, ls_regress *out)
{
    json_auto_t *values = json_pack("{s:f}", "threshold", task->threshold);
    LS_TRY(read_side(task, LS_BASE, out));
    LS_TRY(read_side(task, LS_NEW, out));
    LS_TRY(ls_regress_judge(task, out));
    LS_TRY(check_class(task, out, LS_BASE, LS_NEW));
    return ls_regress_do(out, "unpaired", values, NULL);
}
