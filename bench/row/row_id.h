/* SPDX-License-Identifier: MIT */
/* Row id: the unique name of a row of figures, and the time at which it was made. */
#pragma once

#include "common/base/status.h"

/** `id` sorts by time: "20261121T051700Z-1f0c9a7be244", the time to the second and 48 random bits.
 */
typedef struct ls_row_id {
    char id[32];
    char timestamp[24]; /**< the same time in ISO 8601, UTC: "2026-11-21T05:17:00Z" */
} ls_row_id;

/** LS_CODE_MISSING where the system gives no time or no random bits. */
ls_status ls_row_id_make(ls_row_id *out);
