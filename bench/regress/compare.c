/* SPDX-License-Identifier: MIT */
/* A comparison from its beginning to its end; see regress.h. */
#include "bench/regress/regress.h"
#include "common/base/clock.h"

#include <stdlib.h>
#include <string.h>

static ls_status compare(const ls_regress_task *task, ls_regress *out)
{
    const bool files = ls_regress_is_file(task->side[LS_BASE]);
    if (files != ls_regress_is_file(task->side[LS_NEW]))
        return ls_fail(LS_CODE_USAGE, "regress", task->side[!files],
                       "is a program and %s a results file; give two of a kind (PROGRAM run "
                       "--format jsonl prints what a file holds)",
                       task->side[files]);
    if (files && task->option_count > 0)
        return ls_fail(LS_CODE_USAGE, "option", task->options[0],
                       "is one of run, and two results files run nothing; --where chooses cases");
    if (files)
        return ls_regress_read(task, out);
    LS_TRY(ls_regress_turns(task, out));
    return task->instructions ? ls_regress_instructions(task, &out->instructions) : LS_OK;
}

ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out)
{
    const uint64_t begin = ls_clock_ns();
    *out = (ls_regress){0};
    LS_TRY(compare(task, out));
    out->seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    for (size_t i = 0; i < out->count; i++) { /* nothing measured is never a pass */
        ls_regress_case *one = &out->cases[i];
        if (one->result.blocks == 0 && !one->error && json_array_size(one->worse) == 0)
            one->error = strdup("no block was measured on both sides");
    }
    return LS_OK;
}
