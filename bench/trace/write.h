/* SPDX-License-Identifier: MIT */
/* A trace as a file of Chrome's format, which Perfetto and chrome://tracing open. */
#pragma once

#include "bench/trace/whole.h"

#include <jansson.h>

/** LS_CODE_MISSING where the file cannot be made; what was there stays. */
ls_status ls_trace_writable(const char *path);

/**
 * Writes the trace. `other` gets the waterfall and what else is known of the whole trace, and
 * becomes `otherData`. `devices` is how many a process of the file has: with ranks that are
 * threads, those of a rank.
 */
ls_status ls_trace_write(const ls_whole_trace *whole, const char *path, int devices, json_t *other);
