/* SPDX-License-Identifier: MIT */
/* Steady steps; see steady.h. */
#include "bench/statistics/steady.h"

#include "bench/statistics/level_changes.h"
#include "bench/statistics/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 8, MOST = 128 }; /* the search is quadratic in this number */

static const double near = 0.05;

ls_status ls_steady_from(const double *times, size_t n, size_t *out)
{
    bool changes[MOST + 1] = {false};
    size_t first = 0;
    const size_t looked = n < MOST ? n : MOST, least = n / 4;
    *out = 0;
    if (n < FEWEST)
        return LS_OK;
    double *sorted = calloc(n - least, sizeof *sorted);
    if (!sorted)
        return ls_fail_memory("statistics", (n - least) * sizeof *sorted);
    memcpy(sorted, times + least, (n - least) * sizeof *sorted);
    const double rest = ls_statistics_median(sorted, n - least);
    free(sorted);
    LS_TRY(ls_level_changes(times, looked, changes));
    for (size_t end = 1; end < looked && end <= least; end++) {
        double sum = 0;
        if (!changes[end])
            continue;
        for (size_t i = first; i < end; i++)
            sum += times[i];
        if (fabs(sum / (double)(end - first) - rest) <= near * rest)
            break;
        first = end;
    }
    *out = first;
    return LS_OK;
}
