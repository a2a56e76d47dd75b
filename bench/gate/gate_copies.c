/* SPDX-License-Identifier: MIT */
/* Gate of the copies that layers read where parameters are stored in bfloat16; see gate.h. */
#include "bench/gate/gate.h"

#include "bench/train/world.h"
#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>

const char ls_gate_copies_differ[] = "copies: ";

ls_status ls_gate_copies_of(const ls_session *candidate, int device, ls_range block,
                            const float *masters, float *other, uint64_t step, ls_gate *gate)
{
    if (candidate->job.kernels.precision != LS_PRECISION_BF16 || !gate->pass)
        return LS_OK;
    for (size_t i = 0; i < block.count; i++)
        other[i] = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
    LS_TRY(candidate->run->functions->copies(candidate->run, device, block, other));
    gate->copies = true;
    for (size_t i = 0; i < block.count; i++) {
        const float want = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
        if (ls_values_same((double)other[i], (double)want))
            continue;
        const ls_variable *v =
            ls_variables_holding(&candidate->job.model->graph->variables, block.first + i);
        ls_gate_wrong(gate,
                      "%sstep %llu: %s element %zu on device %d is %.9g, expected %.9g (the "
                      "rounded master copy)",
                      ls_gate_copies_differ, (unsigned long long)step, v->name,
                      block.first + i - v->offset, ls_job_member(&candidate->job, (size_t)device),
                      ls_unsigned_nan((double)other[i]), ls_unsigned_nan((double)want));
        return LS_OK;
    }
    return LS_OK;
}

/* All devices of this process. */
typedef struct looking {
    const ls_session *candidate;
    uint64_t step;
    ls_gate *gate;
    float *other; /* [LS_STATE_BLOCK] */
} looking;

static ls_status look(void *context, ls_range block, const float *masters)
{
    const looking *l = context;
    for (size_t i = 0; i < l->candidate->job.device_count; i++)
        LS_TRY(ls_gate_copies_of(l->candidate, (int)i, block, masters, l->other, l->step, l->gate));
    return LS_OK;
}

ls_status ls_gate_copies(ls_session *candidate, uint64_t step, ls_gate *gate)
{
    looking l = {.candidate = candidate, .step = step, .gate = gate};
    if (candidate->job.kernels.precision != LS_PRECISION_BF16)
        return LS_OK;
    LS_TRY(ls_world_agree(candidate->job.ranks.comm,
                          ls_allocate("gate", &l.other, LS_STATE_BLOCK, sizeof *l.other)));
    const ls_status status = ls_session_each(candidate, LS_VALUES, false, look, &l);
    free(l.other);
    return status;
}
