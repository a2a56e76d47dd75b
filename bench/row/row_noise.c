/* SPDX-License-Identifier: MIT */
/* A row's group `noise`: what others took of the case's cores while it was timed. */
#include "bench/row/row.h"
#include "bench/rows/put.h"

#include <math.h>
#include <unistd.h>

void ls_row_put_noise(const ls_row_facts *f, json_t *row)
{
    const ls_noise *noise = &f->trial->noise;
    const ls_noise_found found = ls_noise_judge(noise, 1.0 / (double)sysconf(_SC_CLK_TCK));
    /* Threads of other ranks, which this process cannot subtract, may run on its cores: they wait
     * while it trains alone. */
    const bool has_siblings =
        !f->plan->job.ranks.comm && f->workplace->request->processes->parts > 1;
    if (isfinite(found.others) && !has_siblings) {
        int cores[64];
        const size_t count = ls_noise_list(&noise->devices[found.device].cores, cores, 64);
        ls_put_noise_others(row, found.others);
        ls_put_noise_cores(row, json_array());
        for (size_t c = 0; c < count; c++)
            ls_row_append(row, LS_F_noise_cores, json_integer(cores[c]));
    }
    ls_put_noise_stolen(row, found.stolen);
    ls_put_noise_throttled(row, found.throttled);
    ls_put_noise_heat(row, noise->hot_last - noise->hot_first);
    ls_put_noise_mhz_first(row, noise->mhz_first);
    ls_put_noise_mhz_last(row, noise->mhz_last);
}
