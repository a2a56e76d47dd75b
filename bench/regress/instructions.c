/* SPDX-License-Identifier: MIT */
/*
 * Instructions, counted by callgrind: a second opinion without noise. The count of a run with few
 * steps is subtracted from one with many, which leaves the steps. They are untimed, so that nothing
 * else is measured, and use little data by default, since each instruction takes some 50 times as
 * long. The count does not see waiting, memory or clocks, and valgrind may not know a processor's
 * instructions, so that other kernels run. Hence the count is reported, and decides nothing.
 */
#include "bench/regress/regress.h"

#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t count_most_ns = 120000000000; /* for each of four runs */

enum { FEW_STEPS = 2, MANY_STEPS = 22 };

/* The number of steps is free to choose. */
static bool is_countable(const ls_regress_task *task)
{
    return !task->fixed_steps && !ls_regress_is_given(task, "--warmup=");
}

ls_status ls_regress_can_count(const ls_regress_task *task)
{
    static char name[] = "valgrind", version[] = "--version";
    char *const command[] = {name, version, NULL};
    ls_closing(ls_child_free) ls_child child = {0};
    if (!task->instructions || !is_countable(task))
        return LS_OK;
    ls_status status = ls_child_run(command, count_most_ns, &child);
    if (!status || ls_status_code(status) == LS_CODE_INTERRUPTED)
        return status;
    ls_status_free(status);
    return ls_fail(LS_CODE_MISSING, "option", "--instructions",
                   "valgrind, which counts instructions, cannot be started; install Debian's "
                   "package valgrind, or remove --instructions");
}

static ls_status count_once(const ls_regress_task *task, int side, int steps, double *out,
                            char *why, size_t size)
{
    static const char *const valgrind[] = {
        "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes", NULL};
    char count[32], line[400];
    const char *after[] = {
        count, "--steps=0", "--blocks=1", "--gate-steps=0", "--batch=32", "--data=synthetic:512",
        NULL};
    ls_closing(ls_child_free) ls_child child = {0};
    snprintf(count, sizeof count, "--warmup=%d", steps);
    ls_status status = ls_regress_run(task, side, valgrind, after, count_most_ns, &child);
    const char *found = status ? NULL : strstr(child.err, "Collected :");
    *out = found ? strtod(found + 11, NULL) : 0;
    if (!status && !found)
        snprintf(why, size,
                 "callgrind counted nothing; run this program under valgrind --tool=callgrind to "
                 "see why; its last message is: %s",
                 *ls_child_says(&child, line, sizeof line) ? line : "(none)");
    return status;
}

ls_status ls_regress_instructions(const ls_regress_task *task, json_t **out)
{
    double counted[LS_SIDES];
    char why[512] = "";
    if (!is_countable(task))
        snprintf(why, sizeof why,
                 "not counted: the program must run with two different numbers of steps, which "
                 "lockstep chooses; remove --steps, --warmup, --epochs and --plan");
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
