/* SPDX-License-Identifier: MIT */
/* Host memory: lists of a known length, and lists that grow by one item at a time, without a field
 * for their capacity. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/** Allocates `count` items of `size` bytes each, all zero, to be freed. `list` is the address of
 * the pointer to the items, which is NULL where memory is short. */
ls_status ls_allocate(const char *what, void *list, size_t count, size_t size);

/** Before a local pointer's declaration: its memory is freed where its scope is left. */
#define ls_auto __attribute__((cleanup(ls_auto_free)))
void ls_auto_free(void *pointer);

/** Before the declaration of a local struct: `close`, which takes it zero-filled, too, closes it
 * there. */
#define ls_closing(close) __attribute__((cleanup(close)))

/** Makes room for `room` > 0 items in all, where `list` is as for ls_grow. */
ls_status ls_enlarge(const char *what, void *list, size_t room, size_t size);

/**
 * Makes room for one more item behind `count` items of `size` bytes each. The capacity follows from
 * the count, so a list must only ever grow by this function. `list` is the address of the pointer
 * to the items; it is unchanged where memory is short.
 */
ls_status ls_grow(const char *what, void *list, size_t count, size_t size);
