/* SPDX-License-Identifier: MIT */
/*
 * Arena: memory for the chunks of devices' pools; see arena.h. Copies of data sets are listed by
 * host address and size: the host memory outlives them.
 */
#include "common/device/arena.h"

#include "common/base/grow.h"
#include "common/device/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct shared_copy {
    struct shared_copy *next;
    const void *host;
    size_t bytes;
    void *memory;
    int users;
} shared_copy;

struct ls_arena {
    pthread_mutex_t lock;
    ls_arena_system system;
    char name[32];
    int users;
    size_t capacity;
    ls_pool *pool; /* while there are users */
    shared_copy *copies;
    atomic_bool lost;
};

void ls_arena_lose(ls_arena *arena)
{
    atomic_store(&arena->lost, true);
}

bool ls_arena_is_lost(const ls_arena *arena)
{
    return atomic_load(&arena->lost);
}

static ls_status refuse_lost(const ls_arena *arena)
{
    return ls_status_final(ls_status_follows(ls_fail(
        LS_CODE_MISSING, "GPU memory", arena->name,
        "the GPU failed, and this process cannot use it any more; start the command again")));
}

/*
 * Bytes that every policy leaves free for what CUDA and its libraries allocate themselves, mostly
 * later: kernels of cuBLASLt and cuDNN, loaded at first use (some hundred megabytes), thread
 * stacks, instantiated graphs, NCCL's buffers (some megabytes per peer and channel). At most an
 * eighth of the free memory.
 */
static const size_t spare_most = (size_t)1 << 30;

ls_status ls_arena_create(ls_arena **out)
{
    ls_arena *arena;
    LS_TRY(ls_allocate("arena", &arena, 1, sizeof *arena));
    pthread_mutex_init(&arena->lock, NULL);
    *out = arena;
    return LS_OK;
}

static void close_memory(ls_arena *arena)
{
    while (arena->copies) {
        shared_copy *next = arena->copies->next;
        free(arena->copies);
        arena->copies = next;
    }
    ls_pool_close(arena->pool);
    arena->pool = NULL;
}

void ls_arena_destroy(ls_arena *arena)
{
    if (!arena)
        return;
    close_memory(arena);
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

static ls_status reserve(void *context, size_t bytes, void **out)
{
    const ls_arena *arena = context;
    return arena->system.reserve(arena->system.context, bytes, out);
}

static void release(void *context, void *memory, size_t bytes)
{
    const ls_arena *arena = context;
    if (!ls_arena_is_lost(arena))
        arena->system.release(arena->system.context, memory, bytes);
}

static ls_status open_memory(ls_arena *arena, const ls_arena_system *system, bool all)
{
    if (ls_arena_is_lost(arena))
        return refuse_lost(arena);
    LS_TRY(system->find_free(system->context, &arena->capacity));
    arena->capacity -= arena->capacity / 8 < spare_most ? arena->capacity / 8 : spare_most;
    arena->system = *system;
    snprintf(arena->name, sizeof arena->name, "%s", system->name);
    const ls_pool_options options = {.name = arena->name,
                                     .policy.kind = all ? LS_MEMORY_ALL : LS_MEMORY_GROWTH,
                                     .capacity = arena->capacity,
                                     .reserve = reserve,
                                     .release = release,
                                     .context = arena};
    return ls_pool_open(&options, &arena->pool);
}

ls_status ls_arena_enter(ls_arena *arena, const ls_arena_system *system, bool all)
{
    ls_status status = LS_OK;
    pthread_mutex_lock(&arena->lock);
    if (!arena->users)
        status = open_memory(arena, system, all);
    else if (all)
        status = ls_pool_take_all(arena->pool);
    if (!status)
        arena->users++;
    pthread_mutex_unlock(&arena->lock);
    return status;
}

void ls_arena_leave(ls_arena *arena)
{
    pthread_mutex_lock(&arena->lock);
    if (!--arena->users)
        close_memory(arena);
    pthread_mutex_unlock(&arena->lock);
}

size_t ls_arena_capacity(ls_arena *arena)
{
    pthread_mutex_lock(&arena->lock);
    size_t capacity = arena->capacity;
    pthread_mutex_unlock(&arena->lock);
    return capacity;
}

static size_t in_use(const ls_memory_ledger *ledger)
{
    return ledger->in_use[LS_MEMORY_WORKSPACE];
}

static ls_status take_locked(ls_arena *arena, size_t bytes, void **out)
{
    if (ls_arena_is_lost(arena))
        return refuse_lost(arena);
    ls_status status = ls_pool_allocate(arena->pool, LS_MEMORY_WORKSPACE, bytes, out);
    if (!status)
        return LS_OK;
    ls_status_free(status);
    const ls_memory_ledger ledger = ls_pool_ledger(arena->pool);
    size_t left = 0;
    status = arena->system.find_free(arena->system.context, &left);
    ls_status_free(status);
    return ls_fail(
        LS_CODE_MISSING, "GPU memory", arena->name,
        "%zu bytes do not fit: %zu bytes of this GPU are free, and this process holds %zu (in use: "
        "%zu; logical devices: %d); use a smaller batch or model",
        bytes, left, ledger.reserved, in_use(&ledger), arena->users);
}

ls_status ls_arena_alloc(ls_arena *arena, size_t bytes, void **out)
{
    pthread_mutex_lock(&arena->lock);
    ls_status status = take_locked(arena, bytes, out);
    pthread_mutex_unlock(&arena->lock);
    return status;
}

void ls_arena_free(ls_arena *arena, void *memory)
{
    pthread_mutex_lock(&arena->lock);
    ls_pool_release(arena->pool, memory);
    pthread_mutex_unlock(&arena->lock);
}

/* Words the refusal for a data set; for a device, its pool words it. */
static ls_status take_for_data(ls_arena *arena, size_t bytes, void **out)
{
    ls_status status = take_locked(arena, bytes, out);
    if (!status || ls_status_is_final(status))
        return status;
    ls_status outer = ls_fail(ls_status_code(status), "data set", NULL,
                              "%s, fewer samples, --memory growth or --memory fraction=F",
                              ls_status_text(status));
    ls_status_free(status);
    return outer;
}

static ls_status make_copy(ls_arena *arena, const void *host, size_t bytes, shared_copy **out)
{
    shared_copy *copy;
    LS_TRY(ls_allocate("arena", &copy, 1, sizeof *copy));
    *copy = (shared_copy){.next = arena->copies, .host = host, .bytes = bytes};
    ls_status status = take_for_data(arena, bytes, &copy->memory);
    if (!status && bytes)
        status = arena->system.upload(arena->system.context, copy->memory, host, bytes);
    if (status) {
        if (copy->memory)
            ls_pool_release(arena->pool, copy->memory);
        free(copy);
        return status;
    }
    arena->copies = copy;
    *out = copy;
    return LS_OK;
}

ls_status ls_arena_share(ls_arena *arena, const void *host, size_t bytes, const void **out)
{
    ls_status status = LS_OK;
    pthread_mutex_lock(&arena->lock);
    shared_copy *copy = arena->copies;
    while (copy && (copy->host != host || copy->bytes != bytes))
        copy = copy->next;
    if (!copy)
        status = make_copy(arena, host, bytes, &copy);
    if (!status) {
        copy->users++;
        *out = copy->memory;
    }
    pthread_mutex_unlock(&arena->lock);
    return status;
}

void ls_arena_unshare(ls_arena *arena, const void *shared)
{
    pthread_mutex_lock(&arena->lock);
    shared_copy **link = &arena->copies;
    while (*link && (*link)->memory != shared)
        link = &(*link)->next;
    shared_copy *copy = *link;
    if (copy && !--copy->users) {
        *link = copy->next;
        ls_pool_release(arena->pool, copy->memory);
        free(copy);
    }
    pthread_mutex_unlock(&arena->lock);
}
