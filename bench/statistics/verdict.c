/* SPDX-License-Identifier: MIT */
/* Verdict; see verdict.h. */
#include "bench/statistics/verdict.h"

#include <math.h>

const char *ls_verdict_name(ls_verdict verdict)
{
    static const char *const names[] = {"cannot tell", "same", "faster", "slower"};
    return names[verdict];
}

ls_verdict ls_verdict_of(ls_bounds differs, double margin, ls_bounds alike, double near)
{
    if (differs.low > margin)
        return LS_VERDICT_SLOWER;
    if (differs.high < -margin)
        return LS_VERDICT_FASTER;
    return alike.low > -near && alike.high < near ? LS_VERDICT_SAME : LS_VERDICT_CANNOT_TELL;
}

ls_verdict ls_verdict_of_pair(ls_interval ratio)
{
    if (!(ratio.low > 0))
        return LS_VERDICT_CANNOT_TELL;
    const ls_bounds bounds = {log(ratio.low), log(ratio.high)};
    return ls_verdict_of(bounds, 0, bounds, log(1.05));
}
