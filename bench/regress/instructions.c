/* SPDX-License-Identifier: MIT */
/*
 * Instructions, counted by callgrind: a second opinion that no noise reaches. The steps' alone: of
 * a run of many steps less one of few. It says nothing about waiting, memory or clocks, and a
 * processor that valgrind does not know all of runs other kernels; so it is told, and judges
 * nothing.
 */
#include "bench/regress/child.h"
#include "bench/regress/regress.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t count_most_ns = 120000000000; /* of each of four runs */

enum { FEW_STEPS = 5, MANY_STEPS = 25 };

static ls_status count_once(const ls_regress_task *task, int side, int steps, double *out,
                            char *why, size_t size)
{
    char count[32];
    char **argv = calloc(task->option_count + 16, sizeof *argv);
    size_t n = 0;
    ls_child child;
    static const char *const head[] = {"valgrind", "--tool=callgrind",
                                       "--callgrind-out-file=/dev/null", "--fair-sched=yes"};
    static const char *const tail[] = {"--format=jsonl", "--results=none"};
    if (!argv)
        return ls_fail_memory("options", 0);
    for (size_t i = 0; i < 4; i++)
        argv[n++] = (char *)(size_t)head[i];
    argv[n++] = (char *)(size_t)task->side[side];
    argv[n++] = (char *)(size_t) "run";
    for (size_t i = 0; i < task->option_count; i++)
        argv[n++] = task->options[i];
    for (size_t i = 0; i < 2; i++)
        argv[n++] = (char *)(size_t)tail[i];
    snprintf(count, sizeof count, "--steps=%d", steps);
    argv[n++] = count;
    if (!task->fixed_gate)
        argv[n++] = (char *)(size_t) "--gate-steps=0";
    ls_status status = ls_child_run(argv, NULL, count_most_ns, &child);
    free(argv);
    const char *found = status ? NULL : strstr(child.err, "Collected :");
    *out = found ? strtod(found + 11, NULL) : 0;
    if (!status && !found) {
        char line[400];
        snprintf(why, size, "callgrind counted nothing: %s", ls_child_says(&child, line, 400));
    }
    ls_child_free(&child);
    return status;
}

ls_status ls_regress_instructions(const ls_regress_task *task, json_t **out)
{
    double counted[LS_SIDES];
    char why[512] = "";
    if (task->fixed_steps)
        snprintf(why, sizeof why,
                 "not counted: leave --steps, --epochs and --plan out, so that two "
                 "numbers of steps can be compared");
    for (int side = 0; side < LS_SIDES && !*why; side++) {
        double few = 0, many = 0;
        ls_status status = count_once(task, side, FEW_STEPS, &few, why, sizeof why);
        if (!status && !*why)
            status = count_once(task, side, MANY_STEPS, &many, why, sizeof why);
        if (status && ls_status_code(status) == LS_CODE_INTERRUPTED)
            return status;
        if (status)
            snprintf(why, sizeof why, "not counted: %s", ls_status_text(status));
        ls_status_free(status);
        counted[side] = (many - few) / (MANY_STEPS - FEW_STEPS);
    }
    *out = *why || !(counted[LS_BASE] > 0)
               ? json_string(*why ? why : "none were counted")
               : json_pack("{s:f,s:f,s:f}", "base", counted[LS_BASE], "new", counted[LS_NEW],
                           "ratio", counted[LS_NEW] / counted[LS_BASE]);
    return LS_OK;
}
