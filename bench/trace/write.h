/* SPDX-License-Identifier: MIT */
/* A trace as a file of Chrome's format, which Perfetto and chrome://tracing open. */
#pragma once

#include "bench/trace/whole.h"

#include <jansson.h>

/** The word that gives a slice its colour in a viewer, for each use of time. */
extern const char *const ls_trace_categories[LS_TIME_USES];

/**
 * Writes the trace. `other` gets the waterfall and other facts of the whole trace, and becomes
 * `otherData`. `devices`: how many devices the file shows as one process; with ranks that are
 * threads, a rank's.
 */
ls_status ls_trace_write(const ls_whole_trace *whole, const char *path, int devices, json_t *other);
