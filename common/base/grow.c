/* SPDX-License-Identifier: MIT */
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 4 };

ls_status ls_allocate(const char *what, void *list, size_t count, size_t size)
{
    void *items = calloc(count ? count : 1, size);
    memcpy(list, &items, sizeof items);
    return items ? LS_OK : ls_fail_memory(what, count * size);
}

void ls_auto_free(void *pointer)
{
    void *items;
    memcpy(&items, pointer, sizeof items);
    free(items);
}

ls_status ls_enlarge(const char *what, void *list, size_t room, size_t size)
{
    void *items;
    memcpy(&items, list, sizeof items);
    items = realloc(items, room * size);
    if (!items)
        return ls_fail_memory(what, room * size);
    memcpy(list, &items, sizeof items);
    return LS_OK;
}

/* The list is full whenever the count is a power of two. */
ls_status ls_grow(const char *what, void *list, size_t count, size_t size)
{
    if (count && (count < LEAST || count & (count - 1)))
        return LS_OK;
    return ls_enlarge(what, list, count ? 2 * count : LEAST, size);
}
