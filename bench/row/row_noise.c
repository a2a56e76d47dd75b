/* SPDX-License-Identifier: MIT */
/* A row's group `noise`: what others took of the case's cores while it was timed; joined over
 * ranks, and in words. */
#include "bench/output/format_parts.h"
#include "bench/row/row.h"
#include "bench/row/row_noise.h"

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

/* Whether threads of other ranks, which this process cannot subtract, may run on its cores: they
 * wait while this one trains alone. */
static bool is_beside_ranks(const ls_row_facts *f)
{
    return !f->plan->job.comm && f->workplace->request->processes->parts > 1;
}

json_t *ls_row_noise(const ls_row_facts *f)
{
    const ls_noise *noise = &f->trial->noise;
    const ls_noise_found found = ls_noise_judge(noise, 1.0 / (double)sysconf(_SC_CLK_TCK));
    json_t *group = json_object();
    if (isfinite(found.others) && !is_beside_ranks(f)) {
        int cores[64];
        const size_t count = ls_noise_list(&noise->devices[found.device].cores, cores, 64);
        json_t *list = json_array();
        for (size_t c = 0; c < count; c++)
            json_array_append_new(list, json_integer(cores[c]));
        ls_put_real(group, "others", found.others);
        json_object_set_new(group, "cores", list);
    }
    ls_put_real(group, "stolen", found.stolen);
    ls_put_real(group, "throttled", found.throttled);
    ls_put_real(group, "heat", noise->hot_last - noise->hot_first);
    ls_put_real(group, "mhz_first", noise->mhz_first);
    ls_put_real(group, "mhz_last", noise->mhz_last);
    return group;
}

void ls_row_join_noise(const json_t *rows, int ranks, bool shared)
{
    json_t *joined = json_object_get(json_array_get(rows, 0), "noise");
    for (int r = 0; r < ranks && joined; r++) {
        const json_t *its = json_object_get(json_array_get(rows, (size_t)r), "noise");
        json_t *value = json_object_get(its, "others");
        const double most = json_number_value(json_object_get(joined, "others"));
        if (!value || (r > 0 && json_number_value(value) <= most))
            continue;
        json_object_set(joined, "others", value);
        json_object_set(joined, "cores", json_object_get(its, "cores"));
        json_object_set_new(joined, "of_rank", json_integer(r));
    }
    for (int i = 0; i < 3 && shared; i++) {
        static const char *const of_others[] = {"others", "cores", "of_rank"};
        json_object_del(joined, of_others[i]);
    }
}

/* "core 3 for 50% of the time", "1.57 of cores 4+5 of rank 1": what others had. */
static void name_cores(const json_t *row, double others, char *text, size_t size)
{
    json_t *cores = ls_row_find(row, "noise.cores"), *rank = ls_row_find(row, "noise.of_rank");
    char *list = ls_value_text(cores), of[32] = "";
    if (list && strlen(list) > 32) { /* cut between two numbers */
        list[32] = 0;
        strcpy(strrchr(list, '+'), "+..");
    }
    if (rank)
        snprintf(of, sizeof of, " of rank %d", (int)json_integer_value(rank));
    if (json_array_size(cores) == 1)
        snprintf(text, size, "core %s%s for %.0f%% of the time", list ? list : "", of,
                 100 * others);
    else
        snprintf(text, size, "%.2f of cores %s%s", others, list ? list : "", of);
    free(list);
    json_decref(cores);
    json_decref(rank);
}

/* In words, what took most of its time; false: nothing took enough. */
static bool name_taker(const json_t *row, char *words, size_t size)
{
    const double others = ls_row_number(row, "noise.others");
    const double stolen = ls_row_number(row, "noise.stolen");
    const double throttled = ls_row_number(row, "noise.throttled");
    char cores[96];
    if (fmax(fmax(others, stolen), throttled) <= most_taken)
        return false;
    if (others >= stolen && others >= throttled) {
        name_cores(row, others, cores, sizeof cores);
        snprintf(words, size,
                 "others had %s while this case waited; taskset, or the launcher's binding, gives "
                 "it cores of its own",
                 cores);
    } else if (stolen >= throttled) {
        snprintf(words, size, "a hypervisor took %.0f%% of a core's time", 100 * stolen);
    } else {
        snprintf(words, size,
                 "a control group's quota held it back %.0f%% of the time; fewer devices or cores, "
                 "or a larger quota, works",
                 100 * throttled);
    }
    return true;
}

bool ls_row_noise_words(const json_t *row, char *words, size_t size)
{
    const double first = ls_row_number(row, "noise.mhz_first");
    const double last = ls_row_number(row, "noise.mhz_last");
    const bool lasts = ls_row_number(row, "time.timed_s") >= least_s;
    *words = 0;
    if (name_taker(row, words, size))
        return true;
    if (ls_row_number(row, "noise.heat") > 0)
        snprintf(words, size, "its first core was slowed down for heat");
    else if (lasts && last > 0 && last < slower * first)
        snprintf(words, size, "its first core went from %.0f to %.0f MHz", first, last);
    return *words != 0;
}
