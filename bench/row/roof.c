/* SPDX-License-Identifier: MIT */
/* Roof: measured once and cached for the user; see roof.h. */
#include "bench/row/roof.h"

#include "bench/case/case_facts.h"
#include "bench/row/provenance.h"
#include "bench/train/timing.h"
#include "common/base/digest.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/device/machine_gpus.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 11, HARNESS_ROUNDS = 5 };

/* m, n, k: square matrices, and products as layers have them; ended by zeros. */
static const size_t sizes[][3] = {
    {512, 512, 512},   {768, 768, 768}, {1024, 1024, 1024}, {1536, 1536, 1536},
    {256, 1024, 1024}, {256, 784, 128}, {128, 784, 256},    {0},
};
static const size_t sizes_on_gpu[][3] = {
    {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 4096, 4096}, {8192, 1024, 1024}, {0},
};
static const size_t largest = 1536 * 1536, largest_on_gpu = 8192 * 4096; /* elements of a matrix */

static ls_status measure(ls_bench *bench, bool stored, double *flops_per_s)
{
    const bool gpu = ls_device_describe(bench->device)->name.kind == LS_DEVICE_GPU;
    const size_t elements = gpu ? largest_on_gpu : largest;
    const ls_kernel_table *table = bench->kernels->table;
    float *memory = NULL;
    ls_statistics ns;
    ls_op *op = NULL;
    *flops_per_s = 0;
    LS_TRY(ls_bench_floats(bench, 3 * elements, &memory));
    uint16_t *halves = (uint16_t *)(memory + 2 * elements); /* both factors, in bfloat16 */
    if (stored) {
        const ls_narrow_args args = {.count = 2 * (int64_t)elements, .x = memory, .y = halves};
        const ls_status made = table->narrow(bench->kernels, &args, &op);
        LS_TRY(ls_bench_time_made(bench, made, &op, 1, &ns));
    }
    for (const size_t(*size)[3] = gpu ? sizes_on_gpu : sizes; **size; size++) {
        for (int way = 0; way <= stored; way++) { /* of outputs, of weights' gradients */
            const ls_gemm_args args = {.m = (int64_t)(*size)[0],
                                       .n = (int64_t)(*size)[1],
                                       .k = (int64_t)(*size)[2],
                                       .a = memory,
                                       .b = memory + elements,
                                       .c = memory + 2 * elements};
            const ls_bf16_product_args narrow = {.transpose_a = way,
                                                 .m = args.m,
                                                 .n = args.n,
                                                 .k = args.k,
                                                 .a = halves,
                                                 .b = halves + elements,
                                                 .c = memory};
            const ls_status made = stored ? table->bf16_product(bench->kernels, &narrow, &op)
                                          : table->gemm(bench->kernels, &args, &op);
            LS_TRY(ls_bench_time_made(bench, made, &op, ROUNDS, &ns));
            /* the fast end, since noise only slows down */
            *flops_per_s = fmax(*flops_per_s, 2.0 * (double)args.m * (double)args.n *
                                                  (double)args.k / (ns.p10 * 1e-9));
        }
    }
    return LS_OK;
}

/* ---- The cache ------------------------------------------------------------------------------ */

/* Its path; makes its folder. */
static bool cache_file(char path[600])
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool given = base && *base == '/';
    const char *folder = given ? base : home;
    if (!folder || *folder != '/' || strlen(folder) > 500)
        return false;
    snprintf(path, 600, "%s%s", folder, given ? "" : "/.cache");
    mkdir(path, 0777);
    strcat(path, "/lockstep");
    mkdir(path, 0777);
    strcat(path, "/roofs.json");
    return true;
}

/* Counts changes of a GPU's own kernels of products. */
#define GPU_PRODUCTS "products 2"

/* Everything that the figure depends on. A table that was just opened has not yet noted cuDNN. */
static void cache_key(const ls_machine *machine, const ls_bench *bench, bool stored, char *key,
                      size_t size)
{
    const ls_machine_info *info = ls_machine_describe(machine);
    const ls_device_info *d = ls_device_describe(bench->device);
    const char *library = bench->kernels->table->library(bench->kernels);
    if (d->name.kind == LS_DEVICE_GPU) {
        const ls_gpu *gpu = ls_machine_gpu(machine, d->name.index);
        snprintf(key, size, "%s|%s|%s|%s|%s|%s|" GPU_PRODUCTS, info->host, gpu->name, gpu->pci,
                 info->driver, library, stored ? "bf16" : ls_math_words[bench->kernels->math]);
    } else {
        snprintf(key, size, "%s|%s|%s|%s|cpu%s|%s %s|%d cores", info->host, info->cpu,
                 info->cpu_identity, info->isa, stored ? " bf16" : "", library,
                 ls_kernel_library_isa(), d->core_count);
    }
    json_auto_t *environment = ls_environment_own();
    char *text = environment ? json_dumps(environment, JSON_COMPACT) : NULL;
    if (text)
        ls_text_add(key, size, "|environment %016llx",
                    (unsigned long long)ls_hash64(text, strlen(text)));
    free(text);
}

ls_status ls_roof_get(const ls_machine *machine, ls_device *device, ls_math math,
                      const ls_reached *reached, double *flops_per_s)
{
    ls_closing(ls_bench_close) ls_bench bench = {0};
    char path[600], temporary[640], key[512];
    const bool kept = cache_file(path);
    json_auto_t *cache = kept ? json_load_file(path, 0, NULL) : NULL;
    LS_TRY(ls_bench_open(device, math, NULL, &bench));
    cache_key(machine, &bench, reached->stored, key, sizeof key);
    const double cached = json_number_value(json_object_get(cache, key));
    const bool found = cached > 0 && cached >= reached->flops_per_s;
    *flops_per_s = cached;
    if (found)
        return LS_OK;
    LS_TRY(measure(&bench, reached->stored, flops_per_s));
    *flops_per_s = fmax(*flops_per_s, cached);
    if (!json_is_object(cache)) {
        json_decref(cache);
        cache = json_object();
    }
    json_object_set_new(cache, key, json_real(*flops_per_s));
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    if (kept && json_dump_file(cache, temporary, JSON_INDENT(1)) == 0)
        (void)!rename(temporary, path);
    else if (kept)
        unlink(temporary);
    return LS_OK;
}

/* ---- The harness's own cost ----------------------------------------------------------------- */

ls_status ls_harness_cost(ls_device *device, double *ns)
{
    enum { CAPACITY = 1024 };
    ls_closing(ls_bench_close) ls_bench bench = {0};
    void *state, *records;
    ls_op *op = NULL;
    ls_statistics statistics;
    LS_TRY(ls_bench_open(device, LS_MATH_FLOAT32, NULL, &bench));
    LS_TRY(ls_bench_take(&bench, sizeof(ls_step_state), &state));
    LS_TRY(ls_bench_take(&bench, CAPACITY * sizeof(ls_step_record), &records));
    const ls_finish_step_args args = {
        .state = state, .batch = 1, .records = records, .capacity = CAPACITY};
    const ls_status made = bench.kernels->table->finish_step(bench.kernels, &args, &op);
    LS_TRY(ls_bench_time_made(&bench, made, &op, HARNESS_ROUNDS, &statistics));
    *ns = statistics.median;
    return LS_OK;
}
