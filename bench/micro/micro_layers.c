/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro layers`: each layer of a model, forward and backward, for one batch, as in the
 * model's net (a fused ReLU is part of the layer that it is fused with). Roof: for layers that
 * consist of products, the products timed alone ("product"; a layer that computes or writes less
 * than the whole product may exceed it); for others a copy of as many bytes ("copy"). All passes
 * are first compared with the reference table (micro_judge.c), then timed. Some backward passes
 * overwrite results of forward; they are repeated nevertheless, since no loop's time depends on the
 * values, and denormals are flushed.
 *
 * `lockstep micro floor`: a lower bound of a training step with this program's kernels: its layers
 * with products (per pass the faster of its products and the layer's own operations), its optimizer
 * pass and the gathering of its batch, each timed alone, then summed. Pools, normalisation, loss
 * and the harness are not included. Fusing and cheap replays must keep the ratio of `lockstep
 * run`'s step to this sum near 1.
 */
#include "bench/micro/micro.h"

#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/data/data.h"
#include "common/nn/net_nodes.h"
#include "impl/replica/replica.h"

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

/* Times and prints the passes of the model's layers: all, or (`products_only`) the passes that
 * consist of products. *floor_ns: the sum over the latter of the smaller of the pass's and its
 * products' time. */
static ls_status time_passes(ls_micro *m, bool products_only, double *floor_ns)
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
    return time_passes(m, false, &floor_ns);
}

/* ---- A step as the sum of its parts ---------------------------------------------------------- */

/* Times indices, inputs and targets of a batch, as a step gathers them; advances the position. */
static ls_status time_gather(ls_micro *m, ls_data *data, ls_micro_figure *figure)
{
    const ls_job job = {.model = m->model,
                        .data = data,
                        .devices = &m->device,
                        .device_count = 1,
                        .batch = m->batch,
                        .seed = 1,
                        .sampling.shuffle = true,
                        .faults.flip_replica = -1,
                        .update.optimizer = m->optimizer,
                        .records = 1};
    ls_replica *replica;
    ls_net *net = NULL;
    const ls_replica like = {
        .job = &job, .device = m->device, .updates = true, .data.rows = m->batch, .loss.sums = 1};
    LS_TRY(ls_replica_open(&like, &replica));
    const ls_net_options options = {.graph = m->model->graph,
                                    .kernels = replica->kernels,
                                    .rows = m->batch,
                                    .divisor = (uint64_t)m->batch,
                                    .parameters = replica->parameters};
    ls_op_list ops = {0};
    ls_status status = ls_net_open(&options, &net);
    if (!status)
        status = ls_replica_feed(replica, net, &(ls_replica_part){0}, &ops);
    if (!status)
        status = ls_replica_finish(replica, m->batch, &ops);
    if (!status)
        status = ls_bench_time(&m->bench, ops.items, ops.count, LS_MICRO_ROUNDS, &figure->ns);
    ls_op_list_clear(&ops);
    ls_net_close(net);
    ls_replica_close(replica);
    return status;
}

ls_status ls_micro_floor(ls_micro *m)
{
    ls_micro_figure figure, sum = {.op = "floor", .shape = m->model->name};
    ls_data *data;
    LS_TRY(
        ls_data_open(m->data ? m->data : m->model->family->default_data, &m->model->need, &data));
    ls_status status = time_passes(m, true, &sum.ns.median);
    if (!status)
        status = ls_micro_time_optimizer(m, m->model->graph->variables.elements, &figure);
    if (!status) {
        sum.ns.median += figure.ns.median;
        status = ls_micro_row(m, &figure);
        figure = (ls_micro_figure){.op = "gather", .count = (size_t)m->batch};
    }
    if (!status)
        status = time_gather(m, data, &figure);
    if (!status) {
        sum.ns.median += figure.ns.median;
        status = ls_micro_row(m, &figure);
    }
    ls_data_close(data);
    return status ? status : ls_micro_row(m, &sum);
}
