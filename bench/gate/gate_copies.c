/* SPDX-License-Identifier: MIT */
/* Gate of the copies that layers read where parameters are stored in bfloat16; see gate.h. */
#include "bench/gate/gate.h"

#include "common/base/bf16_inline.h"
#include "common/base/numbers.h"

const char ls_gate_copies_differ[] = "copies: ";

ls_status ls_gate_copies(const ls_session *candidate, int device, const float *masters,
                         float *other, uint64_t step, ls_gate *gate)
{
    const ls_variables *variables = &candidate->job.model->graph->variables;
    if (candidate->job.kernels.precision != LS_PRECISION_BF16 || !gate->pass)
        return LS_OK;
    for (size_t i = 0; i < variables->elements; i++)
        other[i] = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
    LS_TRY(candidate->run->functions->copies(candidate->run, device, other));
    gate->copies = true;
    for (size_t i = 0; i < variables->elements; i++) {
        const float want = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
        if (ls_values_same((double)other[i], (double)want))
            continue;
        const ls_variable *v = ls_variables_holding(variables, i);
        ls_gate_wrong(gate,
                      "%sstep %llu: %s element %zu on device %d is %.9g, its master %.9g, rounded "
                      "%.9g",
                      ls_gate_copies_differ, (unsigned long long)step, v->name, i - v->offset,
                      ls_job_member(&candidate->job, (size_t)device),
                      ls_unsigned_nan((double)other[i]), ls_unsigned_nan((double)masters[i]),
                      ls_unsigned_nan((double)want));
        return LS_OK;
    }
    return LS_OK;
}
