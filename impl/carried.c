/* SPDX-License-Identifier: MIT */
/* Carried state of a run; see carried.h. */
#include "impl/carried.h"

#include <stdlib.h>
#include <string.h>

/* Returns the next bytes, to write or to read. */
static ls_status next_piece(ls_carried *carried, size_t bytes, unsigned char **out)
{
    if (carried->gives) {
        *out = carried->bytes + carried->at;
        carried->at += bytes;
        return LS_OK;
    }
    if (carried->room - carried->count < bytes) {
        const size_t room = 2 * carried->room + bytes;
        unsigned char *grown = realloc(carried->bytes, room);
        if (!grown)
            return ls_fail_memory("state of a block", room);
        carried->bytes = grown;
        carried->room = room;
    }
    *out = carried->bytes + carried->count;
    carried->count += bytes;
    return LS_OK;
}

ls_status ls_carry_value(ls_carried *carried, void *value, size_t bytes)
{
    unsigned char *piece = NULL;
    if (!bytes)
        return LS_OK;
    LS_TRY(next_piece(carried, bytes, &piece));
    memcpy(carried->gives ? value : piece, carried->gives ? piece : value, bytes);
    return LS_OK;
}

ls_status ls_carry_memory(ls_carried *carried, ls_queue *queue, void *memory, size_t bytes)
{
    unsigned char *piece = NULL;
    if (!memory || !bytes)
        return LS_OK;
    LS_TRY(next_piece(carried, bytes, &piece));
    return carried->gives ? ls_queue_write(queue, memory, piece, bytes)
                          : ls_queue_read(queue, piece, memory, bytes);
}

void ls_carried_close(ls_carried *carried)
{
    free(carried->bytes);
    *carried = (ls_carried){0};
}
