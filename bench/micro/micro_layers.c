/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro layers`: each layer of a model, forward and backward, for one batch, as in the
 * model's net (a fused ReLU is part of the layer that it is fused with). Roof: for layers that
 * consist of products, the products timed alone ("product"; a layer that computes or writes less
 * than the whole product may exceed it); for others a copy of as many bytes ("copy"). All passes
 * are first compared with the reference table (micro_judge.c), then timed. Some backward passes
 * overwrite results of forward; they are repeated nevertheless, since no loop's time depends on the
 * values, and denormals are flushed.
 */
#include "bench/micro/micro.h"

#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/nn/net_nodes.h"

#include <stdio.h>

static const char *const pass_name[2] = {"forward", "backward"};

typedef struct layers {
    ls_micro *m;
    ls_micro_judge judge;
    bool products_only;
    double floor_ns, sum_ns, roof_ns;
} layers;

typedef struct kernel_names {
    char text[160];
    double flops, bytes;
} kernel_names;

static void add_kernel(void *context, const ls_op *op)
{
    kernel_names *k = context;
    ls_text_add(k->text, sizeof k->text, "%s%s", *k->text ? "+" : "", op->name);
    k->flops += op->flops;
    k->bytes += op->bytes;
}

/* "24x24x3" */
static const char *shape_text(const ls_shape *shape, char text[64])
{
    *text = 0;
    for (int i = 0; i < shape->rank; i++)
        ls_text_add(text, 64, "%s%lld", i ? "x" : "", (long long)shape->size[i]);
    return shape->rank ? text : "1";
}

static ls_status time_pass(layers *l, int n, bool backward, double product_ns, uint64_t wrong)
{
    const ls_graph *graph = l->m->model->graph;
    const ls_node *node = &graph->nodes[n];
    const ls_shape *from = node->input_count ? &graph->nodes[node->inputs[0]].shape : &node->shape;
    const ls_op_list *ops = ls_net_node_ops(l->judge.timed, n, backward);
    kernel_names work = {0};
    char name[LS_NODE_NAME], shape[256], in[64], out[64];
    if (!ops->count)
        return LS_OK;
    ls_op_list_each(ops, add_kernel, &work);
    snprintf(shape, sizeof shape, "%s %s %s>%s", ls_graph_node_name(graph, n, name),
             pass_name[backward], shape_text(from, in), shape_text(&node->shape, out));
    const int64_t count = l->m->batch * ls_shape_elements(backward ? from : &node->shape);
    ls_micro_figure figure = {.op = "layers",
                              .shape = shape,
                              .bytes = (size_t)count * sizeof(float),
                              .count = (size_t)count,
                              .flops = work.flops,
                              .moved_bytes = work.bytes,
                              .checked = true,
                              .wrong = wrong,
                              .kernel = work.text};
    figure.roof = product_ns > 0 ? "product" : "copy";
    figure.roof_ns = product_ns;
    if (!(product_ns > 0)) {
        ls_statistics copy;
        LS_TRY(ls_micro_time_copy(l->m, (size_t)(work.bytes / 2) + sizeof(float), &copy));
        figure.roof_ns = copy.median;
    }
    LS_TRY(
        ls_bench_time(&l->judge.fast.bench, ops->items, ops->count, LS_MICRO_ROUNDS, &figure.ns));
    l->sum_ns += figure.ns.median;
    l->roof_ns += figure.roof_ns;
    if (product_ns > 0)
        l->floor_ns += product_ns < figure.ns.median ? product_ns : figure.ns.median;
    return ls_micro_row(l->m, &figure);
}

static ls_status time_node(layers *l, int n)
{
    double product_ns[2];
    if (l->products_only && !l->m->model->graph->nodes[n].layer->products)
        return LS_OK;
    LS_TRY(ls_micro_products(l->m, n, product_ns));
    for (int backward = 0; backward < 2; backward++)
        if (product_ns[backward] > 0 || !l->products_only)
            LS_TRY(time_pass(l, n, backward, product_ns[backward], l->judge.wrong[n][backward]));
    return LS_OK;
}

static void close_judge(layers *l)
{
    ls_micro_judge_close(&l->judge);
}

ls_status ls_micro_passes(ls_micro *m, bool products_only, double *floor_ns)
{
    ls_closing(close_judge) layers l = {.m = m, .products_only = products_only};
    LS_TRY(ls_micro_judge_open(m, &l.judge));
    for (int n = 0; n < m->model->graph->count; n++)
        LS_TRY(time_node(&l, n));
    *floor_ns = l.floor_ns;
    const ls_micro_figure sum = {.op = "layers",
                                 .shape = m->model->name,
                                 .ns.median = l.sum_ns,
                                 .roof = "sum",
                                 .roof_ns = l.roof_ns};
    return products_only ? LS_OK : ls_micro_row(m, &sum);
}

ls_status ls_micro_layers(ls_micro *m)
{
    double floor_ns;
    return ls_micro_passes(m, false, &floor_ns);
}
