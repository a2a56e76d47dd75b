/* SPDX-License-Identifier: MIT */
/* Entries of ls_run_kind that parameter servers that do not wait for all have of their own
 * (ps_records.c). */
#ifndef LS_IMPL_PS_RECORDS_H
#define LS_IMPL_PS_RECORDS_H

#include "impl/strategy.h"

ls_status ls_ps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                        uint64_t *mark_ns);
ls_status ls_ps_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula);

#endif
