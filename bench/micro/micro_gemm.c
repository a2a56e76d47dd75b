/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro gemm`: the products of a model's layers for one batch (forward, dweight, ddata,
 * ...), then square products. On a GPU each is measured twice: as in a step, and by the library's
 * first choice (`roof`). Inputs are whole numbers from -2 to 2, so sums of up to 4 million products
 * are exact in float32 and an element is right or wrong; some of each product's elements are
 * checked.
 */
#include "bench/micro/micro.h"

#include "common/base/grow.h"

#include <stdio.h>

enum { LOOKS = 256 };

typedef ls_layer_product product;

static ls_status take_whole(ls_micro *m, size_t count, unsigned salt, float **out)
{
    ls_auto float *host = NULL;
    LS_TRY(ls_allocate("gemm", &host, count, sizeof *host));
    for (size_t i = 0; i < count; i++)
        host[i] = ls_micro_whole(i, salt);
    LS_TRY(ls_bench_floats(&m->bench, count, out));
    return ls_queue_write(m->bench.queue, *out, host, count * sizeof *host);
}

/* Wrong elements among LOOKS samples, spread over the result. */
static uint64_t count_wrong(const product *p, const float *c)
{
    uint64_t wrong = 0;
    int64_t all = p->m * p->n, looks = all < LOOKS ? all : LOOKS;
    for (int64_t i = 0; i < looks; i++) {
        int64_t at = all / looks * i, row = at / p->n, column = at % p->n;
        double sum = 0;
        for (int64_t k = 0; k < p->k; k++) {
            size_t a = (size_t)(p->transpose_a ? k * p->m + row : row * p->k + k);
            size_t b = (size_t)(p->transpose_b ? column * p->k + k : k * p->n + column);
            sum += (double)ls_micro_whole(a, 1) * (double)ls_micro_whole(b, 2);
        }
        wrong += (double)c[at] != sum;
    }
    return wrong;
}

/* Makes the product with the current kernels, checks and times it, and prints the row. */
static ls_status run_product(ls_micro *m, const product *p, const ls_gemm_args *args,
                             ls_micro_figure *figure)
{
    const size_t bytes = figure->bytes;
    ls_auto float *host = NULL;
    ls_op *op = NULL;
    LS_TRY(ls_allocate("gemm", &host, 1, bytes));
    LS_TRY(m->bench.kernels->table->gemm(m->bench.kernels, args, &op));
    figure->kernel = figure->kernel ? figure->kernel : op->name;
    ls_status status = ls_queue_enqueue(m->bench.queue, op);
    if (!status)
        status = ls_queue_read(m->bench.queue, host, args->c, bytes);
    figure->checked = true;
    figure->wrong = status ? 0 : count_wrong(p, host);
    LS_TRY(ls_bench_time_made(&m->bench, status, &op, LS_MICRO_ROUNDS, &figure->ns));
    return ls_micro_row(m, figure);
}

/* Adds the product's median time to *sum_ns. */
static ls_status time_product(ls_micro *m, const product *p, double *sum_ns)
{
    char shape[96];
    float *a = NULL, *b = NULL, *c = NULL;
    snprintf(shape, sizeof shape, "%s %lldx%lldx%lld", p->what, (long long)p->m, (long long)p->n,
             (long long)p->k);
    ls_micro_figure figure = {.op = "gemm",
                              .shape = shape,
                              .bytes = (size_t)(p->m * p->n) * sizeof(float),
                              .count = (size_t)(p->m * p->n),
                              .flops = 2.0 * (double)p->m * (double)p->n * (double)p->k};
    ls_bench_release(&m->bench);
    LS_TRY(take_whole(m, (size_t)(p->m * p->k), 1, &a));
    LS_TRY(take_whole(m, (size_t)(p->k * p->n), 2, &b));
    LS_TRY(ls_bench_floats(&m->bench, (size_t)(p->m * p->n), &c));
    const ls_gemm_args args = {.transpose_a = p->transpose_a,
                               .transpose_b = p->transpose_b,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .a = a,
                               .b = b,
                               .c = c};
    LS_TRY(run_product(m, p, &args, &figure));
    *sum_ns += figure.ns.median * (double)p->times;
    if (ls_device_describe(m->device)->name.kind != LS_DEVICE_GPU)
        return LS_OK;
    /* The first algorithm that a GPU's library returns may split the sum, unlike algorithms in a
     * step: the roof of the product, independent of this program. */
    figure.op = "roof";
    figure.kernel = "cublaslt's first choice";
    m->bench.kernels->any_order = true;
    ls_status status = run_product(m, p, &args, &figure);
    m->bench.kernels->any_order = false;
    return status;
}

ls_status ls_micro_products(ls_micro *m, int n, double sum_ns[2])
{
    const ls_graph *graph = m->model->graph;
    const ls_node *node = &graph->nodes[n];
    product products[LS_LAYER_PRODUCTS];
    sum_ns[0] = sum_ns[1] = 0;
    if (!node->layer->products)
        return LS_OK;
    const bool inputs_too = ls_graph_wants_gradient(graph, node->inputs[0]);
    const int count = node->layer->products(graph, node, m->batch, inputs_too, products);
    for (int i = 0; i < count; i++)
        LS_TRY(time_product(m, &products[i], &sum_ns[products[i].backward]));
    return LS_OK;
}

ls_status ls_micro_gemm(ls_micro *m)
{
    static const int64_t squares[] = {256, 512, 1024, 2048, 4096, 8192};
    const bool gpu = ls_device_describe(m->device)->name.kind == LS_DEVICE_GPU;
    const size_t count = sizeof squares / sizeof *squares - (gpu ? 0 : 2); /* minutes on a CPU */
    double sum_ns[2];
    for (int n = 0; n < m->model->graph->count; n++)
        LS_TRY(ls_micro_products(m, n, sum_ns));
    for (size_t i = 0; i < count; i++) {
        const int64_t side = squares[i];
        const product square = {.what = "square", .m = side, .n = side, .k = side, .times = 1};
        LS_TRY(time_product(m, &square, sum_ns));
    }
    return LS_OK;
}
