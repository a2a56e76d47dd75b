/* SPDX-License-Identifier: MIT */
/* interleaved: 1f1b with V chunks of the model on each stage, which a micro-batch passes in turn,
 * so that filling and draining takes 1/V of the time (Narayanan et al., SC 2021). Micro-batches are
 * a multiple of the stages. */
#include "impl/pipeline/pipeline_schedule.h"

static int ahead(const ls_schedule *s, int stage)
{
    return 2 * (s->stages - stage - 1) + (ls_schedule_chunks(s) - 1) * s->stages;
}

const ls_schedule_rule ls_schedule_interleaved = {
    .name = "interleaved",
    .help = "1f1b with several chunks of the model on each stage: a smaller bubble, more messages",
    .chunked = true,
    .ahead = ahead,
};
