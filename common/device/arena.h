/* SPDX-License-Identifier: MIT */
/*
 * Arena: the memory of one GPU, for all devices of this process that are parts of it. A GPU is
 * opened more than once: as several logical devices, and by runs that are compared or take turns.
 * `--memory all` cannot give each device nearly all memory; so the memory is allocated once, by the
 * first user, and each device's pool takes its chunks from here. When the last user leaves, all
 * memory is freed. A data set is copied to the GPU once, however many devices read it. Any thread
 * may call all functions.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_arena ls_arena;

/** What an arena needs of the back end. `context` is valid as long as the machine. */
typedef struct ls_arena_system {
    const char *name; /**< "gpu:0", for messages; copied */
    ls_status (*find_free)(void *context, size_t *out_bytes);
    ls_status (*reserve)(void *context, size_t bytes, void **out);
    void (*release)(void *context, void *memory, size_t bytes);
    /** Copies from host memory and waits. */
    ls_status (*upload)(void *context, void *to, const void *host, size_t bytes);
    void *context;
} ls_arena_system;

/** An empty arena; the first ls_arena_enter sets its GPU. */
ls_status ls_arena_create(ls_arena **out);

/** After every device has left. Takes NULL. */
void ls_arena_destroy(ls_arena *arena);

/**
 * Adds a device. The first device sets the capacity to what is free then, less what CUDA's
 * libraries need (arena.c). The first device with `all` reserves 19/20 of the capacity, counting
 * what is reserved already. Undone with ls_arena_leave.
 */
ls_status ls_arena_enter(ls_arena *arena, const ls_arena_system *system, bool all);
void ls_arena_leave(ls_arena *arena);

/**
 * The GPU no longer answers, so freeing its memory could hang: it stays reserved until the process
 * ends, and every further request fails.
 */
void ls_arena_lose(ls_arena *arena);
bool ls_arena_is_lost(const ls_arena *arena);

/** Bytes for all devices; a device's capacity is its share of them. */
size_t ls_arena_capacity(ls_arena *arena);

/** Memory for a device's pool. LS_CODE_MISSING, with the bytes asked for, free, and in use by
 * how many devices. */
ls_status ls_arena_alloc(ls_arena *arena, size_t bytes, void **out);
void ls_arena_free(ls_arena *arena, void *memory);

/** The copy of this host memory on the GPU: created for the first user, freed after the last. */
ls_status ls_arena_share(ls_arena *arena, const void *host, size_t bytes, const void **out);
void ls_arena_unshare(ls_arena *arena, const void *shared);
