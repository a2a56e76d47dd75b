/* SPDX-License-Identifier: MIT */
/* A row's group `noise`: what others took of the case's cores while it was timed; and in
 * words. */
#include "bench/output/format.h"
#include "bench/row/row.h"
#include "bench/row/findings.h"
#include "bench/rows/put.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * From which share of the timed time on a disturbance is worth a warning. `regress` looks for
 * slow-downs of 5%; what takes less than half of that does not decide such a comparison alone.
 */
static const double most_taken = 0.02, slower = 0.95;
/* Shorter runs say little about the clock. */
static const double least_s = 0.1;

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

/* "core 3 for 50% of the time", "1.57 of cores 4+5 of rank 1": what others had. */
static void name_cores(const json_t *row, double others, char *text, size_t size)
{
    char *list = ls_value_text(ls_row_get(row, LS_F_noise_cores)), of[32] = "";
    if (list && strlen(list) > 32) { /* cut between two numbers */
        list[32] = 0;
        strcpy(strrchr(list, '+'), "+..");
    }
    if (ls_row_has(row, LS_F_noise_of_rank))
        snprintf(of, sizeof of, " of rank %d", (int)ls_row_integer(row, LS_F_noise_of_rank));
    if (ls_row_count(row, LS_F_noise_cores) == 1)
        snprintf(text, size, "core %s%s for %.0f%% of the time", list ? list : "", of,
                 100 * others);
    else
        snprintf(text, size, "%.2f of cores %s%s", others, list ? list : "", of);
    free(list);
}

bool ls_row_noise_words(const json_t *row, char *words, size_t size)
{
    const double others = ls_row_real(row, LS_F_noise_others);
    const double stolen = ls_row_real(row, LS_F_noise_stolen);
    const double throttled = ls_row_real(row, LS_F_noise_throttled);
    const double first = ls_row_real(row, LS_F_noise_mhz_first);
    const double last = ls_row_real(row, LS_F_noise_mhz_last);
    char cores[96];
    *words = 0;
    if (others > most_taken && others >= stolen && others >= throttled) {
        name_cores(row, others, cores, sizeof cores);
        snprintf(words, size,
                 "other programs used %s while this case waited; taskset, or the launcher's "
                 "binding, gives "
                 "it separate cores",
                 cores);
    } else if (stolen > most_taken && stolen >= throttled) {
        snprintf(words, size, "a hypervisor took %.0f%% of a core's time", 100 * stolen);
    } else if (throttled > most_taken) {
        snprintf(words, size,
                 "a control group's quota held it back %.0f%% of the time; fewer devices or cores, "
                 "or a larger quota, works",
                 100 * throttled);
    } else if (ls_row_real(row, LS_F_noise_heat) > 0) {
        snprintf(words, size, "its first core was slowed down for heat");
    } else if (ls_row_real(row, LS_F_time_timed_s) >= least_s && last > 0 &&
               last < slower * first) {
        snprintf(words, size, "its first core went from %.0f to %.0f MHz", first, last);
    }
    return *words;
}
