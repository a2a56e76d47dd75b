/* SPDX-License-Identifier: MIT */
/* Verbs about servers that serve requests as they arrive; see step.h. */
#pragma once

#include "impl/arrival/ps_order.h"
#include "impl/ps/ps_step.h"

/** One operation that serves requests (serve.h) until all steps enqueued by one call are done.
 * From here on, verbs append nothing for the server's side of messages. */
void ls_serve(ls_step *step, int server);

/** A worker's request to a server, before it receives or sends the shard's ranges. LS_PS_BYE is
 * sent once, after the last of the steps enqueued by one call. With backup workers, the server's
 * answer tells the worker, before it receives, whether it is late. */
void ls_request(ls_step *step, int worker, int server, ls_ps_kind kind);

/** What `part` describes of a worker is skipped in steps for which the worker is late, as with
 * backup workers it may be; without them `part` is simply described. */
void ls_unless_late(ls_step *step, int worker, void (*part)(ls_step *step, int worker));
