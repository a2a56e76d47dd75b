/* SPDX-License-Identifier: MIT */
/*
 * The all-reduce, the buckets and the overlap of a case: `auto` is a fixed function of sizes,
 * ranks, hosts, links and cores. Over links, on a platform, and between hosts it is the all-reduce
 * whose sums take least on that network (common/comm/comm_network.h). On one host without links it
 * is what was measured to be fast in shared memory (ls_allreduce_auto).
 */
#include "bench/case/case_plan.h"
#include "common/base/grow.h"
#include "common/nn/layer.h"
#include "impl/step/plan/loads.h"

#include <string.h>

/* ---- Network --------------------------------------------------------------------------------- */

int ls_plan_number(const ls_plan_of_case *plan, size_t index)
{
    for (size_t i = 0; i < plan->device_count; i++)
        if (plan->devices[i].index >= (int)plan->device_count)
            return (int)index;
    return plan->devices[index].index;
}

/* The hosts of devices that are played, each a process. Where hosts have no ports, they count for
 * the all-reduce that goes by hosts, if several devices have one. */
static ls_status lay_out(const ls_wires *wires, int each, ls_plan_of_case *plan)
{
    const int devices = (int)plan->device_count;
    int *host;
    if (devices <= each || (each == 1 && !wires->hosts))
        return LS_OK;
    LS_TRY(ls_allocate("plan", &plan->layout, 1, sizeof *plan->layout));
    LS_TRY(ls_allocate("plan", &host, (size_t)devices, sizeof *host));
    for (int i = 0; i < devices; i++)
        host[i] = ls_plan_number(plan, (size_t)i) / each;
    *plan->layout = (ls_layout){.processes = devices, .host = host};
    plan->job.ranks.layout = plan->layout;
    return LS_OK;
}

/* Sets `wires` to the network between the case's devices. false if they are on one host, without
 * links. */
static bool find_wires(const ls_workplace *workplace, const ls_plan_of_case *plan, ls_wires *wires)
{
    ls_link link = {0};
    if (workplace->wires) {
        *wires = *workplace->wires;
        return true;
    }
    if (*plan->config->link_text)
        ls_status_free(ls_link_parse(plan->config->link_text, &link)); /* checked as an option */
    return ls_wires_estimate(&link, plan->job.ranks.comm ? workplace->request->processes->hosts : 1,
                             wires);
}

ls_status ls_plan_choose_allreduce(const ls_wires *wires, ls_plan_of_case *plan)
{
    ls_closing(ls_loads_close) ls_loads loads = {0};
    const ls_comm_network network = {*wires, plan->job.ranks.layout, plan->all_devices};
    if (strcmp(plan->config->allreduce, "auto") != 0 || !plan->job.exchange.allreduce->time)
        return LS_OK;
    LS_TRY(ls_loads_open(plan->strategy, &plan->job, &loads));
    return ls_allreduce_fastest(&network, loads.items, loads.count, plan->job.exchange.allreduce,
                                &plan->job.exchange.allreduce);
}

/* ---- Choice ---------------------------------------------------------------------------------- */

/* Bytes of a sum over the places of split layers: of the widest layer, of the whole batch. */
static size_t summed_bytes(const ls_plan_of_case *plan)
{
    const ls_graph *graph = plan->model->graph;
    int64_t most = 0;
    for (int n = 0; n < graph->count; n++) {
        const int64_t elements = ls_shape_elements(&graph->nodes[n].shape);
        if (elements > most && strcmp(graph->nodes[n].layer->name, "dense") == 0)
            most = elements;
    }
    return (size_t)(most * plan->job.batch) * sizeof(float);
}

/* If one core both computes and sums in shared memory (no links), nothing can overlap, so all
 * gradients are one bucket, unless a device holds few complete buckets. Otherwise a bucket is an
 * eighth of them: most are reduced during backward, and latency does not dominate. A stage that
 * holds few complete buckets has eight, however small. */
ls_status ls_plan_choose_reduction(const ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    ls_job *job = &plan->job;
    ls_wires wires;
    const bool linked = *c->link_text != 0, gpu = plan->devices->kind == LS_DEVICE_GPU;
    const ls_mesh mesh = ls_job_mesh(job);
    const bool shares = job->division.sequence || job->state.on[LS_MEMBER] == LS_SHARE;
    const bool replicas =
        !ls_job_slices(job) || ls_strategy_reduces(plan->strategy); /* sum, not places */
    const ls_comm like = {.backend = job->exchange.transport,
                          .size = replicas ? mesh.size[LS_POSITION] * mesh.replicas : mesh.places,
                          .linked = linked,
                          .shared =
                              !linked && ls_comm_shares(plan->devices, (int)plan->device_count) &&
                              (!job->ranks.comm || workplace->request->processes->hosts == 1)};
    const size_t gradients = plan->model->graph->variables.elements * sizeof(float);
    const bool staged = job->division.microbatches > 0 && job->gradients.windows;
    const size_t least = staged ? 1 : 512 << 10,
                 part = gradients / 8 / (staged ? (size_t)ls_job_stages(job) : 1),
                 eighth = part > least ? part : least;
    job->exchange.overlap = like.size > 1 && replicas &&
                            (gpu || linked || ls_machine_cores_per_device(workplace->machine) > 1);
    job->exchange.transfers =
        job->division.microbatches > 0 && (linked || workplace->request->predict);
    job->exchange.bucket_bytes = job->exact.on && !shares ? SIZE_MAX
                                 : c->bucket_bytes >= 0   ? (size_t)c->bucket_bytes
                                 : job->exchange.wire     ? SIZE_MAX
                                 : job->exchange.overlap || job->gradients.windows ? eighth
                                                                                   : SIZE_MAX;
    if (workplace->wires)
        LS_TRY(lay_out(workplace->wires, workplace->devices_per_host, plan));
    if (job->exact.on)
        return ls_allreduce_find("canonical", &job->exchange.allreduce);
    if (job->exchange.wire || job->exchange.gradient_wire ||
        (!replicas && job->kernels.precision == LS_PRECISION_BF16))
        return ls_allreduce_find("owners", &job->exchange.allreduce);
    if (strcmp(c->allreduce, "auto") != 0)
        return ls_allreduce_find(c->allreduce, &job->exchange.allreduce);
    job->exchange.allreduce =
        shares ? ls_allreduce_auto_halves(&like)
               : ls_allreduce_auto(&like, replicas ? gradients : summed_bytes(plan));
    return find_wires(workplace, plan, &wires) ? ls_plan_choose_allreduce(&wires, plan) : LS_OK;
}
