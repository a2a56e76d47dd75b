/* SPDX-License-Identifier: MIT */
/*
 * Resume; see command.h. What must be equal (label, program, case, machine, and the setup on it)
 * becomes one text, a *key*, both of each ok row in the results, which are counted, and of each
 * case, from the row that it would have.
 */
#include "bench/commands/command.h"

#include "bench/case/workplace.h"
#include "bench/output/results_db.h"
#include "bench/output/row_same.h"
#include "bench/progress/progress.h"
#include "bench/row/row.h"
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <string.h>
#include <unistd.h>

enum { COMPARED = LS_OF_LABEL | LS_OF_COMMIT | LS_OF_BUILD | LS_OF_MACHINE | LS_OF_SETUP };

typedef struct known_rows {
    json_t *counts; /* key: number of ok rows */
    unsigned but;   /* what does not count */
} known_rows;

static ls_status read_rows(const ls_request *request, known_rows *known)
{
    static const char sql[] = "SELECT case_key(row, :but, :of) AS key, count(*) AS count FROM v"
                              " WHERE \"result.status\" = 'ok' AND NOT is_predicted GROUP BY 1";
    ls_results *results;
    json_auto_t *rows = json_array();
    json_auto_t *values = json_pack("{s:i,s:i}", "but", (int)known->but, "of", COMPARED);
    json_t *one, *count;
    const char *key;
    size_t index;
    if (request->processes->rank > 0 || access(request->results, F_OK) != 0)
        return LS_OK; /* no results yet */
    LS_TRY(ls_results_open(request->results, false, &results));
    ls_status status = ls_results_query(results, sql, values, rows);
    json_array_foreach(rows, index, one)
    {
        if (json_unpack(one, "{s:s,s:o}", "key", &key, "count", &count) == 0)
            json_object_set(known->counts, key, count);
    }
    ls_results_close(results);
    return status;
}

/* Whether the case has a row for which no earlier repeat was skipped. */
static ls_status is_known(ls_workplace *workplace, const ls_case *one, known_rows *known, bool *out)
{
    ls_plan_of_case plan = {0};
    json_auto_t *row = NULL;
    const ls_processes *processes = workplace->request->processes;
    ls_status status = ls_world_agree(processes->comm, ls_plan_open(workplace, one, &plan));
    const bool planned = !status; /* on all ranks */
    if (planned)
        status = ls_row_build(&(ls_row_facts){.workplace = workplace, .plan = &plan}, &row);
    if (planned && plan.job.ranks.comm)
        status = ls_status_first(status, ls_row_join(processes, row));
    ls_auto char *key = status ? NULL : ls_row_identity(row, known->but, COMPARED);
    json_int_t count = 0;
    if (key)
        json_unpack(known->counts, "{s:I}", key, &count);
    if (count > 0)
        json_object_set_new(known->counts, key, json_integer(count - 1));
    uint64_t number = count > 0;
    if (planned)
        status = ls_world_turn(processes->comm, status, &number, NULL);
    *out = number;
    ls_plan_close(&plan);
    return status;
}

static ls_status leave_out(ls_request *request, ls_workplace *workplace, known_rows *known)
{
    size_t kept = 0;
    const size_t all = request->case_count;
    ls_status status = LS_OK;
    for (size_t i = 0; i < all && !status; i++) {
        bool drop = false;
        memmove(&request->cases[kept], &request->cases[i], sizeof *request->cases);
        status = is_known(workplace, &request->cases[kept], known, &drop);
        kept += !drop;
    }
    request->case_count = status ? all : kept;
    ls_progress_pause(workplace->progress);
    if (!status && request->processes->rank == 0)
        ls_log_line(&request->log, LS_LOG_NORMAL,
                    "resume: %zu of %zu cases have a row in %s already; %zu cases are left",
                    all - kept, all, request->results, kept);
    return status;
}

ls_status ls_resume(ls_request *request)
{
    known_rows known = {json_object(), request->budget_ns > 0 ? LS_BUT_STEPS : LS_BUT_TRAINED};
    ls_workplace workplace = {0};
    ls_comm *comm = request->processes->comm;
    ls_status status = ls_world_agree(comm, read_rows(request, &known));
    if (!status)
        status = ls_world_agree(comm, ls_workplace_open(request, &workplace));
    workplace.progress = ls_progress_open(stderr, request->progress);
    if (!status)
        status = leave_out(request, &workplace, &known);
    json_decref(known.counts);
    ls_progress_close(workplace.progress);
    ls_workplace_close(&workplace);
    return status;
}
