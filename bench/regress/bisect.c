/* SPDX-License-Identifier: MIT */
/* Bisection; see regress.h. */
#include "bench/regress/regress.h"

ls_status ls_regress_bisect(const ls_regress_task *task, const char *good, const char *bad,
                            const char *build, FILE *stream, int *exit_status)
{
    (void)task, (void)bad, (void)build, (void)stream, (void)exit_status;
    return ls_fail(LS_CODE_USAGE, "--bisect", good, "not yet");
}
