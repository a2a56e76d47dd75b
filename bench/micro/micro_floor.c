/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro floor`: a lower bound of a training step with this program's kernels: its layers
 * with products (per pass the faster of its products and the layer's own operations), its optimizer
 * pass and the gathering of its batch, each timed alone, then summed. Pools, normalisation, loss
 * and the harness are not included. Fusing and cheap replays must keep the ratio of `lockstep
 * run`'s step to this sum near 1.
 */
#include "bench/micro/micro.h"

#include "common/base/grow.h"
#include "common/data/data.h"
#include "impl/replica/replica.h"

/* Times indices, inputs and targets of a batch, as a step gathers them; advances the position. */
static ls_status time_feed(ls_micro *m, ls_replica *replica, ls_net *net, ls_micro_figure *figure)
{
    ls_closing(ls_op_list_clear) ls_op_list ops = {0};
    LS_TRY(ls_replica_feed(replica, net, &(ls_replica_part){0}, &ops));
    LS_TRY(ls_replica_finish(replica, m->batch, &ops));
    return ls_bench_time(&m->bench, ops.items, ops.count, LS_MICRO_ROUNDS, &figure->ns);
}

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
    ls_net *net;
    const ls_replica like = {
        .job = &job, .device = m->device, .updates = true, .data.rows = m->batch, .loss.sums = 1};
    LS_TRY(ls_replica_open(&like, &replica));
    const ls_net_options options = {.graph = m->model->graph,
                                    .kernels = replica->kernels,
                                    .rows = m->batch,
                                    .divisor = (uint64_t)m->batch,
                                    .parameters = replica->parameters};
    ls_status status = ls_net_open(&options, &net);
    if (!status) {
        status = time_feed(m, replica, net, figure);
        ls_net_close(net);
    }
    ls_replica_close(replica);
    return status;
}

ls_status ls_micro_floor(ls_micro *m)
{
    ls_micro_figure figure, sum = {.op = "floor", .shape = m->model->name};
    ls_data *data;
    LS_TRY(
        ls_data_open(m->data ? m->data : m->model->family->default_data, &m->model->need, &data));
    ls_status status = ls_micro_passes(m, true, &sum.ns.median);
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
