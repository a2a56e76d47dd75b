/* SPDX-License-Identifier: MIT */
/* Options of parameter servers: the setters that the option table points to. */
#ifndef LS_BENCH_OPTION_PS_H
#define LS_BENCH_OPTION_PS_H

#include "bench/option_table.h"

ls_status ls_set_ps_mode(const ls_setting *setting);
ls_status ls_set_ps_shard(const ls_setting *setting);

bool ls_applies_ps(const ls_case *one);
bool ls_applies_ssp(const ls_case *one);
bool ls_applies_ps_sync(const ls_case *one);
bool ls_applies_ps_order(const ls_case *one); /**< the order of arrival counts */
bool ls_applies_ps_ranks(const ls_case *one); /**< in one process the server is a device */

#endif
