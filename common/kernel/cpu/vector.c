/* SPDX-License-Identifier: MIT */
/* Selects the vector loops that the processor, and whoever limits oneDNN, allow; see vector.h. */
#include "common/kernel/cpu/vector.h"

#include "common/kernel/kernel.h"

#include <oneapi/dnnl/dnnl.h>

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

/* Whether oneDNN may use this set: what the processor has, unless ONEDNN_MAX_CPU_ISA says less. */
static bool library_uses(const ls_vector_loops *loops)
{
#if defined(__x86_64__)
    const unsigned set = loops == &ls_vector_loops_avx512 ? dnnl_cpu_isa_avx512_core
                         : loops == &ls_vector_loops_avx2 ? dnnl_cpu_isa_avx2
                                                          : 0;
    return ((unsigned)dnnl_get_effective_cpu_isa() & set) == set;
#else
    (void)loops;
    return true;
#endif
}

const ls_vector_loops *ls_vector_loops_pick(void)
{
    const ls_vector_loops *list[4];
    size_t last = ls_vector_loops_list(list) - 1;
    while (last && !library_uses(list[last]))
        last--;
    return list[last];
}

const char *ls_kernel_loops_isa(void)
{
    return ls_vector_loops_pick()->isa;
}
