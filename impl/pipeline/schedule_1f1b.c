/* SPDX-License-Identifier: MIT */
/* 1f1b: forward until p - i micro-batches are in flight, then alternately a backward and a forward
 * pass (Narayanan et al., PipeDream, SOSP 2019, with a flush at the end of the step). */
#include "impl/pipeline/pipeline_schedule.h"

static int ahead(const ls_schedule *s, int stage)
{
    return s->stages - stage - 1;
}

const ls_schedule_rule ls_schedule_1f1b = {
    .name = "1f1b",
    .help = "forward and backward passes in turn: few micro-batches in flight",
    .ahead = ahead,
};
