/* SPDX-License-Identifier: MIT */
/* What of a row says which case it is: its group `case`. */
#ifndef LS_BENCH_ROW_ROW_CASE_H
#define LS_BENCH_ROW_ROW_CASE_H

#include "bench/row/row_facts.h"

#include <jansson.h>

/** The group, owned by the caller. */
json_t *ls_row_case(const ls_row_facts *facts);

#endif
