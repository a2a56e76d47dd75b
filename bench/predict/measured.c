/* SPDX-License-Identifier: MIT */
/* Cases of measured rows; see measured.h. */
#include "bench/predict/measured.h"

#include "bench/case/case_facts.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "bench/rows/row.h"
#include "common/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options that the prediction sets itself, or that do not affect the time of a step. */
static const char *const left_out[] = {
    "steps",      "warmup",       "epochs", "link",
    "ranks",      "comm",         "label",  "model-parallel-place",
    "gate-steps", "eval-samples", "target", "capture",
    NULL};

/* Sets the case's options, in the order of the table. The case may borrow what `texts` keeps. */
static ls_status set_options(const json_t *row, ls_option_set *texts, ls_case *one)
{
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name; i++) {
        if (!table[i].sweeps || ls_name_is_among(table[i].name, left_out) ||
            !ls_option_applies(&table[i], one))
            continue;
        /* Devices as a number: the machine may have fewer. */
        ls_auto char *text = ls_option_of_row(&table[i], row, "cpu");
        const ls_option_given *given = &texts->given[i];
        if (!text || !*text)
            continue;
        LS_TRY(ls_option_set_append(texts, &table[i], text, NULL));
        const ls_setting setting = {
            .option = &table[i], .text = given->values[given->count - 1].text, .one = one};
        LS_TRY(table[i].set(&setting));
    }
    return LS_OK;
}

/* A row without a link, or of several ranks, has no network that is played. */
static bool find_network(const json_t *row, ls_measured_network *out)
{
    const char *link = ls_row_string(row, LS_F_case_link);
    if (*link)
        snprintf(out->platform, sizeof out->platform, "flat:%s", link);
    return ls_row_integer(row, LS_F_case_ranks) == 1 &&
           (*link || ls_row_count(row, LS_F_case_devices) < 2);
}

ls_status ls_measured_cases_open(const json_t *rows, size_t first, const ls_case *base,
                                 ls_measured_cases *out)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    *out = (ls_measured_cases){0};
    LS_TRY(ls_allocate("cases", &out->texts, 1, sizeof *out->texts));
    LS_TRY(ls_option_set_open(LS_FOR_RUN | LS_FOR_PREDICT, out->texts));
    for (size_t i = first; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ls_measured_network network = {""};
        ls_case one;
        if (!ls_row_group(row, LS_G_case) || ls_row_is_predicted(row) ||
            strcmp(ls_row_string(row, LS_F_result_status), "ok") != 0 ||
            ls_row_real(row, LS_F_time_step_ms_median) <= 0 ||
            strcmp(ls_row_string(row, LS_F_provenance_host), host) != 0)
            continue;
        memcpy(&one, base, sizeof one);
        const bool played = find_network(row, &network);
        ls_status refused = played ? set_options(row, out->texts, &one) : LS_OK;
        if (!played || refused) { /* refused: of another version */
            ls_status_free(refused);
            out->others++;
            continue;
        }
        bool known = false;
        for (size_t k = 0; k < out->count && !known; k++)
            known = ls_case_same(&out->cases[k], &one) &&
                    strcmp(out->networks[k].platform, network.platform) == 0;
        if (known)
            continue;
        LS_TRY(ls_grow("cases", &out->cases, out->count, sizeof one));
        LS_TRY(ls_grow("cases", &out->networks, out->count, sizeof network));
        memcpy(&out->cases[out->count], &one, sizeof one);
        out->networks[out->count++] = network;
    }
    return LS_OK;
}

void ls_measured_cases_close(ls_measured_cases *cases)
{
    if (cases->texts)
        ls_option_set_close(cases->texts);
    free(cases->texts);
    free(cases->cases);
    free(cases->networks);
    *cases = (ls_measured_cases){0};
}
