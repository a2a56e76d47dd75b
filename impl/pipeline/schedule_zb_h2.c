/* SPDX-License-Identifier: MIT */
/* zb-h2: zb-h1 with twice the micro-batches in flight, so that a stage is not idle between its
 * first and its last pass if its passes take equal times (Qi et al., ICLR 2024). */
#include "impl/pipeline/pipeline_schedule.h"

static int ahead(const ls_schedule *s, int stage)
{
    return 2 * (s->stages - stage) - 2;
}

static int lag(const ls_schedule *s, int stage)
{
    (void)s;
    return 2 * stage;
}

const ls_schedule_rule ls_schedule_zb_h2 = {
    .name = "zb-h2",
    .help = "zb-h1 with twice the micro-batches in flight: hardly any bubble, more memory",
    .split = true,
    .ahead = ahead,
    .lag = lag,
};
