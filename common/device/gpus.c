/* SPDX-License-Identifier: MIT */
/* GPUs: the reason if there are none; see gpus.h. */
#include "common/device/gpus.h"

#include <stdio.h>

void ls_gpus_explain(const ls_gpu_answer *answer, ls_gpus *out)
{
    const int driver = answer->driver, runtime = answer->runtime;
    *out->reason = 0;
    *out->driver = 0;
    if (driver <= 0) {
        snprintf(out->reason, sizeof out->reason, "no driver");
        return;
    }
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    if (answer->too_old)
        snprintf(out->reason, sizeof out->reason,
                 "driver too old: it knows %s, this build needs CUDA %d.%d", out->driver,
                 runtime / 1000, runtime % 1000 / 10);
    else if (answer->error && answer->visible)
        snprintf(out->reason, sizeof out->reason, "no GPU: %s (CUDA_VISIBLE_DEVICES is '%.32s')",
                 answer->error, answer->visible);
    else if (answer->error)
        snprintf(out->reason, sizeof out->reason, "no GPU: %s", answer->error);
    else if (!answer->count)
        snprintf(out->reason, sizeof out->reason, "no GPU: the driver shows none");
}
