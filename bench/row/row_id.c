/* SPDX-License-Identifier: MIT */
/* Row id; see row_id.h. The random part comes from the system, so that processes and hosts that
 * start in the same second differ. */
#include "bench/row/row_id.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

ls_status ls_row_id_make(ls_row_id *out)
{
    uint8_t bits[6];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits) /* so few come whole, or not at all */
        return ls_fail(LS_CODE_MISSING, "row id", "getrandom",
                       "%s; a system with getrandom is needed", strerror(errno));
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || !gmtime_r(&now.tv_sec, &utc))
        return ls_fail(LS_CODE_MISSING, "row id", "clock",
                       "the time of day cannot be read; set the clock");
    strftime(out->timestamp, sizeof out->timestamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    size_t used = strftime(out->id, sizeof out->id, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(out->id + used, sizeof out->id - used, "-%02x%02x%02x%02x%02x%02x", bits[0], bits[1],
             bits[2], bits[3], bits[4], bits[5]);
    return LS_OK;
}
