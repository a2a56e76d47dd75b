/* SPDX-License-Identifier: MIT */
/* Which kernel each operation of a step got. */
#pragma once

#include "impl/strategy.h"

#include <jansson.h>

/** {operation: kernel, ...}, owned by the caller. */
json_t *ls_step_kernels(const ls_run *run);
