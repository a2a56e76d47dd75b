/* SPDX-License-Identifier: MIT */
/*
 * Which figures besides time became worse: a gate that passed and now fails, more bytes, messages
 * or memory by formula, and the keys of --fail-on. Other differences are only reported. Which way
 * is worse is said in bench/rows/fields.def; of a text, any change is worse. worse.sql compares. If
 * the label of a base row begins "intended KEY, KEY" (a baseline that was renewed with a reason),
 * changes of the named keys are only reported.
 */
#include "bench/output/document.h"
#include "bench/regress/regress.h"
#include "template_worse.h"

#include <string.h>
#include <unistd.h>

ls_status ls_regress_judge_case(const ls_regress_task *task, ls_regress *regress,
                                ls_regress_case *one)
{
    json_auto_t *found = json_array(), *fail_on = json_array();
    json_t *line;
    size_t index;
    if (one->error)
        return LS_OK;
    for (size_t i = 0; i < task->fail_count; i++)
        json_array_append_new(fail_on, json_pack("{s:s,s:f}", "key", task->fail_on[i].path,
                                                 "tolerance", task->fail_on[i].tolerance));
    json_auto_t *document =
        json_pack("{s:O,s:{s:O,s:O},s:{s:O?,s:O?},s:{s:s,s:s},s:{s:b,s:b}}", "fail_on", fail_on,
                  "rows", "base", one->rows[LS_BASE], "new", one->rows[LS_NEW], "row", "base",
                  ls_regress_row(one, LS_BASE), "new", ls_regress_row(one, LS_NEW), "path", "base",
                  task->side[LS_BASE], "new", task->side[LS_NEW], "timed", "base",
                  one->logs[LS_BASE].count > 0, "new", one->logs[LS_NEW].count > 0);
    LS_TRY(ls_document_query(ls_template_worse, document, NULL, found));
    json_array_foreach(found, index, line)
    {
        const char *list = "", *text = "";
        json_t *change = NULL;
        json_unpack(line, "{s:s,s:s,s?o}", "list", &list, "text", &text, "change", &change);
        one->decided |= strcmp(list, "failed") == 0;
        if (strcmp(list, "error") == 0)
            one->error = strdup(text);
        else if (strcmp(list, "known") == 0)
            json_object_set_new(regress->known, text, json_true());
        else
            json_array_append(strcmp(list, "differences") == 0 ? one->differences : one->worse,
                              change);
    }
    return LS_OK;
}

/* ---- Undecided ------------------------------------------------------------------------------ */

/* The count of the case in the report before; 0 where it is not there. */
static json_int_t count_before(const json_t *before, const char *name)
{
    const char *other;
    json_int_t count = 0;
    for (size_t i = 0; i < json_array_size(before); i++)
        if (json_unpack(json_array_get(before, i), "{s:s}", "name", &other) == 0 &&
            strcmp(other, name) == 0) {
            json_unpack(json_array_get(before, i), "{s:I}", "undecided", &count);
            break;
        }
    return count;
}

ls_status ls_regress_count_undecided(const char *path, int64_t most, ls_regress *regress)
{
    json_error_t error;
    json_auto_t *before = json_load_file(path, 0, &error);
    json_t *cases = NULL;
    if (access(path, F_OK) == 0 &&
        (json_unpack(before, "{s:o}", "cases", &cases) < 0 || !json_is_array(cases)))
        return ls_fail(LS_CODE_MISSING, "--fail-on undecided", path,
                       "this file is not the report of an earlier comparison: %s; name another "
                       "file, or remove this file to begin a new count",
                       before ? "there are no cases in the file" : error.text);
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *one = &regress->cases[i];
        if (one->result.verdict != LS_VERDICT_CANNOT_TELL || one->error)
            continue;
        const json_int_t were = count_before(cases, one->name);
        one->undecided = were + 1;
        if (one->undecided >= most)
            json_array_append_new(one->worse,
                                  json_pack("{s:s,s:I,s:I,s:s}", "key", "undecided", "base", were,
                                            "new", one->undecided, "reason",
                                            "comparisons in a row that could not tell, which "
                                            "--fail-on undecided limits"));
    }
    return LS_OK;
}
