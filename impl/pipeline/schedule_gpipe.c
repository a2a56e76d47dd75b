/* SPDX-License-Identifier: MIT */
/* gpipe: all forward passes, then all backward passes (Huang et al., NeurIPS 2019). */
#include "impl/pipeline/pipeline_schedule.h"

static int ahead(const ls_schedule *s, int stage)
{
    (void)stage;
    return s->microbatches;
}

const ls_schedule_rule ls_schedule_gpipe = {
    .name = "gpipe",
    .help = "all forward passes, then all backward passes",
    .ahead = ahead,
};
