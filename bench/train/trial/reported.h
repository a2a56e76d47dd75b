/* SPDX-License-Identifier: MIT */
/* What a row reports of memory and parameter servers: read after the last step. */
#pragma once

#include "bench/train/session.h"
#include "impl/arrival/ps_report.h"

typedef struct ls_reported {
    ls_memory_ledger *ledgers; /**< [devices]; NULL if the last step is not done */
    size_t rss_peak;           /**< bytes */
    ls_ps_report warm, ended;  /**< of servers, after the warm-up and after the last step */
    ls_ps_server *servers;     /**< [server_count] of this process */
    size_t server_count;
    ls_status unsaved; /**< why the order in which they served could not be written */
} ls_reported;

/** After the warm-up. */
ls_status ls_report_warm(const ls_session *session, ls_reported *out);

/** After the last step. All processes together. */
ls_status ls_report_memory(const ls_session *session, ls_reported *out);

/** Then, what the servers counted so far, and in `record` (NULL means nowhere) the order in which
 * they served it. All processes together. */
ls_status ls_report_servers(const ls_session *session, const char *record, ls_reported *out);

/** How busy the servers were in the steps that were last profiled. */
void ls_report_busy(const ls_session *session, ls_reported *out);

void ls_reported_close(ls_reported *reported);
