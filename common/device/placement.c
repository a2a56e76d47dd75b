/* SPDX-License-Identifier: MIT */
/* Placement; see placement.h. */
#include "common/device/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Selects as many devices of the best kind as `spec` names. */
static ls_status replace(const ls_placement *placement, const char *operation, const char *spec,
                         ls_device_name **out, size_t *out_count)
{
    char number[16], list[512] = "", text[32];
    int count = 1;
    for (const char *at = spec; *at; at++)
        count += *at == '+';
    snprintf(number, sizeof number, "%d", count);
    LS_TRY(ls_machine_resolve(placement->machine, number, out, out_count));
    for (size_t i = 0; i < *out_count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? "+" : "",
                 ls_device_name_text(&(*out)[i], text));
    }
    ls_log_line(placement->log, LS_LOG_NORMAL,
                "soft placement: %s%s'%s' names a device that this machine does not have; %s is "
                "used instead",
                operation ? operation : "", operation ? ": " : "", spec, list);
    return LS_OK;
}

ls_status ls_placement_resolve(const ls_placement *placement, const char *operation,
                               const char *spec, ls_device_name **out, size_t *out_count,
                               bool *replaced)
{
    *replaced = false;
    ls_status status = ls_machine_resolve(placement->machine, spec ? spec : "1", out, out_count);
    if (ls_status_code(status) == LS_CODE_MISSING && placement->soft) {
        ls_status_free(status);
        *replaced = true;
        status = replace(placement, operation, spec, out, out_count);
    }
    if (!status || !operation)
        return status;
    ls_status named =
        ls_fail(ls_status_code(status), "operation", operation, "%s", ls_status_text(status));
    ls_status_free(status);
    return named;
}

ls_status ls_placement_device(const ls_placement *placement, const char *operation,
                              const char *spec, ls_device_name *out)
{
    ls_device_name *names;
    size_t count;
    bool replaced;
    LS_TRY(ls_placement_resolve(placement, operation, spec, &names, &count, &replaced));
    if (count == 1)
        *out = names[0];
    free(names);
    return count == 1
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "operation", operation,
                         "this operation runs on one device, not on %zu; name one device", count);
}

void ls_placement_log(const ls_placement *placement, const char *operation,
                      const ls_device_name *device, const ls_device_name *variables)
{
    char text[32], holder[32];
    if (placement->logged)
        ls_log_line(placement->log, LS_LOG_NORMAL, "placement: %s: %s%s%s", operation,
                    ls_device_name_text(device, text), variables ? ", variables " : "",
                    variables ? ls_device_name_text(variables, holder) : "");
}
