/* SPDX-License-Identifier: MIT */
/* zb-h1: 1f1b's forward and data passes; weight passes wait, and fill the end of the step (Qi et
 * al., ICLR 2024, "zero bubble"), with about as much memory as 1f1b. */
#include "impl/pipeline/pipeline_schedule.h"

static int ahead(const ls_schedule *s, int stage)
{
    return s->stages - stage - 1;
}

static int lag(const ls_schedule *s, int stage)
{
    (void)s;
    return stage;
}

const ls_schedule_rule ls_schedule_zb_h1 = {
    .name = "zb-h1",
    .help = "1f1b, with gradients of variables computed later, where a stage would be idle",
    .split = true,
    .ahead = ahead,
    .lag = lag,
};
