/* SPDX-License-Identifier: MIT */
/* Roof: measured once and cached for the user; see roof.h. */
#include "bench/row/roof.h"

#include "bench/case/case_facts.h"
#include "bench/row/environment.h"
#include "bench/train/timing.h"
#include "common/base/digest.h"
#include "common/device/machine_gpus.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 11, HARNESS_ROUNDS = 5 };
/* m, n, k: square matrices, and products as layers have them. */
static const int64_t sizes[][3] = {
    {512, 512, 512},   {768, 768, 768}, {1024, 1024, 1024}, {1536, 1536, 1536},
    {256, 1024, 1024}, {256, 784, 128}, {128, 784, 256},
};
static const int64_t sizes_on_gpu[][3] = {
    {2048, 2048, 2048},
    {4096, 4096, 4096},
    {8192, 4096, 4096},
    {8192, 1024, 1024},
};
enum {
    SIZES = sizeof sizes / sizeof *sizes,
    SIZES_ON_GPU = sizeof sizes_on_gpu / sizeof *sizes_on_gpu,
    LARGEST = 1536 * 1536, /* elements of a matrix */
    LARGEST_ON_GPU = 8192 * 4096
};

/* `largest`: elements of the largest matrix; `memory` holds three of that size. */
static ls_status measure_size(ls_bench *bench, const int64_t size[3], size_t largest, float *memory,
                              double *best)
{
    const ls_gemm_args args = {.m = size[0],
                               .n = size[1],
                               .k = size[2],
                               .a = memory,
                               .b = memory + largest,
                               .c = memory + 2 * largest};
    ls_op *op;
    ls_statistics ns;
    LS_TRY(bench->kernels->table->gemm(bench->kernels, &args, &op));
    ls_status status = ls_bench_time(bench, &op, 1, ROUNDS, &ns);
    ls_op_free(op);
    double rate = 2.0 * (double)size[0] * (double)size[1] * (double)size[2] /
                  (ns.p10 * 1e-9); /* the fast end, since noise only slows down */
    if (!status && rate > *best)
        *best = rate;
    return status;
}

static ls_status measure(ls_bench *bench, double *flops_per_s)
{
    const bool gpu = ls_device_describe(bench->device)->name.kind == LS_DEVICE_GPU;
    const int64_t(*list)[3] = gpu ? sizes_on_gpu : sizes;
    const size_t count = gpu ? SIZES_ON_GPU : SIZES, largest = gpu ? LARGEST_ON_GPU : LARGEST;
    float *memory = NULL;
    double best = 0;
    ls_status status = ls_bench_floats(bench, 3 * largest, &memory);
    for (size_t i = 0; i < count && !status; i++) {
        status = measure_size(bench, list[i], largest, memory, &best);
    }
    ls_device_release(bench->device, memory);
    if (!status)
        *flops_per_s = best;
    return status;
}

/* ---- The cache ------------------------------------------------------------------------------ */

static bool cache_file(char *path, size_t size, bool make)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int used;
    if (base && *base == '/')
        used = snprintf(path, size, "%s", base);
    else if (home && *home == '/')
        used = snprintf(path, size, "%s/.cache", home);
    else
        return false;
    if (used < 0 || (size_t)used + 32 > size)
        return false;
    if (make)
        mkdir(path, 0777);
    strcat(path, "/lockstep");
    if (make)
        mkdir(path, 0777);
    strcat(path, "/roofs.json");
    return true;
}

/* What the environment says, in few characters; "": nothing. */
static void add_environment(char *key, size_t size)
{
    json_auto_t *environment = ls_environment_own();
    char *text = environment ? json_dumps(environment, JSON_COMPACT) : NULL;
    const size_t used = strlen(key);
    if (text)
        snprintf(key + used, size - used, "|environment %016llx",
                 (unsigned long long)ls_hash64(text, strlen(text)));
    free(text);
}

/* Counts changes of a GPU's own kernels of products. */
#define GPU_PRODUCTS "products 2"

/* Everything that the figure depends on. A table that was just opened has not yet noted cuDNN. */
static void cache_key(const ls_machine *machine, const ls_bench *bench, char *key, size_t size)
{
    const ls_machine_info *info = ls_machine_describe(machine);
    const ls_device_info *d = ls_device_describe(bench->device);
    const char *library = bench->kernels->table->library(bench->kernels);
    if (d->name.kind == LS_DEVICE_GPU) {
        const ls_gpu *gpu = ls_machine_gpu(machine, d->name.index);
        snprintf(key, size, "%s|%s|%s|%s|%s|%s|" GPU_PRODUCTS, info->host, gpu->name, gpu->pci,
                 info->driver, library, ls_math_words[bench->kernels->math]);
    } else {
        snprintf(key, size, "%s|%s|%s|%s|cpu|%s %s|%d cores", info->host, info->cpu,
                 info->cpu_identity, info->isa, library, ls_kernel_library_isa(), d->core_count);
    }
    add_environment(key, size);
}

static void write_cache(json_t *cache)
{
    char path[600], temporary[640];
    if (!cache_file(path, sizeof path, true))
        return;
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    if (json_dump_file(cache, temporary, JSON_INDENT(1)) == 0)
        (void)!rename(temporary, path);
    else
        unlink(temporary);
}

static ls_status find(const ls_machine *machine, ls_bench *bench, double reached,
                      double *flops_per_s)
{
    char path[600], key[512];
    cache_key(machine, bench, key, sizeof key);
    json_t *cache = cache_file(path, sizeof path, false) ? json_load_file(path, 0, NULL) : NULL;
    double cached = json_number_value(json_object_get(cache, key));
    if (cached > 0 && cached >= reached) {
        *flops_per_s = cached;
        json_decref(cache);
        return LS_OK;
    }
    ls_status status = measure(bench, flops_per_s);
    if (!status) {
        if (cached > *flops_per_s)
            *flops_per_s = cached;
        if (!json_is_object(cache)) {
            json_decref(cache);
            cache = json_object();
        }
        json_object_set_new(cache, key, json_real(*flops_per_s));
        write_cache(cache);
    }
    json_decref(cache);
    return status;
}

ls_status ls_roof_get(const ls_machine *machine, ls_device *device, ls_math math, double reached,
                      double *flops_per_s)
{
    ls_bench bench;
    LS_TRY(ls_bench_open(device, math, &bench));
    ls_status status = find(machine, &bench, reached, flops_per_s);
    ls_bench_close(&bench);
    return status;
}

/* ---- The harness's own cost ----------------------------------------------------------------- */

ls_status ls_harness_cost(ls_device *device, double *ns)
{
    enum { CAPACITY = 1024 };
    ls_bench bench;
    void *state = NULL, *records = NULL;
    ls_op *op = NULL;
    ls_statistics statistics = {0};
    LS_TRY(ls_bench_open(device, LS_MATH_FLOAT32, &bench));
    ls_status status =
        ls_device_allocate(device, LS_MEMORY_WORKSPACE, sizeof(ls_step_state), &state);
    if (!status)
        status = ls_device_allocate(device, LS_MEMORY_WORKSPACE, CAPACITY * sizeof(ls_step_record),
                                    &records);
    const ls_finish_step_args args = {
        .state = state, .batch = 1, .records = records, .capacity = CAPACITY};
    if (!status)
        status = bench.kernels->table->finish_step(bench.kernels, &args, &op);
    if (!status)
        status = ls_bench_time(&bench, &op, 1, HARNESS_ROUNDS, &statistics);
    ls_op_free(op);
    ls_device_release(device, state);
    ls_device_release(device, records);
    ls_bench_close(&bench);
    if (!status)
        *ns = statistics.median;
    return status;
}
