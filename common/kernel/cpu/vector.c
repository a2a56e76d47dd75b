/* SPDX-License-Identifier: MIT */
/* Selects the vector loops that the processor supports; see vector.h. */
#include "common/kernel/cpu/vector.h"

extern const ls_vector_loops ls_vector_loops_portable;
#if defined(__x86_64__)
extern const ls_vector_loops ls_vector_loops_avx2;
extern const ls_vector_loops ls_vector_loops_avx512;
#elif defined(__aarch64__)
extern const ls_vector_loops ls_vector_loops_neon;
#endif

size_t ls_vector_loops_list(const ls_vector_loops *list[4])
{
    size_t count = 0;
    list[count++] = &ls_vector_loops_portable;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[count++] = &ls_vector_loops_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        list[count++] = &ls_vector_loops_avx512;
#elif defined(__aarch64__)
    list[count++] = &ls_vector_loops_neon;
#endif
    list[count] = NULL;
    return count;
}

const ls_vector_loops *ls_vector_loops_pick(void)
{
    const ls_vector_loops *list[4];
    return list[ls_vector_loops_list(list) - 1];
}
