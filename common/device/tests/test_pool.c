/* SPDX-License-Identifier: MIT */
/*
 * Memory pool against a model: every piece is filled with its own pattern, which must be intact
 * when it is released. Exact, except the bound on reserved memory.
 */
#include "common/base/numbers.h"
#include "common/base/tests/must.h"
#include "common/device/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double reserved_factor = 1.25; /* reserved <= factor * in use + one unit */
static const size_t mib = (size_t)1 << 20;

/* A system with limited memory that counts what is allocated. */
typedef struct system_memory {
    size_t taken, left;
    int chunks;
} system_memory;

static ls_status reserve(void *context, size_t bytes, void **out)
{
    system_memory *system = context;
    if (bytes > system->left)
        return ls_fail(LS_CODE_MISSING, "mmap", NULL, "no more");
    const size_t rounded = (bytes + 63) & ~(size_t)63;
    *out = aligned_alloc(64, rounded ? rounded : 64);
    assert_non_null(*out);
    system->left -= bytes;
    system->taken += bytes;
    system->chunks++;
    return LS_OK;
}

static void release(void *context, void *memory, size_t bytes)
{
    system_memory *system = context;
    system->left += bytes;
    system->taken -= bytes;
    system->chunks--;
    free(memory);
}

static ls_pool *open_pool(system_memory *system, ls_memory_policy policy, size_t capacity)
{
    const ls_pool_options options = {.name = "cpu:0",
                                     .policy = policy,
                                     .capacity = capacity,
                                     .reserve = reserve,
                                     .release = release,
                                     .context = system};
    ls_pool *pool;
    assert_null(ls_pool_open(&options, &pool));
    return pool;
}

static void *take(ls_pool *pool, ls_memory_use use, size_t bytes)
{
    void *memory = NULL;
    ls_status status = ls_pool_allocate(pool, use, bytes, &memory);
    assert_string_equal(ls_status_text(status), "ok");
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    return memory;
}

static void refused(ls_pool *pool, size_t bytes, const char *part)
{
    void *memory = &bytes;
    must_refuse(ls_pool_allocate(pool, LS_MEMORY_ACTIVATIONS, bytes, &memory), LS_CODE_MISSING,
                part);
    assert_ptr_equal(memory, &bytes);
}

static void random_use_matches_the_model(void **state)
{
    enum { PIECES = 200, STEPS = 20000 };
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 512 * mib);
    struct {
        unsigned char *memory;
        size_t bytes;
        ls_memory_use use;
        unsigned char pattern;
    } pieces[PIECES] = {0};
    size_t model[LS_MEMORY_USES] = {0}, sum = 0, peak = 0, calls = 0;
    unsigned seed = 1;
    for (int step = 0; step < STEPS; step++) {
        const int i = rand_r(&seed) % PIECES;
        if (pieces[i].memory) {
            for (size_t k = 0; k < pieces[i].bytes; k++)
                if (pieces[i].memory[k] != pieces[i].pattern)
                    fail_msg("piece %d was overwritten at byte %zu", i, k);
            assert_true(ls_pool_release(pool, pieces[i].memory));
            model[pieces[i].use] -= pieces[i].bytes;
            sum -= pieces[i].bytes;
            pieces[i].memory = NULL;
        } else {
            pieces[i].bytes = (size_t)rand_r(&seed) % (step % 50 ? 3000 : 2 * mib);
            pieces[i].use = (ls_memory_use)(rand_r(&seed) % LS_MEMORY_USES);
            pieces[i].pattern = (unsigned char)rand_r(&seed);
            pieces[i].memory = take(pool, pieces[i].use, pieces[i].bytes);
            memset(pieces[i].memory, pieces[i].pattern, pieces[i].bytes);
            model[pieces[i].use] += pieces[i].bytes;
            sum += pieces[i].bytes;
            peak = sum > peak ? sum : peak;
            calls++;
        }
        const ls_memory_ledger ledger = ls_pool_ledger(pool);
        assert_memory_equal(ledger.in_use, model, sizeof model);
        assert_int_equal(ledger.in_use_peak, peak);
        assert_int_equal(ledger.allocations, calls);
        assert_int_equal(ledger.reserved, system.taken);
    }
    size_t count, live = 0;
    ls_memory_piece *list;
    assert_null(ls_pool_pieces(pool, &list, &count));
    for (size_t k = 1; k < count; k++)
        assert_true(list[k - 1].end <= list[k].begin);
    for (int i = 0; i < PIECES; i++) {
        if (!pieces[i].memory)
            continue;
        const uintptr_t begin = (uintptr_t)pieces[i].memory;
        const size_t before = ls_count_up_to(begin, list, count, sizeof *list);
        assert_true(before && list[before - 1].begin == begin);
        assert_int_equal(list[before - 1].end, begin + pieces[i].bytes);
        live++;
    }
    assert_int_equal(count, live);
    free(list);
    ls_pool_close(pool);
    assert_int_equal(system.taken, 0);
    assert_int_equal(system.chunks, 0);
}

static void growth_reserves_little_more_than_is_used(void **state)
{
    static const size_t sizes[] = {100, 5000, 70000, 262145, 300000, 1100000, 3 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        system_memory system = {.left = SIZE_MAX};
        ls_pool *pool =
            open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 4096 * mib);
        for (size_t sum = 0; sum < 48 * mib && ls_pool_ledger(pool).allocations < 2000;) {
            take(pool, LS_MEMORY_PARAMETERS, sizes[s]);
            sum += sizes[s];
            const size_t place = (sizes[s] + 63) & ~(size_t)63;
            const double taken = (double)system.taken;
            const double unit = taken / 8 > 2.0 * (double)mib ? taken / 8 : 2.0 * (double)mib;
            const double used = (double)(place * ls_pool_ledger(pool).allocations);
            assert_true(taken <= reserved_factor * used + unit);
        }
        ls_pool_close(pool);
    }
}

static void growth_gives_nothing_back_and_reuses(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 64 * mib);
    void *first = take(pool, LS_MEMORY_WORKSPACE, 10 * mib);
    const size_t taken = system.taken;
    assert_true(ls_pool_release(pool, first));
    assert_int_equal(system.taken, taken);
    assert_ptr_equal(take(pool, LS_MEMORY_WORKSPACE, 10 * mib), first);
    assert_int_equal(system.taken, taken);
    ls_pool_close(pool);
    assert_int_equal(system.taken, 0);
}

static void neighbours_join(void **state)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        system_memory system = {.left = SIZE_MAX};
        ls_pool *pool =
            open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_FRACTION, 0.5}, 712);
        void *pieces[3];
        for (int i = 0; i < 3; i++)
            pieces[i] = take(pool, LS_MEMORY_WORKSPACE, 100); /* of 356: 128, 128 and 100 */
        refused(pool, 1, "largest free piece: 0 bytes)");
        for (int i = 0; i < 3; i++)
            assert_true(ls_pool_release(pool, pieces[orders[o][i]]));
        assert_ptr_equal(take(pool, LS_MEMORY_WORKSPACE, 356), pieces[0]);
        ls_pool_close(pool);
    }
}

static void best_fit_takes_the_smallest_hole(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 64 * mib);
    void *large = take(pool, LS_MEMORY_WORKSPACE, 640);
    take(pool, LS_MEMORY_WORKSPACE, 64);
    void *small = take(pool, LS_MEMORY_WORKSPACE, 128);
    take(pool, LS_MEMORY_WORKSPACE, 64);
    ls_pool_release(pool, large);
    ls_pool_release(pool, small);
    assert_ptr_equal(take(pool, LS_MEMORY_WORKSPACE, 128), small);
    assert_ptr_equal(take(pool, LS_MEMORY_WORKSPACE, 128), large);
    ls_pool_close(pool);
}

static void fraction_holds_to_the_byte(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool =
        open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_FRACTION, 0.4}, 10 * mib + 5);
    const size_t limit = 4 * mib + 2;
    assert_int_equal(ls_pool_ledger(pool).limit, limit);
    assert_int_equal(system.taken, 0);
    refused(pool, limit + 1, "0 are reserved");
    void *all = take(pool, LS_MEMORY_ACTIVATIONS, limit);
    assert_int_equal(system.taken, limit);
    refused(
        pool, 1,
        "1 bytes for activations do not fit (--memory fraction=0.4 allows 4194306 bytes, of which "
        "4194306 are reserved and 4194306 in use; largest free piece: 0 bytes); ");
    assert_true(ls_pool_release(pool, all));
    take(pool, LS_MEMORY_ACTIVATIONS, limit);
    ls_pool_close(pool);
}

static void growth_ends_at_the_capacity(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 3 * mib);
    take(pool, LS_MEMORY_ACTIVATIONS, 100);
    take(pool, LS_MEMORY_ACTIVATIONS, mib);
    take(pool, LS_MEMORY_ACTIVATIONS, mib);
    refused(pool, mib, "memory: cpu:0: 1048576 bytes for activations");
    refused(pool, SIZE_MAX, "--memory growth allows");
    assert_true(system.taken <= 3 * mib);
    ls_pool_close(pool);
}

static void all_takes_nearly_everything_at_the_start(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_ALL}, 100 * mib);
    assert_int_equal(system.taken, 95 * mib);
    assert_int_equal(ls_pool_ledger(pool).reserved, 95 * mib);
    assert_int_equal(ls_pool_ledger(pool).limit, 95 * mib);
    take(pool, LS_MEMORY_PARAMETERS, 95 * mib - 64);
    take(pool, LS_MEMORY_PARAMETERS, 64);
    refused(pool, 1, "--memory all allows");
    assert_int_equal(system.chunks, 1);
    ls_pool_close(pool);
    assert_int_equal(system.taken, 0);

    system.left = mib;
    const ls_pool_options options = {.name = "cpu:0",
                                     .policy = {.kind = LS_MEMORY_ALL},
                                     .capacity = 2 * mib,
                                     .reserve = reserve,
                                     .release = release,
                                     .context = &system};
    ls_status status = ls_pool_open(&options, &pool);
    assert_string_equal(ls_status_text(status), "mmap: no more");
    ls_status_free(status);
}

static void a_system_that_has_no_more_is_named(void **state)
{
    system_memory system = {.left = mib};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 100 * mib);
    take(pool, LS_MEMORY_ACTIVATIONS, 100); /* a whole unit is refused, one page is not */
    assert_int_equal(system.taken, 64 << 10);
    refused(pool, 2 * mib, "; the system refused more memory: mmap: no more; ");
    take(pool, LS_MEMORY_ACTIVATIONS, 512 << 10);
    ls_pool_close(pool);
    assert_int_equal(system.left, mib);
}

static void bad_fractions_are_refused(void **state)
{
    static const double fractions[] = {0, -0.5, 1.0001, 0.0 / 0.0, 1.0 / 0.0};
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        const ls_pool_options options = {.name = "cpu:0",
                                         .policy = {LS_MEMORY_FRACTION, fractions[i]},
                                         .capacity = mib,
                                         .reserve = reserve,
                                         .release = release};
        ls_pool *pool;
        must_refuse(ls_pool_open(&options, &pool), LS_CODE_USAGE, "");
    }
    ls_pool_close(NULL);
}

static void zero_bytes_are_distinct(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, mib);
    void *a = take(pool, LS_MEMORY_GRADIENTS, 0), *b = take(pool, LS_MEMORY_GRADIENTS, 0);
    assert_ptr_not_equal(a, b);
    assert_int_equal(ls_pool_ledger(pool).in_use[LS_MEMORY_GRADIENTS], 0);
    assert_true(ls_pool_release(pool, a));
    assert_true(ls_pool_release(pool, b));
    ls_pool_close(pool);
}

static void foreign_and_double_releases_do_nothing(void **state)
{
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, mib);
    char *a = take(pool, LS_MEMORY_GRADIENTS, 200), local;
    assert_false(ls_pool_release(pool, &local));
    assert_false(ls_pool_release(pool, a + 64));
    assert_int_equal(ls_pool_ledger(pool).in_use[LS_MEMORY_GRADIENTS], 200);
    assert_true(ls_pool_release(pool, a));
    assert_false(ls_pool_release(pool, a));
    assert_true(ls_pool_release(pool, NULL));
    assert_int_equal(ls_pool_ledger(pool).in_use[LS_MEMORY_GRADIENTS], 0);
    ls_pool_close(pool);
}

static char *pinned_at;
static size_t pinned_bytes;
static int pins, unpins;

static ls_status pin(void *start, size_t bytes)
{
    pinned_at = start;
    pinned_bytes = bytes;
    pins++;
    return LS_OK;
}

static void unpin(void *start)
{
    memset(start, 0, 1); /* it still exists */
    unpins++;
}

static ls_status refuse_pin(void *start, size_t bytes)
{
    return ls_fail(LS_CODE_MISSING, "pin", NULL, "on purpose");
}

/* Pins each chunk once, and unpins it before the system gets it back. */
static void chunks_are_pinned_once(void **state)
{
    system_memory system = {.left = 64 * mib};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 64 * mib);
    char *small = take(pool, LS_MEMORY_PARAMETERS, 100),
         *other = take(pool, LS_MEMORY_GRADIENTS, 9);
    char *large = take(pool, LS_MEMORY_PARAMETERS, 8 * mib);
    must_refuse(ls_pool_pin(pool, small, refuse_pin, unpin), LS_CODE_MISSING, "");
    pins = unpins = 0;
    assert_null(ls_pool_pin(pool, small, pin, unpin));
    assert_null(ls_pool_pin(pool, other + 5, pin, unpin));
    assert_int_equal(pins, 1);
    assert_true(pinned_at <= small && other + 9 <= pinned_at + pinned_bytes);
    assert_null(ls_pool_pin(pool, large + 8 * mib - 1, pin, unpin));
    assert_int_equal(pins, 2);
    assert_true(pinned_at <= large && large + 8 * mib <= pinned_at + pinned_bytes);
    must_refuse(ls_pool_pin(pool, &system, pin, unpin), LS_CODE_USAGE, "");
    ls_pool_release(pool, small);
    assert_int_equal(unpins, 0);
    ls_pool_close(pool);
    assert_int_equal(unpins, 2);
}

static void *take_and_release(void *context)
{
    ls_pool *pool = context;
    for (size_t i = 0; i < 2000; i++) {
        unsigned char *piece = take(pool, LS_MEMORY_ACTIVATIONS, 1 + i % 5000);
        memset(piece, (int)i, 1 + i % 5000);
        assert_int_equal(piece[i % 5000], (unsigned char)i);
        assert_true(ls_pool_release(pool, piece));
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    enum { THREADS = 4 };
    system_memory system = {.left = SIZE_MAX};
    ls_pool *pool = open_pool(&system, (ls_memory_policy){.kind = LS_MEMORY_GROWTH}, 64 * mib);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_release, pool), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const ls_memory_ledger ledger = ls_pool_ledger(pool);
    assert_int_equal(ledger.in_use[LS_MEMORY_ACTIVATIONS], 0);
    assert_int_equal(ledger.allocations, THREADS * 2000);
    ls_pool_close(pool);
}

static void uses_have_names(void **state)
{
    assert_string_equal(ls_memory_use_name(LS_MEMORY_PARAMETERS), "parameters");
    assert_string_equal(ls_memory_use_name(LS_MEMORY_WORKSPACE), "workspace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_matches_the_model),
        cmocka_unit_test(growth_reserves_little_more_than_is_used),
        cmocka_unit_test(growth_gives_nothing_back_and_reuses),
        cmocka_unit_test(neighbours_join),
        cmocka_unit_test(best_fit_takes_the_smallest_hole),
        cmocka_unit_test(fraction_holds_to_the_byte),
        cmocka_unit_test(growth_ends_at_the_capacity),
        cmocka_unit_test(all_takes_nearly_everything_at_the_start),
        cmocka_unit_test(a_system_that_has_no_more_is_named),
        cmocka_unit_test(bad_fractions_are_refused),
        cmocka_unit_test(zero_bytes_are_distinct),
        cmocka_unit_test(foreign_and_double_releases_do_nothing),
        cmocka_unit_test(chunks_are_pinned_once),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(uses_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
