/* SPDX-License-Identifier: MIT */
/* Sessions: a plan's devices opened, and its strategy on them; see session.h. */
#include "bench/train/session.h"

#include "bench/case/elastic.h"
#include "bench/train/interrupt.h"
#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/nn/repeat.h"
#include "impl/carried.h"
#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>

static ls_memory_policy policy_of(const ls_plan_of_case *plan, const ls_device_name *name,
                                  const ls_opening *how)
{
    if (how->counted)
        return (ls_memory_policy){.kind = LS_MEMORY_COUNTED};
    if (!how->judge && *plan->config->memory_text)
        return plan->config->memory;
    const bool all = !how->judge && name->kind == LS_DEVICE_GPU;
    return (ls_memory_policy){.kind = all ? LS_MEMORY_ALL : LS_MEMORY_GROWTH};
}

/* Where memory is only counted, a CPU device stands for a GPU: GPUs cannot count. */
static ls_status open_device(const ls_workplace *workplace, const ls_plan_of_case *plan,
                             const ls_device_name *name, const ls_opening *how, ls_device **out)
{
    const ls_memory_policy policy = policy_of(plan, name, how);
    ls_device_name opened = *name;
    if (how->counted && name->kind == LS_DEVICE_GPU)
        opened = (ls_device_name){.kind = LS_DEVICE_CPU, .logical = -1, .replica = -1, .task = -1};
    return ls_device_open(workplace->machine, &opened, &policy, out);
}

/*
 * Opens the plan's devices, and the variable device if the strategy needs it. A judge opens only
 * the first device, without the case's memory limit: a model that is divided over devices may be
 * too large for one of them.
 */
static ls_status open_devices(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              const ls_opening *how, ls_session *out)
{
    const size_t count = how->judge ? 1 : plan->device_count;
    const bool holder = !how->judge && ls_plan_has_variable_device(plan);
    *out = (ls_session){.plan = plan,
                        .job = plan->job,
                        .left = workplace->left,
                        .device_count = count,
                        .judge = how->judge,
                        .step = plan->job.start,
                        .since = plan->job.start};
    LS_TRY(ls_allocate("session", &out->lent, 1, sizeof *out->lent));
    LS_TRY(ls_allocate("session", &out->devices, count + 1, sizeof *out->devices));
    for (size_t i = 0; i < count; i++) {
        LS_TRY(open_device(workplace, plan, &plan->devices[i], how, &out->devices[i]));
        if (ls_device_name_overlaps(&plan->devices[i], &plan->variable_device))
            out->job.variable_device = out->devices[i];
    }
    out->job.devices = out->devices;
    out->job.device_count = count;
    if (out->job.variable_device || !holder)
        return LS_OK;
    LS_TRY(open_device(workplace, plan, &plan->variable_device, how, &out->devices[count]));
    out->job.variable_device = out->devices[count];
    out->device_count++;
    return LS_OK;
}

/* `limits`: memory limits of the devices if it fails; may be NULL. */
static ls_status open_session(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              const ls_opening *how, ls_need *limits, ls_session *out)
{
    const uint64_t begin_ns = ls_clock_ns();
    ls_status status = open_devices(workplace, plan, how, out);
    if (how->judge) {
        /* one device, the whole model */
        out->job.faults.flip_replica = -1;        /* only the candidate has planted faults */
        out->job.division = (ls_job_division){0}; /* micro-batches and pieces are slices to it */
        out->job.accumulation = (ls_accumulation){0};
        out->job.drops = LS_REPEAT_NONE;
        out->job.mesh = (ls_mesh){0};
        out->job.parameters = out->job.gradients = out->job.state = (ls_spread){0};
        out->job.ps = (ls_ps_options){0};
        out->job.ranks.comm = NULL;
    }
    out->job.faults.delay_ns = how->delayed ? plan->config->fault.delay_ns : 0;
    if (!status && how->counted && plan->devices->kind == LS_DEVICE_GPU) {
        /* what CPU devices can open, too */
        out->job.kernels.math = LS_MATH_FLOAT32;
        out->job.kernels.convolution = LS_CONVOLUTION_AUTO;
        out->job.exchange.transport = ls_comm_backend_auto(out->job.ranks.comm, LS_DEVICE_CPU);
        if (!out->job.exchange.allreduce->formula)
            status = ls_allreduce_find("direct", &out->job.exchange.allreduce);
    }
    if (!status && !how->judge && *plan->config->link_text)
        status = ls_network_open(&plan->config->link, (int)out->device_count, &out->network);
    for (size_t i = 0; out->network && i < out->device_count; i++)
        ls_device_link(out->devices[i], out->network, (int)i);
    if (!status)
        status = ls_session_watch(out);
    status = ls_world_agree(out->job.ranks.comm, status); /* from here on ranks communicate */
    if (!status) {
        *out->lent = out->job;
        status = how->judge ? how->judge(plan, out->lent, &out->run)
                            : ls_strategy_open(plan->strategy, out->lent, &out->run);
    }
    if (status && limits)
        ls_need_of(out, limits);
    if (!status && !how->counted && !how->renewed)
        status = out->run->functions->load(out->run, &plan->initial);
    status = ls_world_agree(out->job.ranks.comm, status);
    out->setup_ns = ls_clock_ns() - begin_ns;
    if (status)
        ls_session_close(out);
    return status;
}

/* How much memory a case needs is only known once it is open. So a case that does not fit is opened
 * again with memory that is only counted. */
ls_status ls_session_need(const ls_workplace *workplace, const ls_plan_of_case *plan,
                          ls_session_opener judge, ls_need *out)
{
    const ls_opening counted = {.judge = judge, .counted = true}, real = {.judge = judge};
    const size_t heap = ls_memory_in_use_by(&(ls_session){0}).heap;
    const size_t capacity = ls_machine_cpu_capacity(workplace->machine);
    ls_closing(ls_session_close) ls_session session = {0};
    *out = (ls_need){0};
    plan = !judge && plan->phases ? &plan->phases->plan : plan;
    LS_TRY(open_session(workplace, plan, &counted, NULL, &session));
    ls_need_of(&session, out);
    const size_t opened = ls_memory_in_use_by(&(ls_session){0}).heap;
    out->host = opened > heap ? opened - heap : 0;
    for (size_t i = 0; i < out->count; i++) { /* the last may be the variables' device */
        const ls_device_name *name =
            i < plan->device_count ? &plan->devices[i] : &plan->variable_device;
        out->devices[i].limit = name->kind == LS_DEVICE_GPU
                                    ? SIZE_MAX
                                    : ls_memory_limit(policy_of(plan, name, &real), capacity);
    }
    return LS_OK;
}

/* Words the failure of an opening and takes ownership of it. If any device ran out of memory it
 * says what the case needs, unless each device alone had enough. */
static ls_status tell_need(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           ls_session_opener judge, ls_need *need, ls_status status)
{
    ls_comm *comm = judge ? NULL : plan->job.ranks.comm;
    ls_code worst = need->full ? LS_CODE_MISSING : LS_CODE_OK;
    ls_need counted = {0};
    ls_status told = comm ? ls_comm_worst(comm, worst, &worst) : LS_OK;
    if (!told && worst)
        told = ls_session_need(workplace, plan, judge, &counted);
    const bool known = !told && worst;
    for (size_t i = 0; i < need->count && i < counted.count; i++)
        need->devices[i].formula = counted.devices[i].formula;
    ls_need_free(&counted);
    if (known)
        told = ls_world_agree(comm, need->full ? ls_need_refuse(need, plan, judge != NULL) : LS_OK);
    ls_status_free(known && told ? status : told);
    return known && told ? told : status;
}

ls_status ls_session_open(const ls_workplace *workplace, const ls_plan_of_case *plan,
                          ls_opening how, ls_session *out)
{
    ls_need need = {0};
    if (!how.judge && !how.counted && plan->phases)
        plan = &plan->phases->plan;
    ls_status status = open_session(workplace, plan, &how, &need, out);
    if (status)
        status = tell_need(workplace, plan, how.judge, &need, status);
    ls_need_free(&need);
    if (!status && how.judge)
        ls_session_heed(workplace, out);
    return status;
}

ls_status ls_session_single(const ls_plan_of_case *plan, const ls_job *job, ls_run **out)
{
    (void)plan;
    return ls_strategy_open(&ls_strategy_single, job, out);
}

bool ls_plan_is_pipeline(const ls_plan_of_case *plan)
{
    return plan->job.division.microbatches > 0 && !ls_strategy_replicates(plan->strategy);
}

bool ls_session_leads(const ls_session *session)
{
    return !session->job.ranks.comm || session->job.ranks.comm->rank == 0;
}

void ls_session_heed(const ls_workplace *workplace, ls_session *session)
{
    session->heeds = true;
    for (size_t i = 0; i < session->device_count && !workplace->request->processes->comm; i++)
        ls_device_heed(session->devices[i], ls_interrupted);
}

static bool has_lost(const ls_session *session)
{
    bool lost = ls_watch_lost(session->watch);
    for (size_t i = 0; session->devices && i < session->device_count; i++)
        lost |= session->devices[i] && ls_device_is_lost(session->devices[i]);
    return lost;
}

void ls_session_close(ls_session *session)
{
    ls_processes_step(session->job.ranks.processes, 0, 0, false);
    if (session->run && !has_lost(session)) /* part of a step may be enqueued */
        ls_status_free(session->run->functions->sync(session->run));
    if (has_lost(session)) { /* threads that hang still use all of it */
        if (ls_watch_lost(session->watch))
            ls_session_autopsy(session);
        *session->left = true;
        *session = (ls_session){0};
        return;
    }
    if (session->run)
        session->run->functions->close(session->run);
    for (size_t i = 0; session->devices && i < session->device_count; i++)
        ls_device_close(session->devices[i]);
    ls_network_close(session->network);
    ls_watch_close(session->watch);
    free(session->devices);
    free(session->lent);
    *session = (ls_session){0};
}

static ls_status read_zeros(const ls_state_source *source, ls_values array, ls_range range,
                            float *out)
{
    (void)source, (void)array;
    memset(out, 0, range.count * sizeof *out);
    return LS_OK;
}

bool ls_session_moved(const ls_session *session)
{
    bool moved = session->moved;
    for (size_t d = 0; d < session->device_count; d++)
        moved = moved || ls_device_moved(session->devices[d]);
    return moved;
}

ls_status ls_session_renew(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           ls_session *session)
{
    const ls_session before = *session;
    const ls_opening how = {
        .judge = session->judge, .delayed = session->job.faults.delay_ns > 0, .renewed = true};
    const bool moved = ls_session_moved(session);
    ls_comm *comm = session->job.ranks.comm;
    ls_status status = LS_OK;
    ls_session_close(session);
    if (*workplace->left)
        status = ls_fail(
            LS_CODE_MISSING, "device", NULL,
            "a device failed during these steps; the messages before this one name the reason");
    LS_TRY(ls_world_agree(comm, status));
    LS_TRY(ls_session_open(workplace, plan, how, session));
    session->step = before.step;
    session->since = before.since;
    session->setup_ns = before.setup_ns;
    session->moved = moved;
    if (before.heeds)
        ls_session_heed(workplace, session);
    return LS_OK;
}

ls_status ls_session_reopen(const ls_workplace *workplace, ls_session *session)
{
    const uint64_t step = session->step, since = session->since;
    ls_comm *comm = session->job.ranks.comm;
    const ls_state_source zeros = {.read = read_zeros}; /* the values are carried */
    ls_closing(ls_carried_close) ls_carried carried = {0};
    LS_TRY(ls_world_agree(comm, session->run->functions->keep(session->run, &carried)));
    LS_TRY(ls_session_renew(workplace, session->plan, session));
    carried.gives = true;
    ls_status status = ls_session_begin_at(session, step, &zeros);
    if (!status)
        status = session->run->functions->keep(session->run, &carried);
    session->since = since;
    return ls_world_agree(comm, status);
}

bool ls_session_has_full(const ls_session *session)
{
    const uint64_t each = ls_job_steps_per_epoch(&session->job);
    const uint64_t tails =
        ls_job_tail(&session->job) ? session->step / each - session->since / each : 0;
    return session->step - session->since > tails;
}

ls_status ls_session_records(ls_session *session, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    return ls_world_agree(
        session->job.ranks.comm,
        session->run->functions->records(session->run, session->step - count, count, out, mark_ns));
}

/* An evaluation, whose processes take turns about every turn_ns: often enough that a signal ends it
 * soon. */
typedef struct turns {
    ls_comm *comm;
    uint64_t latest_ns;     /* end of the latest turn; 0 if there was none */
    uint64_t batches, next; /* since then, and until the next turn but one */
    bool failed;            /* all know why */
} turns;

static const uint64_t turn_ns = 100000000;

static ls_status take_turn(void *context, ls_status own_status, uint64_t *batches, bool *stop)
{
    turns *t = context;
    uint64_t number = t->next;
    *stop = ls_interrupted();
    ls_status status = ls_world_turn(t->comm, own_status, &number, stop);
    t->failed = status;
    LS_TRY(status);
    const uint64_t now_ns = ls_clock_ns(), each_ns = (now_ns - t->latest_ns) / t->batches + 1;
    const uint64_t most = 4 * t->batches, fits = turn_ns / each_ns;
    t->next = !t->latest_ns || !fits ? 1 : fits < most ? fits : most;
    t->latest_ns = now_ns;
    *batches = t->batches = number;
    return LS_OK;
}

static ls_status check_signals(void *context)
{
    (void)context;
    return ls_interrupted()
               ? ls_fail(LS_CODE_INTERRUPTED, "evaluation", NULL, "the evaluation was interrupted")
               : LS_OK;
}

ls_status ls_session_evaluate(ls_session *session, uint64_t samples, bool outputs,
                              ls_evaluation *out)
{
    ls_run *run = session->run;
    turns t = {.comm = session->job.ranks.comm, .batches = 1, .next = 1};
    const ls_evaluating how = {.samples = samples,
                               .outputs = outputs,
                               .turn = take_turn,
                               .check = t.comm ? NULL : check_signals,
                               .context = &t};
    ls_status status = run->functions->evaluate(run, &how, out);
    return t.failed ? status : ls_world_agree(t.comm, status);
}

ls_status ls_session_begin_at(ls_session *session, uint64_t step, const ls_state_source *source)
{
    session->lent->start = session->job.start = session->step = session->since = step;
    return session->run->functions->load(session->run, source);
}
