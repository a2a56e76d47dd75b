/* SPDX-License-Identifier: MIT */
/* Affinity: sets of cores beyond cpu_set_t; what is bound is what was asked for; devices whose
 * threads something moves. Exact. */
#include "common/base/tests/must.h"
#include "common/device/affinity.h"
#include "common/device/device.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* Some core of this process, below 1024; the test is no use without one. */
static int find_core(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET((size_t)core, &set))
            return core;
    fail_msg("no core");
    return -1;
}

static void a_core_that_is_not_there_is_refused(void **state)
{
    const int some = find_core(), none[] = {1500}, partly[] = {some, 1500}, bad[] = {-1};
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    const uint64_t before = ls_affinity_digest();
    must_refuse(ls_affinity_bind(none, 1), LS_CODE_MISSING, "cores: 1500: ");
    assert_true(ls_affinity_digest() == before);
    must_refuse(ls_affinity_bind(bad, 1), LS_CODE_MISSING, "cores: -1: ");
    must_refuse(ls_affinity_bind(partly, 2), LS_CODE_MISSING, "to 1500: ");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void sets_of_any_size_are_compared(void **state)
{
    cpu_set_t before;
    const int some = find_core(), more[] = {some, 1500}, other[] = {some + 1};
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    must(ls_affinity_bind(&some, 1));
    const uint64_t bound = ls_affinity_digest();
    assert_true(ls_affinity_is(pthread_self(), &some, 1));
    assert_false(ls_affinity_is(pthread_self(), more, 2));
    assert_false(ls_affinity_is(pthread_self(), other, 1));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bound == ls_affinity_digest(), CPU_COUNT(&before) == 1);
}

/* Binds all threads of this process but the first, as `taskset -a` would. */
static void move_threads(const cpu_set_t *to)
{
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread && thread != getpid())
            assert_int_equal(sched_setaffinity(thread, sizeof *to, to), 0);
    }
    closedir(threads);
}

static void a_device_that_is_moved_says_so(void **state)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1};
    ls_machine *machine;
    ls_device *device;
    cpu_set_t all, others, its;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip(); /* nowhere to go */
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    must(ls_device_open(machine, &name, &policy, &device));
    const ls_device_info *info = ls_device_describe(device);
    CPU_ZERO(&its);
    CPU_SET((size_t)info->cores[0], &its);
    CPU_XOR(&others, &all, &its);
    assert_false(ls_device_moved(device));
    move_threads(&others);
    assert_true(ls_device_moved(device));
    move_threads(&all); /* it may run there, and elsewhere */
    assert_true(ls_device_moved(device));
    move_threads(&its);
    assert_false(ls_device_moved(device));
    ls_device_close(device);
    ls_machine_close(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_that_is_not_there_is_refused),
        cmocka_unit_test(sets_of_any_size_are_compared),
        cmocka_unit_test(a_device_that_is_moved_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
