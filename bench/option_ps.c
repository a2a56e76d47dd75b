/* SPDX-License-Identifier: MIT */
/* Options of parameter servers; see option_ps.h. */
#include "bench/option_ps.h"

#include "bench/option_values.h"

#include "impl/job.h"

#include <string.h>

ls_status ls_set_ps_mode(const ls_setting *setting)
{
    static const char *const words[] = {"sync", "async", "ssp", NULL};
    return ls_setting_word(setting, words, &setting->one->ps_mode);
}

ls_status ls_set_ps_shard(const ls_setting *setting)
{
    static const char *const words[] = {"bytes", "variable", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    setting->one->ps_by_variable = word == 1;
    return LS_OK;
}

bool ls_applies_ps(const ls_case *one)
{
    return strcmp(one->strategy, "ps") == 0;
}

bool ls_applies_ssp(const ls_case *one)
{
    return ls_applies_ps(one) && one->ps_mode == LS_PS_SSP;
}

bool ls_applies_ps_sync(const ls_case *one)
{
    return ls_applies_ps(one) && one->ps_mode == LS_PS_SYNC;
}

bool ls_applies_ps_order(const ls_case *one)
{
    return ls_applies_ps(one) && (one->ps_mode != LS_PS_SYNC || one->ps_backup_workers > 0);
}

bool ls_applies_ps_ranks(const ls_case *one)
{
    return ls_applies_ps(one) && one->ranks > 1;
}
