/* SPDX-License-Identifier: MIT */
/*
 * Memory pool: chunks from the system, each divided into blocks in address order, used or free.
 * Allocation: the smallest free block that fits (the first among equals) is split at the next
 * multiple of 64 bytes; if none fits, a chunk is added. Release: the block merges with its free
 * neighbours. A chunk that would exceed the limit is reduced to what the limit leaves; one that the
 * system refuses is reduced to the request. The limit is exact to the byte. Free blocks are few,
 * and kept in a list. Used blocks are kept in a tree by address: a pipeline of many micro-batches
 * has thousands of them on each of many virtual devices (bench/predict). No step allocates any.
 */
#include "common/device/pool.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes)   ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

static const size_t alignment = 64;
static const size_t page_bytes = (size_t)64 << 10; /* chunks are multiples of the largest page */
static const size_t unit_least = (size_t)2 << 20;
static const size_t unit_most = (size_t)64 << 20;

typedef struct block {
    struct block *previous, *next;          /* neighbours in the chunk; NULL at its ends */
    struct block *free_before, *free_after; /* in the pool's list, while it is free */
    size_t chunk;                           /* number of its chunk */
    char *start;
    size_t bytes; /* of the block's memory */
    size_t asked; /* bytes requested */
    ls_memory_use use;
    bool used;
} block;

typedef struct chunk {
    struct chunk *next;
    char *start;
    size_t bytes;
    block *first;
    void (*unpin)(void *start); /* NULL if not pinned */
} chunk;

struct ls_pool {
    ls_pool_options options;
    char name[32];
    char policy[48]; /* as on the command line */
    pthread_mutex_t lock;
    chunk *chunks, *latest; /* list, and its end */
    size_t chunk_count;     /* that were ever added */
    block *free_blocks;     /* list */
    void *used_blocks;      /* tree by address (tsearch) */
    ls_memory_ledger ledger;
};

const char *ls_memory_use_name(ls_memory_use use)
{
    static const char *const names[LS_MEMORY_USES] = {
        [LS_MEMORY_PARAMETERS] = "parameters",       [LS_MEMORY_GRADIENTS] = "gradients",
        [LS_MEMORY_OPTIMIZER] = "optimizer",         [LS_MEMORY_ACTIVATIONS] = "activations",
        [LS_MEMORY_COMMUNICATION] = "communication", [LS_MEMORY_WORKSPACE] = "workspace",
    };
    use = ls_memory_use_of(use);
    return use < LS_MEMORY_USES ? names[use] : "unknown";
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t in_use(const ls_memory_ledger *ledger)
{
    size_t sum = 0;
    for (size_t i = 0; i < LS_MEMORY_USES; i++)
        sum += ledger->in_use[i];
    return sum;
}

/* For the address sanitizer: only the requested bytes of a block may be accessed. */
static void watch(const ls_pool *pool, const block *b)
{
    if (!pool->options.watched)
        return;
    ASAN_POISON_MEMORY_REGION(b->start, b->bytes);
    if (b->used)
        ASAN_UNPOISON_MEMORY_REGION(b->start, b->asked);
}

static void link_free(ls_pool *pool, block *b)
{
    b->free_before = NULL;
    b->free_after = pool->free_blocks;
    if (b->free_after)
        b->free_after->free_before = b;
    pool->free_blocks = b;
}

static void unlink_free(ls_pool *pool, block *b)
{
    if (b->free_before)
        b->free_before->free_after = b->free_after;
    else
        pool->free_blocks = b->free_after;
    if (b->free_after)
        b->free_after->free_before = b->free_before;
}

static int by_address(const void *x, const void *y)
{
    const uintptr_t a = (uintptr_t)((const block *)x)->start,
                    b = (uintptr_t)((const block *)y)->start;
    return (a > b) - (a < b);
}

/* Allocates exactly `bytes` from the system, as one free block. */
static ls_status add_chunk(ls_pool *pool, size_t bytes)
{
    chunk *added = calloc(1, sizeof *added);
    block *whole = calloc(1, sizeof *whole);
    ls_status status = LS_OK;
    void *memory = NULL;
    if (!added || !whole)
        status = ls_fail_memory("pool", sizeof *added + sizeof *whole);
    else
        status = pool->options.reserve(pool->options.context, bytes, &memory);
    if (status) {
        free(added);
        free(whole);
        return status;
    }
    *whole = (block){.start = memory, .bytes = bytes, .chunk = pool->chunk_count++};
    link_free(pool, whole);
    *added = (chunk){.start = memory, .bytes = bytes, .first = whole};
    if (pool->latest)
        pool->latest->next = added;
    else
        pool->chunks = added;
    pool->latest = added;
    pool->ledger.reserved += bytes;
    watch(pool, whole);
    return LS_OK;
}

static bool takes_all(const ls_pool *pool)
{
    return pool->options.policy.kind == LS_MEMORY_ALL && !pool->options.on_demand;
}

/* Adds a chunk for `bytes` by the rule of pool.h. False: it would exceed the limit. */
static bool grow(ls_pool *pool, size_t bytes, ls_status *status)
{
    const size_t left = pool->ledger.limit - pool->ledger.reserved;
    if (takes_all(pool) || bytes > left)
        return false;
    size_t unit = smaller(larger(pool->ledger.reserved / 8, unit_least), unit_most);
    unit &= ~(page_bytes - 1);
    size_t own;
    if (!ls_size_round_up(bytes, page_bytes, &own))
        own = left;
    const size_t wish = smaller(bytes < unit / 8 ? unit : own, left);
    *status = add_chunk(pool, wish);
    if (*status && own < wish) { /* the system may have this much, though not a whole unit */
        ls_status_free(*status);
        *status = add_chunk(pool, own);
    }
    return true;
}

/* Whether a block comes before another of equal size: in an earlier chunk, or before it in one. */
static bool is_first(const block *a, const block *b)
{
    return a->chunk != b->chunk ? a->chunk < b->chunk : a->start < b->start;
}

/* The smallest free block of at least `bytes`, or NULL. */
static block *find_free(const ls_pool *pool, size_t bytes)
{
    block *best = NULL;
    for (block *b = pool->free_blocks; b; b = b->free_after)
        if (b->bytes >= bytes &&
            (!best || b->bytes < best->bytes || (b->bytes == best->bytes && is_first(b, best))))
            best = b;
    return best;
}

/* Splits off everything after the first `bytes`, rounded up to the alignment. */
static ls_status cut(ls_pool *pool, block *found, size_t bytes)
{
    size_t keep;
    if (!ls_size_round_up(bytes, alignment, &keep) || keep >= found->bytes)
        return LS_OK;
    block *rest;
    LS_TRY(ls_allocate("pool", &rest, 1, sizeof *rest));
    *rest = (block){.previous = found,
                    .next = found->next,
                    .start = found->start + keep,
                    .bytes = found->bytes - keep,
                    .chunk = found->chunk};
    link_free(pool, rest);
    if (rest->next)
        rest->next->previous = rest;
    found->next = rest;
    found->bytes = keep;
    return LS_OK;
}

/* `reason`: why the system refused, freed here; NULL if the policy did. */
static ls_status fail_full(const ls_pool *pool, ls_memory_use use, size_t bytes, ls_status reason)
{
    const ls_memory_ledger *ledger = &pool->ledger;
    char why[256] = "";
    size_t largest_free = 0;
    for (const block *b = pool->free_blocks; b; b = b->free_after)
        largest_free = larger(largest_free, b->bytes);
    if (reason) { /* without its remedy */
        const char *text = ls_status_text(reason), *remedy = strrchr(text, ';');
        const size_t length = remedy ? (size_t)(remedy - text) : strlen(text);
        snprintf(why, sizeof why, "; the system refused more memory: %.*s", (int)length, text);
    }
    ls_status_free(reason);
    return ls_fail(LS_CODE_MISSING, "memory", pool->name,
                   "%zu bytes for %s do not fit (--memory %s allows %zu bytes, of which %zu are "
                   "reserved and %zu in use; largest free piece: %zu bytes)%s; try a smaller batch "
                   "or model, more devices or another --memory",
                   bytes, ls_memory_use_name(use), pool->policy, ledger->limit, ledger->reserved,
                   in_use(ledger), largest_free, why);
}

static ls_status allocate_locked(ls_pool *pool, ls_memory_use use, size_t bytes, void **out)
{
    pool->ledger.allocations++;
    const size_t needed = larger(bytes, 1); /* zero bytes get a distinct address */
    block *found = find_free(pool, needed);
    if (!found) {
        ls_status status = LS_OK;
        if (!grow(pool, needed, &status) || status) {
            pool->ledger.refused = needed;
            return fail_full(pool, use, bytes, status);
        }
        found = find_free(pool, needed);
    }
    LS_TRY(cut(pool, found, needed));
    if (!tsearch(found, &pool->used_blocks, by_address))
        return ls_fail_memory("pool", sizeof *found);
    unlink_free(pool, found);
    found->used = true;
    found->asked = bytes;
    found->use = use;
    watch(pool, found);
    pool->ledger.in_use[ls_memory_use_of(use)] += bytes;
    pool->ledger.of_type[ls_memory_type_of(use)] += bytes;
    pool->ledger.in_use_peak = larger(pool->ledger.in_use_peak, in_use(&pool->ledger));
    *out = found->start;
    return LS_OK;
}

ls_status ls_pool_allocate(ls_pool *pool, ls_memory_use use, size_t bytes, void **out)
{
    pthread_mutex_lock(&pool->lock);
    ls_status status = allocate_locked(pool, use, bytes, out);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Merges a free block with the next one if that is free too. */
static void join_next(ls_pool *pool, block *b)
{
    block *merged = b ? b->next : NULL;
    if (!merged || b->used || merged->used)
        return;
    b->bytes += merged->bytes;
    b->next = merged->next;
    if (b->next)
        b->next->previous = b;
    unlink_free(pool, merged);
    free(merged);
}

bool ls_pool_release(ls_pool *pool, void *memory)
{
    if (!memory)
        return true;
    const block wanted = {.start = memory};
    pthread_mutex_lock(&pool->lock);
    block **found = tfind(&wanted, &pool->used_blocks, by_address);
    if (found) {
        block *b = *found;
        tdelete(b, &pool->used_blocks, by_address);
        pool->ledger.in_use[ls_memory_use_of(b->use)] -= b->asked;
        pool->ledger.of_type[ls_memory_type_of(b->use)] -= b->asked;
        b->used = false;
        b->asked = 0;
        watch(pool, b);
        link_free(pool, b);
        join_next(pool, b);
        join_next(pool, b->previous);
    }
    pthread_mutex_unlock(&pool->lock);
    return found != NULL;
}

ls_status ls_pool_pin(ls_pool *pool, const void *memory,
                      ls_status (*pin)(void *start, size_t bytes), void (*unpin)(void *start))
{
    pthread_mutex_lock(&pool->lock);
    chunk *c = pool->chunks;
    while (c && (uintptr_t)memory - (uintptr_t)c->start >= c->bytes)
        c = c->next;
    ls_status status = LS_OK;
    if (!c)
        status = ls_fail(
            LS_CODE_USAGE, "memory", pool->name,
            "this pool cannot pin memory that it did not allocate; give memory of this pool");
    else if (!c->unpin)
        status = pin(c->start, c->bytes);
    if (!status)
        c->unpin = unpin;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

ls_memory_ledger ls_pool_ledger(const ls_pool *pool)
{
    ls_pool *shared = (ls_pool *)pool; /* only the lock changes */
    pthread_mutex_lock(&shared->lock);
    ls_memory_ledger ledger = pool->ledger;
    pthread_mutex_unlock(&shared->lock);
    return ledger;
}

static int compare_pieces(const void *a, const void *b)
{
    const ls_memory_piece *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static ls_status list_locked(const ls_pool *pool, ls_memory_piece **out, size_t *count)
{
    for (const chunk *c = pool->chunks; c; c = c->next)
        for (const block *b = c->first; b; b = b->next)
            *count += b->used;
    LS_TRY(ls_allocate("pool", out, *count, sizeof **out));
    ls_memory_piece *next = *out;
    for (const chunk *c = pool->chunks; c; c = c->next)
        for (const block *b = c->first; b; b = b->next)
            if (b->used)
                *next++ = (ls_memory_piece){(uintptr_t)b->start, (uintptr_t)b->start + b->asked};
    if (*count)
        qsort(*out, *count, sizeof **out, compare_pieces);
    return LS_OK;
}

ls_status ls_pool_pieces(const ls_pool *pool, ls_memory_piece **out, size_t *count)
{
    ls_pool *shared = (ls_pool *)pool; /* only the lock changes */
    *count = 0;
    pthread_mutex_lock(&shared->lock);
    ls_status status = list_locked(pool, out, count);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

bool ls_pool_is_counted(const ls_pool *pool)
{
    return pool->options.policy.kind == LS_MEMORY_COUNTED;
}

size_t ls_memory_limit(ls_memory_policy policy, size_t capacity)
{
    switch (policy.kind) {
    case LS_MEMORY_ALL:
        return capacity - capacity / 20;
    case LS_MEMORY_COUNTED:
        return SIZE_MAX / 2;
    case LS_MEMORY_FRACTION:
        return policy.fraction < 1 ? (size_t)((double)capacity * policy.fraction) : capacity;
    default:
        return capacity;
    }
}

/* Sets the limit and the policy's text. */
static ls_status set_policy(ls_pool *pool)
{
    const ls_memory_policy policy = pool->options.policy;
    pool->ledger.limit = ls_memory_limit(policy, pool->options.capacity);
    switch (policy.kind) {
    case LS_MEMORY_GROWTH:
        snprintf(pool->policy, sizeof pool->policy, "growth");
        break;
    case LS_MEMORY_ALL:
        snprintf(pool->policy, sizeof pool->policy, "all");
        break;
    case LS_MEMORY_COUNTED:
        snprintf(pool->policy, sizeof pool->policy, "counted");
        break;
    case LS_MEMORY_FRACTION:
        snprintf(pool->policy, sizeof pool->policy, "fraction=%.10g", policy.fraction);
        if (!(policy.fraction > 0 && policy.fraction <= 1))
            return ls_fail(
                LS_CODE_USAGE, "--memory", pool->policy,
                "the fraction must be above 0 and at most 1; --memory fraction=0.4 is two fifths");
        break;
    }
    return LS_OK;
}

ls_status ls_pool_take_all(ls_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const size_t capacity = pool->options.capacity, all = capacity - capacity / 20;
    const size_t reserved = pool->ledger.reserved;
    ls_status status = all > reserved ? add_chunk(pool, all - reserved) : LS_OK;
    if (!status) {
        pool->options.policy.kind = LS_MEMORY_ALL;
        status = set_policy(pool);
        pool->ledger.limit = larger(all, reserved);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

ls_status ls_pool_open(const ls_pool_options *options, ls_pool **out)
{
    ls_pool *pool;
    LS_TRY(ls_allocate("pool", &pool, 1, sizeof *pool));
    pool->options = *options;
    snprintf(pool->name, sizeof pool->name, "%s", options->name);
    pool->options.name = pool->name;
    pool->options.watched &= options->policy.kind != LS_MEMORY_ALL;
    pthread_mutex_init(&pool->lock, NULL);
    ls_status status = set_policy(pool);
    if (!status && takes_all(pool) && pool->ledger.limit)
        status = add_chunk(pool, pool->ledger.limit);
    if (status) {
        ls_pool_close(pool);
        return status;
    }
    *out = pool;
    return LS_OK;
}

void ls_pool_close(ls_pool *pool)
{
    if (!pool)
        return;
    while (pool->chunks) {
        chunk *c = pool->chunks;
        pool->chunks = c->next;
        while (c->first) {
            block *b = c->first;
            c->first = b->next;
            if (b->used)
                tdelete(b, &pool->used_blocks, by_address);
            free(b);
        }
        if (c->unpin)
            c->unpin(c->start);
        if (pool->options.watched)
            ASAN_UNPOISON_MEMORY_REGION(c->start, c->bytes);
        pool->options.release(pool->options.context, c->start, c->bytes);
        free(c);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
