/* SPDX-License-Identifier: MIT */
#include "common/kernel/kernel_scratch.h"

#include "common/base/grow.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

void ls_scratch_begin(ls_scratch *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->blocks[i].taken = 0;
}

/* A new block for what no block has room for. */
static ls_status add_block(ls_scratch *s, size_t bytes)
{
    LS_TRY(ls_grow("scratch", &s->blocks, s->count, sizeof *s->blocks));
    ls_scratch_block *block = &s->blocks[s->count];
    *block = (ls_scratch_block){.bytes = bytes};
    LS_TRY(ls_device_allocate(s->device, LS_MEMORY_WORKSPACE, bytes, &block->memory));
    s->count++;
    return LS_OK;
}

ls_status ls_scratch_take(ls_scratch *s, size_t bytes, void **out)
{
    size_t i = 0;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    while (i < s->count && s->blocks[i].bytes - s->blocks[i].taken < bytes)
        i++;
    if (i == s->count)
        LS_TRY(add_block(s, bytes));
    *out = (char *)s->blocks[i].memory + s->blocks[i].taken;
    s->blocks[i].taken += bytes;
    return LS_OK;
}

size_t ls_scratch_bytes(const ls_scratch *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->count; i++)
        bytes += s->blocks[i].bytes;
    return bytes;
}

void ls_scratch_release(ls_scratch *s)
{
    for (size_t i = 0; i < s->count; i++)
        ls_device_release(s->device, s->blocks[i].memory);
    free(s->blocks);
    *s = (ls_scratch){0};
}
