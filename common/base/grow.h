/* SPDX-License-Identifier: MIT */
/* Lists that grow by one item at a time, without a field for their room. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/**
 * Room for one more behind `count` items of `size` bytes each. The room follows from the count, so
 * all that the list gained has to have come this way. `list`: the address of the pointer to them,
 * which stays as it is where memory is short.
 */
ls_status ls_grow(const char *what, void *list, size_t count, size_t size);
