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
#include "bench/rows/row.h"
#include "template_worse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Comparing ------------------------------------------------------------------------------ */

/* The keys that a label "intended KEY, KEY: reason" lists. */
static json_t *intended_of(const json_t *base_row)
{
    static const char head[] = "intended";
    json_t *keys = json_array();
    const char *next = ls_row_string(base_row, LS_F_label);
    if (strncmp(next, head, sizeof head - 1) != 0)
        return keys;
    for (next += sizeof head - 1; *next == ' ' || *next == ',';) {
        next += strspn(next, " ,");
        const size_t length = strcspn(next, " ,:");
        const char *key = NULL;
        ls_status_free(ls_row_key_find("label", next, length, &key));
        json_array_append_new(keys, key ? json_string(key) : json_stringn(next, length));
        next += length;
    }
    return keys;
}

static ls_status compare_figures(const ls_regress_task *task, ls_regress_case *one)
{
    json_t *fail_on = json_array();
    for (size_t i = 0; i < task->fail_count; i++)
        json_array_append_new(fail_on, json_pack("{s:s,s:f}", "key", task->fail_on[i].path,
                                                 "tolerance", task->fail_on[i].tolerance));
    json_auto_t *document = json_pack("{s:o,s:o,s:O,s:O}", "fail_on", fail_on, "intended",
                                      intended_of(ls_regress_row(one, LS_BASE)), "base",
                                      one->rows[LS_BASE], "new", one->rows[LS_NEW]);
    json_auto_t *found = json_array();
    LS_TRY(ls_document_query(ls_template_worse, document, NULL, found));
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *row = json_array_get(found, i);
        json_array_append(json_integer_value(json_object_get(row, "fail")) ? one->worse
                                                                           : one->differences,
                          json_object_get(row, "change"));
    }
    return LS_OK;
}

/* ---- Whether there is anything to compare --------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void set_error(ls_regress_case *one, const char *why,
                                                            ...)
{
    va_list arguments;
    va_start(arguments, why);
    if (!one->error && vasprintf(&one->error, why, arguments) < 0)
        one->error = strdup("cannot be compared");
    va_end(arguments);
}

bool ls_regress_failed(const json_t *row)
{
    return json_is_false(ls_row_get(row, LS_F_equivalence_pass)) ||
           strcmp(ls_row_string(row, LS_F_result_status), "failed") == 0;
}

ls_status ls_regress_judge_case(const ls_regress_task *task, ls_regress_case *one)
{
    const char *status[LS_SIDES], *reason[LS_SIDES];
    bool failed[LS_SIDES];
    for (int side = 0; side < LS_SIDES; side++) {
        const json_t *row = ls_regress_row(one, side);
        status[side] = ls_row_has(row, LS_F_result_status) ? ls_row_string(row, LS_F_result_status)
                                                           : "unknown";
        reason[side] = ls_row_has(row, LS_F_result_reason) ? ls_row_string(row, LS_F_result_reason)
                                                           : "no reason is given";
        failed[side] = ls_regress_failed(row);
        if (!row)
            set_error(one, "is missing in %s", task->side[side]);
    }
    if (one->error)
        return LS_OK;
    if (failed[LS_NEW] && !failed[LS_BASE]) {
        json_array_append_new(one->worse,
                              json_pack("{s:s,s:s,s:s,s:s}", "key",
                                        ls_fields[LS_F_result_status].path, "base", status[LS_BASE],
                                        "new", status[LS_NEW], "reason", reason[LS_NEW]));
        one->decided = true;
        return LS_OK;
    }
    for (int side = 0; side < LS_SIDES; side++) {
        if (strcmp(status[side], "ok") != 0)
            set_error(one, "is %s in %s: %s", status[side], task->side[side], reason[side]);
        else if (one->logs[side].count == 0)
            set_error(one, "has no time in %s: nothing was measured", task->side[side]);
    }
    return one->error ? LS_OK : compare_figures(task, one);
}

ls_status ls_regress_check_keys(const ls_regress_task *task, const ls_regress *regress)
{
    for (size_t k = 0; k < task->fail_count; k++) {
        bool found = false, any_ok = false;
        for (size_t i = 0; i < LS_SIDES * regress->count && !found; i++) {
            json_t *row;
            size_t index;
            json_array_foreach(regress->cases[i / LS_SIDES].rows[i % LS_SIDES], index, row)
            {
                json_auto_t *value = ls_row_value(row, task->fail_on[k].path);
                any_ok |= ls_regress_is_ok(row);
                found |= value && ls_regress_is_ok(row);
            }
        }
        if (!found && any_ok)
            return ls_fail(
                LS_CODE_USAGE, "--fail-on", task->fail_on[k].path,
                "is in no row of either side, so it compares nothing; name a key that a row has");
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
                       "is not a report of a comparison: %s; delete it to count anew",
                       before ? "it has no cases" : error.text);
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
