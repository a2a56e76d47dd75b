/* SPDX-License-Identifier: MIT */
/*
 * Writes when each kernel of a process ran and for how long, to the file KERNEL_TIMES: a library
 * that the CUDA driver loads into a process whose environment names it (CUDA_INJECTION64_PATH). The
 * times are CUPTI's, kernels in replayed graphs included; nothing is slowed down but the launches.
 * A line for each: the start and the duration in ns, the grid, the block, registers per thread, and
 * the mangled name. CUPTI is loaded from the file KERNEL_TIMES_CUPTI.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 8 << 20, BUFFER_ALIGNMENT = 8, FLUSH_MS = 200 };

#define CUPTI_FUNCTIONS(X)                                                                         \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityFlushPeriod)                                                                    \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord)
#define MEMBER(name) static __typeof__(name) *call_##name;
CUPTI_FUNCTIONS(MEMBER)

static FILE *file;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void CUPTIAPI take_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0; /* as many as there is room for */
}

static void CUPTIAPI write_records(CUcontext context, uint32_t stream, uint8_t *buffer,
                                   size_t bytes, size_t valid)
{
    (void)context, (void)stream, (void)bytes;
    CUpti_Activity *record = NULL;
    pthread_mutex_lock(&one_at_a_time);
    while (call_cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        const CUpti_ActivityKernel10 *k = (const void *)record;
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            fprintf(file, "%llu %llu %d,%d,%d %d,%d,%d %u %s\n", (unsigned long long)k->start,
                    (unsigned long long)(k->end - k->start), k->gridX, k->gridY, k->gridZ,
                    k->blockX, k->blockY, k->blockZ, k->registersPerThread,
                    k->name ? k->name : "?");
    }
    fflush(file);
    pthread_mutex_unlock(&one_at_a_time);
    free(buffer);
}

static void end_records(void)
{
    call_cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

/* The driver calls it. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    const char *path = getenv("KERNEL_TIMES"), *cupti = getenv("KERNEL_TIMES_CUPTI");
    void *library = cupti ? dlopen(cupti, RTLD_NOW) : NULL;
    file = path ? fopen(path, "w") : NULL;
    if (!library || !file) {
        fprintf(stderr, "kernel_times: KERNEL_TIMES_CUPTI or KERNEL_TIMES cannot be opened\n");
        return 0;
    }
#define LOAD(name)                                                                                 \
    *(void **)&call_##name = dlsym(library, #name);                                                \
    if (!call_##name) {                                                                            \
        fprintf(stderr, "kernel_times: %s has no %s\n", cupti, #name);                             \
        return 0;                                                                                  \
    }
    CUPTI_FUNCTIONS(LOAD)
    if (call_cuptiActivityRegisterCallbacks(take_buffer, write_records) != CUPTI_SUCCESS ||
        call_cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
        fprintf(stderr,
                "kernel_times: CUPTI refused to record kernels; another profiler may be at work\n");
        return 0;
    }
    call_cuptiActivityFlushPeriod(FLUSH_MS);
    atexit(end_records);
    return 1;
}
