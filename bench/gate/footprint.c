/* SPDX-License-Identifier: MIT */
/*
 * Footprint; see footprint.h. Copies that are allocated but not written to are left out: the system
 * gives them no memory.
 */
#include "bench/gate/footprint.h"

#include "bench/gate/first_samples.h"
#include "bench/gate/gate.h"
#include "bench/train/world.h"

/* A step's time, loss and records on the host, at most. */
static const size_t step_bytes = 128;

static size_t parameter_bytes(const ls_plan_of_case *plan)
{
    return plan->model->graph->variables.elements * sizeof(float);
}

/* Bytes of the devices that are CPU devices. */
static size_t host_devices(const ls_plan_of_case *plan, const ls_need *need)
{
    size_t sum = 0;
    for (size_t i = 0; i < need->count; i++)
        if ((i < plan->device_count ? plan->devices[i] : plan->variable_device).kind ==
            LS_DEVICE_CPU)
            sum += ls_need_sum(&need->devices[i].formula);
    return sum;
}

/* Adds the session of a judge, which runs on the plan's first device. */
static ls_status add_judge(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           ls_session_opener open, ls_footprint_phase *out)
{
    ls_need need;
    LS_TRY(ls_session_need(workplace, plan, open, &need));
    out->sessions += host_devices(plan, &need);
    out->copies += need.host;
    ls_status status = ls_need_refuse(&need, plan, true);
    ls_need_free(&need);
    return status;
}

/* The state that a change of members holds on the host, while devices are opened again. */
static size_t moved_bytes(const ls_plan_of_case *plan)
{
    size_t sum = 0;
    for (int a = 0; a < LS_ARRAYS && plan->phases; a++)
        sum += ls_state_name(&plan->job, (ls_values)a) ? parameter_bytes(plan) : 0;
    return sum;
}

/* The judges of the candidate's steps, which are open next to it. */
static ls_status add_judges(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            ls_footprint *out)
{
    const ls_job *job = &plan->job;
    const size_t bytes = parameter_bytes(plan);
    const bool alone = ls_strategy_alone(plan->strategy), arrival = ls_ps_by_arrival(&job->ps);
    const bool parts = ls_job_sums(job);
    out->gate.copies += bytes * (2 + (size_t)job->exact.on); /* of `single` */
    if (alone) { /* its replay keeps the optimizer state of each replica of all processes */
        out->gate.copies +=
            (size_t)plan->all_devices * out->need.devices[0].formula.bytes[LS_MEMORY_OPTIMIZER];
        return add_judge(workplace, plan, ls_gate_open_replay, &out->gate);
    }
    if (!arrival && parts && !job->exact.on)
        LS_TRY(add_judge(workplace, plan, ls_gate_open_oracle, &out->gate));
    return add_judge(workplace, plan, ls_session_single, &out->gate);
}

static ls_status count_gate(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            ls_footprint *out)
{
    const ls_comm *comm = plan->job.ranks.comm;
    const size_t bytes = parameter_bytes(plan), several = plan->all_devices > 1;
    const uint64_t all = (uint64_t)(plan->warmup + plan->timed);
    const int64_t asked = plan->config->gate_steps;
    const uint64_t steps = asked < 0 || (uint64_t)asked > all ? all : (uint64_t)asked;
    out->gate = (ls_footprint_phase){0};
    if (!steps && asked >= 0)
        return LS_OK;
    out->gate = (ls_footprint_phase){.sessions = out->training.sessions, .copies = out->need.host};
    if (!steps)
        return LS_OK;
    if (comm && comm->rank > 0)
        return LS_OK;
    out->gate.copies += bytes * (2 + 2 * several); /* after a step, again; of oracle and replica */
    out->gate.copies += workplace->request->verify && workplace->request->save ? bytes : 0;
    return add_judges(workplace, plan, out);
}

static void count_training(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           ls_footprint *out)
{
    const ls_request *request = workplace->request;
    const size_t bytes = parameter_bytes(plan);
    size_t carried = 0; /* on the host, from one block to the next */
    for (size_t i = 0; i < out->need.count && request->blocks > 1 && plan->timed > 1; i++)
        carried += out->need.devices[i].formula.bytes[LS_MEMORY_PARAMETERS] +
                   out->need.devices[i].formula.bytes[LS_MEMORY_OPTIMIZER];
    const size_t ended = plan->job.update.average != 0 ? 2 * bytes : 0; /* to evaluate */
    const size_t steps = (size_t)plan->timed + (size_t)plan->job.records;
    out->training = (ls_footprint_phase){.sessions = host_devices(plan, &out->need)};
    if (request->verify)
        return;
    out->training.copies = out->need.host + (carried > ended ? carried : ended) +
                           (steps < SIZE_MAX / step_bytes ? steps * step_bytes : 0);
    if (plan->job.exact.on &&
        request->waterfall) /* next to the same case in fast mode (exact_cost.c) */
        out->training.sessions *= 2;
}

/* Freed pieces of the heap whose size fits no later one. */
static size_t with_fragments(size_t copies)
{
    return copies + copies / 4;
}

ls_status ls_footprint_count(const ls_workplace *workplace, const ls_plan_of_case *plan,
                             ls_footprint *out)
{
    ls_comm *comm = plan->job.ranks.comm;
    *out = (ls_footprint){0};
    LS_TRY(ls_session_need(workplace, plan, NULL, &out->need));
    count_training(workplace, plan, out);
    ls_status status = ls_need_refuse(&out->need, plan, false);
    if (!status)
        status = count_gate(workplace, plan, out);
    out->gate.copies += moved_bytes(plan);
    out->training.copies += moved_bytes(plan);
    out->gate.copies = with_fragments(out->gate.copies);
    out->training.copies = with_fragments(out->training.copies);
    return ls_world_agree(comm, status);
}
