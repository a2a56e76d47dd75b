/* SPDX-License-Identifier: MIT */
/* Planted faults; see case_plan.h. */
#include "bench/case/case_plan.h"
#include "impl/replica/slice.h"

#include <stdio.h>

/* A fault's rank must exist, and its step must be in the timed run. A rank that is a thread can
 * only hang or be killed. */
static ls_status check_rank(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            const char *where)
{
    const ls_case *c = plan->config;
    const ls_fault *fault = &c->fault;
    if (c->shrinks) /* an event of the case (elastic.h) */
        return LS_OK;
    if (workplace->request->verify)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "this fault acts after the steps that lockstep verify compares with the "
                       "reference, so verify would not see it; use lockstep run");
    const bool process = workplace->request->processes->size > 1;
    const bool device = fault->kind == LS_FAULT_HANG && !process && ls_plan_can_hang(plan);
    if (fault->kind != LS_FAULT_KILL && !process && !device)
        return ls_fail(
            LS_CODE_USAGE, "option", where,
            "needs ranks that are separate processes%s; start lockstep by mpirun -n N, or "
            "use --inject kill=R:S",
            fault->kind == LS_FAULT_HANG ? ", or several CPU devices" : "");
    const int ranks = device && c->ranks == 1 ? plan->all_devices : c->ranks;
    if (fault->target >= ranks)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "the case has %d %s%s, numbered from 0; before the colon, use a number of "
                       "at most %d",
                       ranks, ranks == c->ranks ? "rank" : "device", ranks == 1 ? "" : "s",
                       ranks - 1);
    const int64_t first = (int64_t)plan->job.start;
    if (fault->step < first || fault->step >= first + plan->warmup + plan->timed)
        return ls_fail(
            LS_CODE_USAGE, "option", where,
            "the case has %lld steps, warm-up included, numbered from %lld; name one of its steps",
            (long long)(plan->warmup + plan->timed), (long long)first);
    return LS_OK;
}

/* A straggler must be one of several replicas, on a CPU. Finds the replicas on that rank. */
static ls_status check_delay(const ls_workplace *workplace, ls_plan_of_case *plan,
                             const char *where)
{
    const ls_case *c = plan->config;
    ls_job *job = &plan->job;
    const bool serves = ls_strategy_serves(plan->strategy);
    const int ranks = c->ranks > 1 ? c->ranks : plan->all_devices, rank = c->fault.target;
    if (workplace->request->verify)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "delays timed steps, and lockstep verify times no steps; use lockstep run");
    if (!ls_strategy_replicates(plan->strategy) || job->mesh.rest != LS_MEMBER ||
        plan->all_devices == 1 || plan->devices->kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "delays one replica while others go on, but this case does not have two or "
                       "more replicas on CPU devices; use --strategy towers, mirrored, independent "
                       "or ps on 2 CPU devices or more");
    if (rank >= ranks)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "the case has %d %s, numbered from 0; before the colon, use a number of at "
                       "most %d",
                       ranks, c->ranks > 1 ? "ranks" : "devices", ranks - 1);
    job->faults.delay_count = plan->all_devices / ranks;
    job->faults.delay_replica = rank * job->faults.delay_count;
    if (serves && c->ranks > 1 && !job->ps.colocate)
        job->faults.delay_replica -= job->ps.servers;
    if (job->faults.delay_replica < 0)
        return ls_fail(
            LS_CODE_USAGE, "option", where,
            "rank %d is a server, but only workers can be delayed; name a rank from %d to %d", rank,
            job->ps.servers, ranks - 1);
    return LS_OK;
}

/* Whether a device has a gradient: in a divided model, some have no variables. */
static bool has_gradient(const ls_plan_of_case *plan, int device)
{
    const ls_job *job = &plan->job;
    const ls_graph *graph = job->model->graph;
    const int stage = device % ls_job_places(job) / ls_job_mesh(job).size[LS_SLICE];
    bool has = !job->division.place;
    for (int n = 0; n < graph->count && !has; n++)
        has = graph->nodes[n].variable_count && graph->nodes[n].shares < 0 &&
              job->division.place[n] % ls_job_stages(job) == stage;
    return has;
}

/* A planted fault must hit a device of the case that has samples and variables, in a step that is
 * compared. */
static ls_status check_bitflip(const ls_plan_of_case *plan, const char *where)
{
    const ls_case *c = plan->config;
    const int device = c->fault.target;
    const int64_t step = c->fault.step;
    int64_t all = plan->warmup + plan->timed;
    int64_t compared = c->gate_steps < 0 || c->gate_steps > all ? all : c->gate_steps;
    const int devices =
        ls_strategy_serves(plan->strategy) ? ls_job_replicas(&plan->job) : plan->all_devices;
    if (device >= devices)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "the case has %d %s%s, numbered from 0; before the colon, use a number of "
                       "at most %d",
                       devices, ls_strategy_serves(plan->strategy) ? "worker" : "device",
                       devices == 1 ? "" : "s", devices - 1);
    if (ls_ps_by_arrival(&plan->job.ps))
        compared = 0;
    if (!compared)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "no step of this case is compared with a reference, so this fault would not "
                       "be found; use --gate-steps 1 or more, and a strategy that sums gradients "
                       "in every step (not --ps-mode async)");
    if (!has_gradient(plan, device))
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "this device has no variables of the model, so it has no gradient to "
                       "change; name a device that has variables (--log-placement shows which)");
    const int64_t first = (int64_t)plan->job.start;
    if (step < first || step >= first + compared)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "only steps %lld to %lld are compared with the reference; name one of "
                       "these%s",
                       (long long)first, (long long)(first + compared - 1),
                       step >= first && step < first + all ? ", or raise --gate-steps" : "");
    const ls_job *job = &plan->job;
    if (ls_strategy_replicates(plan->strategy) && ls_job_is_tail(job, (uint64_t)step) &&
        !ls_slice_count_sums(job, ls_job_tail(job), device / ls_job_places(job),
                             ls_job_replicas(job)))
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "this step is the last one of an epoch and has only %lld samples, so this "
                       "device gets none; name another step or device",
                       (long long)ls_job_tail(job));
    return LS_OK;
}

ls_status ls_plan_place_faults(const ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_fault *fault = &plan->config->fault;
    char text[64], where[96];
    if (!fault->kind)
        return LS_OK;
    snprintf(where, sizeof where, "--inject %s", ls_fault_text(fault, text, sizeof text));
    if (fault->kind == LS_FAULT_BITFLIP)
        return check_bitflip(plan, where);
    if (fault->kind == LS_FAULT_DELAY)
        return check_delay(workplace, plan, where);
    return check_rank(workplace, plan, where);
}
