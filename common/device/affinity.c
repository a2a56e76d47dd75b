/* SPDX-License-Identifier: MIT */
/* Affinity: sets of cores that are as large as needed: cpu_set_t ends at core 1023. */
#include "common/device/affinity.h"

#include "common/base/digest.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* libgomp's stable ABI; not every compiler finds omp.h. */
extern int omp_get_proc_bind(void);
extern int omp_get_num_places(void);

enum { MOST_CORES = 1 << 20 }; /* no kernel has more */

/* A set with room for core `core`; NULL if there is no memory. The caller frees it (CPU_FREE). */
static cpu_set_t *open_set(int core, size_t *bytes)
{
    cpu_set_t *set = CPU_ALLOC((size_t)core + 1);
    *bytes = CPU_ALLOC_SIZE((size_t)core + 1);
    if (set)
        CPU_ZERO_S(*bytes, set);
    return set;
}

/* Reads the thread's set; NULL if there is no memory, or the system does not tell. */
static cpu_set_t *read_set(pthread_t thread, size_t *bytes)
{
    for (int cores = 1024; cores <= MOST_CORES; cores *= 2) {
        cpu_set_t *set = open_set(cores - 1, bytes);
        if (!set)
            return NULL;
        const int error = pthread_getaffinity_np(thread, *bytes, set);
        if (!error)
            return set;
        CPU_FREE(set);
        if (error != EINVAL) /* which means that the kernel's sets are larger */
            return NULL;
    }
    return NULL;
}

/* Makes the set of the cores; NULL without memory, or for an invalid number. */
static cpu_set_t *make_set(const int *cores, int count, size_t *bytes)
{
    int last = 0;
    for (int i = 0; i < count; i++) {
        if (cores[i] < 0 || cores[i] >= MOST_CORES)
            return NULL;
        last = cores[i] > last ? cores[i] : last;
    }
    cpu_set_t *set = open_set(last, bytes);
    for (int i = 0; set && i < count; i++)
        CPU_SET_S((size_t)cores[i], *bytes, set);
    return set;
}

/* Whether both have the same cores, though one set may be larger. */
static bool are_same(const cpu_set_t *a, size_t a_bytes, const cpu_set_t *b, size_t b_bytes)
{
    const size_t most = 8 * (a_bytes > b_bytes ? a_bytes : b_bytes);
    for (size_t core = 0; core < most; core++) /* a core beyond a set is not in it */
        if (!CPU_ISSET_S(core, a_bytes, a) != !CPU_ISSET_S(core, b_bytes, b))
            return false;
    return true;
}

bool ls_affinity_is(pthread_t thread, const int *cores, int count)
{
    size_t bytes, wanted_bytes;
    cpu_set_t *set = read_set(thread, &bytes), *wanted = make_set(cores, count, &wanted_bytes);
    const bool same = !set || (wanted && are_same(set, bytes, wanted, wanted_bytes));
    CPU_FREE(wanted);
    CPU_FREE(set);
    return same;
}

ls_status ls_affinity_bind(const int *cores, int count)
{
    char where[64];
    size_t bytes;
    cpu_set_t *set = make_set(cores, count, &bytes);
    const int error = set ? pthread_setaffinity_np(pthread_self(), bytes, set) : EINVAL;
    CPU_FREE(set);
    if (!error && ls_affinity_is(pthread_self(), cores, count))
        return LS_OK;
    snprintf(where, sizeof where, count > 1 ? "%d to %d" : "%d", cores[0], cores[count - 1]);
    return ls_fail(LS_CODE_MISSING, "cores", where,
                   "a thread cannot be bound to these cores (%s); check the process's cores with "
                   "taskset -p, and the control group's cpuset",
                   error ? strerror(error)
                         : "the process is not allowed to use all these cores any more");
}

uint64_t ls_affinity_digest(void)
{
    size_t bytes;
    cpu_set_t *set = read_set(pthread_self(), &bytes);
    const uint64_t digest = set ? ls_hash64(set, bytes) : 0;
    CPU_FREE(set);
    return digest;
}

ls_status ls_affinity_check_openmp(void)
{
    if (!omp_get_proc_bind() || !omp_get_num_places())
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "OpenMP", "OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY",
                   "an OpenMP variable has bound this process's first thread to some of its cores; "
                   "unset all three variables, since lockstep binds the threads of its devices");
}
