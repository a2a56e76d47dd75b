/* SPDX-License-Identifier: MIT */
/*
 * The memory of a GPU shared by several devices, emulated with host memory: what is taken and by
 * whom, and what is left over; then the devices' pools on it, as the CUDA back end opens them.
 * Exact.
 */
#include "common/base/tests/must.h"
#include "common/device/arena.h"
#include "common/device/pool.h"

#include <stdlib.h>
#include <string.h>

static const size_t mib = (size_t)1 << 20;

/* The emulated GPU: its free memory, and the calls made. */
typedef struct made_up_gpu {
    size_t free;
    int chunks, uploads;
    void *last; /* the last allocation */
    bool fails_upload;
} made_up_gpu;

static ls_status find_free(void *context, size_t *out)
{
    *out = ((made_up_gpu *)context)->free;
    return LS_OK;
}

static ls_status reserve(void *context, size_t bytes, void **out)
{
    made_up_gpu *gpu = context;
    if (bytes > gpu->free)
        return ls_fail(LS_CODE_MISSING, "gpu", "gpu:0", "allocate %zu bytes: out of memory", bytes);
    *out = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    assert_non_null(*out);
    gpu->free -= bytes;
    gpu->chunks++;
    gpu->last = *out;
    return LS_OK;
}

static void release(void *context, void *memory, size_t bytes)
{
    made_up_gpu *gpu = context;
    gpu->free += bytes;
    gpu->chunks--;
    free(memory);
}

static ls_status upload(void *context, void *to, const void *host, size_t bytes)
{
    made_up_gpu *gpu = context;
    if (gpu->fails_upload)
        return ls_fail(LS_CODE_MISSING, "gpu", "gpu:0", "copy a data set: broken");
    memcpy(to, host, bytes);
    gpu->uploads++;
    return LS_OK;
}

static ls_arena_system system_of(made_up_gpu *gpu)
{
    return (ls_arena_system){.name = "gpu:0",
                             .find_free = find_free,
                             .reserve = reserve,
                             .release = release,
                             .upload = upload,
                             .context = gpu};
}

static ls_arena *open_arena(made_up_gpu *gpu, bool all)
{
    ls_arena *arena;
    const ls_arena_system system = system_of(gpu);
    assert_null(ls_arena_create(&arena));
    assert_null(ls_arena_enter(arena, &system, all));
    return arena;
}

static ls_status take_chunk(void *context, size_t bytes, void **out)
{
    return ls_arena_alloc(context, bytes, out);
}

static void give_chunk(void *context, void *memory, size_t bytes)
{
    ls_arena_free(context, memory);
}

/* A device's pool on an arena: a `part`-th of it. */
static ls_pool *open_pool(ls_arena *arena, const char *name, ls_memory_policy_kind kind,
                          size_t part)
{
    const ls_pool_options options = {.name = name,
                                     .policy.kind = kind,
                                     .capacity = ls_arena_capacity(arena) / part,
                                     .on_demand = true,
                                     .reserve = take_chunk,
                                     .release = give_chunk,
                                     .context = arena};
    ls_pool *pool = NULL;
    assert_null(ls_pool_open(&options, &pool));
    return pool;
}

static void refused(ls_pool *pool, size_t bytes, const char *expected)
{
    void *memory;
    must_refuse(ls_pool_allocate(pool, LS_MEMORY_ACTIVATIONS, bytes, &memory), LS_CODE_MISSING,
                expected);
}

/* Every policy leaves an eighth of the free memory, at most 1 GiB, to CUDA's libraries. */
static void libraries_have_a_share(void **state)
{
    const size_t gib = (size_t)1 << 30;
    static const size_t available[] = {0, 7, 64, 8 * 1024, 80 * 1024};
    static const size_t left[] = {0, 7, 56, 7 * 1024, 79 * 1024};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        const bool small = i < 2;
        made_up_gpu gpu = {.free = available[i] * (small ? 1 : mib)};
        ls_arena *arena = open_arena(&gpu, false);
        assert_int_equal(ls_arena_capacity(arena), left[i] * (small ? 1 : mib));
        assert_true(gpu.free - ls_arena_capacity(arena) <= gib);
        ls_arena_leave(arena);
        ls_arena_destroy(arena);
    }
}

/* A judge was first, which allocates as it needs: `all` takes the rest, once. */
static void all_takes_what_is_missing(void **state)
{
    made_up_gpu gpu = {.free = 80 * mib};
    ls_arena *arena = open_arena(&gpu, false);
    const ls_arena_system system = system_of(&gpu);
    ls_pool *judge = open_pool(arena, "gpu:0", LS_MEMORY_GROWTH, 1);
    void *memory;
    assert_null(ls_pool_allocate(judge, LS_MEMORY_PARAMETERS, 10 * mib, &memory));
    assert_int_equal(gpu.free, 70 * mib);
    assert_null(ls_arena_enter(arena, &system, true));
    assert_int_equal(gpu.free, 80 * mib - (70 * mib - 70 * mib / 20));
    assert_int_equal(gpu.chunks, 2);
    assert_null(ls_arena_enter(arena, &system, true));
    assert_int_equal(gpu.chunks, 2);
    assert_null(ls_pool_allocate(judge, LS_MEMORY_PARAMETERS, 50 * mib, &memory));
    assert_int_equal(gpu.chunks, 2);
    ls_pool_close(judge);
    for (int i = 0; i < 3; i++)
        ls_arena_leave(arena);
    assert_int_equal(gpu.free, 80 * mib);

    ls_arena_destroy(arena);
    arena = open_arena(&gpu, false);
    gpu.free = mib; /* another process uses the GPU */
    must_refuse(ls_arena_enter(arena, &system, true), LS_CODE_MISSING, "");
    ls_arena_leave(arena); /* the other did not enter */
    assert_int_equal(gpu.chunks, 0);
    ls_arena_destroy(arena);
}

/* `all` takes nearly everything once; later allocations come from that, and nothing is left. */
static void all_is_taken_once(void **state)
{
    made_up_gpu gpu = {.free = 120 * mib};
    ls_arena *arena = open_arena(&gpu, true);
    const ls_arena_system system = system_of(&gpu);
    assert_int_equal(gpu.chunks, 1);
    assert_int_equal(gpu.free, 15 * mib + 105 * mib / 20);
    assert_null(ls_arena_enter(arena, &system, true));
    assert_int_equal(gpu.chunks, 1);
    assert_int_equal(ls_arena_capacity(arena), 105 * mib);

    ls_pool *first = open_pool(arena, "gpu:0/0", LS_MEMORY_ALL, 2);
    ls_pool *second = open_pool(arena, "gpu:0/1", LS_MEMORY_ALL, 2);
    void *memory;
    assert_int_equal(ls_pool_ledger(first).limit, 105 * mib / 2 - 105 * mib / 40);
    assert_int_equal(ls_pool_ledger(first).reserved, 0);
    assert_null(ls_pool_allocate(first, LS_MEMORY_PARAMETERS, 47 * mib, &memory));
    refused(first, 3 * mib,
            "memory: gpu:0/0: 3145728 bytes for activations do not fit (--memory all allows "
            "52297728 bytes, of which 49283072 are reserved and 49283072 in use; ");
    assert_null(ls_pool_allocate(second, LS_MEMORY_PARAMETERS, 47 * mib, &memory));
    assert_int_equal(gpu.chunks, 1);
    ls_pool_close(first);
    ls_pool_close(second);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 1);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 0);
    assert_int_equal(gpu.free, 120 * mib);
    ls_arena_destroy(arena);
    ls_arena_destroy(NULL);
}

/* Several runs on one GPU: each may use its capacity, together not more than there is. */
static void growth_meets_the_others(void **state)
{
    made_up_gpu gpu = {.free = 64 * mib};
    ls_arena *arena = open_arena(&gpu, false);
    const ls_arena_system system = system_of(&gpu);
    assert_null(ls_arena_enter(arena, &system, false));
    assert_int_equal(gpu.chunks, 0);
    ls_pool *run = open_pool(arena, "gpu:0", LS_MEMORY_GROWTH, 1);
    ls_pool *judge = open_pool(arena, "gpu:0", LS_MEMORY_GROWTH, 1);
    void *memory;
    assert_null(ls_pool_allocate(run, LS_MEMORY_PARAMETERS, 48 * mib, &memory));
    assert_int_equal(gpu.free, 16 * mib);
    refused(
        judge, 32 * mib,
        "GPU memory: gpu:0: 33554432 bytes do not fit: 16777216 bytes of this GPU are free, and "
        "this process holds 50331648 (in use: 50331648; logical devices: 2)");
    ls_pool_close(run);
    assert_null(ls_pool_allocate(judge, LS_MEMORY_PARAMETERS, 32 * mib, &memory));
    ls_pool_close(judge);
    ls_arena_leave(arena);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 0);
    ls_arena_destroy(arena);
}

/* The next runs start from what is free then. */
static void capacity_is_of_the_first_to_come(void **state)
{
    made_up_gpu gpu = {.free = 64 * mib};
    const ls_arena_system system = system_of(&gpu);
    ls_arena *arena = open_arena(&gpu, false);
    ls_arena_leave(arena);
    gpu.free = 32 * mib;
    assert_null(ls_arena_enter(arena, &system, true));
    assert_int_equal(ls_arena_capacity(arena), 28 * mib);
    gpu.free = 8 * mib;
    assert_null(ls_arena_enter(arena, &system, true));
    assert_int_equal(ls_arena_capacity(arena), 28 * mib);
    ls_arena_leave(arena);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 0);
    ls_arena_destroy(arena);
}

/* A GPU that no longer answers: it is not called, and its memory stays taken. */
static void a_lost_gpu_is_left_alone(void **state)
{
    made_up_gpu gpu = {.free = 64 * mib};
    ls_arena *arena = open_arena(&gpu, false);
    const ls_arena_system system = system_of(&gpu);
    ls_pool *pool = open_pool(arena, "gpu:0", LS_MEMORY_GROWTH, 1);
    void *memory, *mine;
    assert_null(ls_pool_allocate(pool, LS_MEMORY_PARAMETERS, 8 * mib, &memory));
    mine = gpu.last;
    assert_false(ls_arena_is_lost(arena));
    ls_arena_lose(arena);
    assert_true(ls_arena_is_lost(arena));
    refused(pool, 16 * mib, "the GPU failed");
    ls_pool_close(pool);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 1);
    ls_status status = ls_arena_enter(arena, &system, true);
    assert_true(ls_status_is_final(status) && ls_status_is_consequence(status));
    ls_status_free(status);
    ls_arena_destroy(arena);
    free(mine);
}

static ls_status find_none(void *context, size_t *out)
{
    return ls_fail(LS_CODE_MISSING, "gpu", "gpu:0", "memory: unspecified launch failure");
}

static void failed_entry_leaves_nothing(void **state)
{
    made_up_gpu gpu = {.free = 64 * mib};
    ls_arena_system system = system_of(&gpu);
    ls_arena *arena;
    assert_null(ls_arena_create(&arena));
    system.find_free = find_none;
    must_refuse(ls_arena_enter(arena, &system, true), LS_CODE_MISSING, "");
    system.find_free = find_free;
    assert_null(ls_arena_enter(arena, &system, true)); /* like the first one */
    assert_int_equal(gpu.chunks, 1);
    ls_arena_leave(arena);
    assert_int_equal(gpu.chunks, 0);
    ls_arena_destroy(arena);
}

static void data_is_copied_once(void **state)
{
    made_up_gpu gpu = {.free = 64 * mib};
    ls_arena *arena = open_arena(&gpu, false);
    static const char data[] = "one data set", other[] = "another one!";
    const void *first, *second, *third, *half;
    assert_null(ls_arena_share(arena, data, sizeof data, &first));
    assert_null(ls_arena_share(arena, data, sizeof data, &second));
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, data);
    assert_string_equal(first, data);
    assert_int_equal(gpu.uploads, 1);
    assert_null(ls_arena_share(arena, other, sizeof other, &third));
    assert_null(ls_arena_share(arena, data, 3, &half));
    assert_string_equal(third, other);
    assert_ptr_not_equal(half, first);
    assert_int_equal(gpu.uploads, 3);

    ls_arena_unshare(arena, first);
    assert_null(ls_arena_share(arena, data, sizeof data, &first));
    assert_int_equal(gpu.uploads, 3); /* another one still used it */
    ls_arena_unshare(arena, first);
    ls_arena_unshare(arena, second);
    assert_null(ls_arena_share(arena, data, sizeof data, &first));
    assert_int_equal(gpu.uploads, 4); /* the host memory may have changed since */
    ls_arena_unshare(arena, data);    /* no copy: nothing happens */

    gpu.fails_upload = true;
    must_refuse(ls_arena_share(arena, data + 1, 4, &half), LS_CODE_MISSING, "");
    ls_arena_leave(arena); /* also with copies that were not returned */
    assert_int_equal(gpu.chunks, 0);
    ls_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_have_a_share),
        cmocka_unit_test(all_takes_what_is_missing),
        cmocka_unit_test(all_is_taken_once),
        cmocka_unit_test(growth_meets_the_others),
        cmocka_unit_test(capacity_is_of_the_first_to_come),
        cmocka_unit_test(a_lost_gpu_is_left_alone),
        cmocka_unit_test(failed_entry_leaves_nothing),
        cmocka_unit_test(data_is_copied_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
