/* SPDX-License-Identifier: MIT */
/* Groups of a row that cases with parameter servers have. */
#ifndef LS_BENCH_ROW_ROW_PS_H
#define LS_BENCH_ROW_ROW_PS_H

#include "bench/train/trial.h"

#include <jansson.h>

/** lead, staleness, server_load. */
void ls_row_put_ps(json_t *row, const ls_trial *trial);

#endif
