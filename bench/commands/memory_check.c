/* SPDX-License-Identifier: MIT */
/*
 * Memory check; see memory_check.h. The peak is what stays until the command ends, plus the most
 * that sessions take at once, plus the most that copies take: freed copies stay in the heap, so the
 * two need not peak in the same phase.
 */
#include "bench/commands/memory_check.h"

#include "bench/case/workplace.h"
#include "bench/gate/gate.h"
#include "bench/output/format.h"
#include "bench/train/world.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Footprint ------------------------------------------------------------------------------ */
/* Copies that are allocated but not written to are left out: the system gives them no memory. */

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
    if (alone) { /* its oracle keeps the optimizer state of each replica of all processes */
        out->gate.copies +=
            (size_t)plan->all_devices * out->need.devices[0].formula.bytes[LS_MEMORY_OPTIMIZER];
        return add_judge(workplace, plan, ls_gate_open_oracle, &out->gate);
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
    if (comm && comm->rank > 0) { /* `own` of two sides, and `other` */
        out->gate.copies += ls_strategy_alone(plan->strategy) ? 3 * bytes : 0;
        return LS_OK;
    }
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
        request->waterfall) /* next to the same case in fast mode (run_case.c) */
        out->training.sessions *= 2;
}

/* Freed pieces of the heap whose size fits no later one. */
static size_t with_fragments(size_t copies)
{
    return copies + copies / 4;
}

/* A device that has too little memory is refused (ls_need_refuse), with `need` counted. */
static ls_status count_case(const ls_workplace *workplace, const ls_plan_of_case *plan,
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

/* What libraries and the harness allocate only at work: packing buffers, the product that the roof
 * is measured by, records. */
static const size_t spare_bytes = (size_t)24 << 20;
static const size_t thread_bytes = (size_t)1 << 20; /* of each device: stacks, malloc's arenas */

/* ---- This process --------------------------------------------------------------------------- */

/* Bytes that the system counts for this process now. Files (the program and libraries) are shared
 * by the processes of a host, so the first one counts them. */
static size_t resident_bytes(const ls_processes *processes)
{
    static const char *const counts[] = {"RssAnon:", "RssShmem:", "RssFile:"};
    char line[256];
    size_t sum = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < (processes->neighbour > 0 ? 2 : 3); i++)
            if (strncmp(line, counts[i], strlen(counts[i])) == 0)
                sum += (size_t)strtoull(line + strlen(counts[i]), NULL, 10) << 10;
    if (file)
        fclose(file);
    return sum;
}

static size_t split_bytes(const ls_split *split)
{
    size_t sum = ls_array_bytes(&split->target, split->samples);
    for (int i = 0; i < LS_DATA_INPUTS; i++)
        sum += ls_array_bytes(&split->input[i], split->samples);
    return sum;
}

/* Data sets, and first values that are held, each once. */
static void add_shared(const ls_workplace *workplace, const ls_memory_case *cases, size_t count,
                       ls_memory_sum *out)
{
    const bool file = workplace->request->load || ls_plan_is_resumed(workplace);
    const bool holds = workplace->holds && !file;
    for (size_t i = 0; i < count; i++) {
        const ls_plan_of_case *plan = cases[i].plan;
        bool read = false, held = !holds;
        for (size_t k = 0; k < i; k++) {
            const ls_plan_of_case *other = cases[k].plan;
            read = read || other->data == plan->data;
            held = held || (strcmp(other->config->model, plan->config->model) == 0 &&
                            other->config->seed == plan->config->seed);
        }
        if (!read)
            out->data += split_bytes(&plan->data->train) + split_bytes(&plan->data->test);
        if (!held)
            out->values += plan->model->graph->variables.elements * sizeof(float);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- The host ------------------------------------------------------------------------------- */

/* The sum over this host's processes. */
static ls_status add_host(const ls_processes *processes, size_t own_bytes, size_t *sum)
{
    struct {
        int host;
        size_t bytes;
    } own = {processes->host, own_bytes};
    ls_auto typeof(own) *all = NULL;
    *sum = 0;
    ls_status status = ls_allocate("memory", &all, (size_t)processes->size, sizeof own);
    LS_TRY(ls_comm_bring(processes->comm, status, &own, sizeof own, all));
    for (int r = 0; r < processes->size; r++)
        *sum += all[r].host == own.host ? all[r].bytes : 0;
    return LS_OK;
}

static size_t base_bytes(const ls_memory_sum *sum)
{
    return sum->program + sum->data + sum->values;
}

/* A refusal if the host's processes take more than the limit together. */
static ls_status judge(const ls_workplace *workplace, const ls_memory_sum *sum, size_t own_bytes,
                       ls_status refusal)
{
    const ls_processes *processes = workplace->request->processes;
    size_t host = own_bytes;
    ls_status status = add_host(processes, own_bytes, &host);
    const bool refuses = !status && host > sum->limit;
    ls_status_free(refuses ? LS_OK : refusal);
    return ls_world_agree(processes->comm, refuses ? refusal : status);
}

/* `gates`: --gate-steps may be given. */
static ls_status refuse_alone(const ls_memory_sum *sum, const ls_memory_case *one, bool gates)
{
    const ls_footprint *f = &one->footprint;
    const size_t trained = base_bytes(sum) + f->training.sessions + f->training.copies;
    char words[320], less[64] = "", bytes[32];
    ls_memory_words(sum, one, words, sizeof words);
    if (gates && trained < sum->limit && trained < one->peak)
        snprintf(less, sizeof less, "--gate-steps 0 (which needs %s), ",
                 ls_format_bytes((double)trained, bytes));
    return ls_fail(
        LS_CODE_MISSING, "memory", "this machine",
        "the case needs %s; try %sa smaller model, --batch or data set, or fewer devices", words,
        less);
}

static ls_status refuse_group(const ls_memory_sum *sum, size_t needed, size_t cases)
{
    char need[32], limit[32];
    return ls_fail(
        LS_CODE_MISSING, "memory", "this machine",
        "this case and %zu earlier case%s are timed alternately, so all stay in memory; together "
        "they need %s, but the limit is %s; run this case in a separate command",
        cases, cases == 1 ? "" : "s", ls_format_bytes((double)needed, need),
        ls_format_bytes((double)sum->limit, limit));
}

/* ---- The check ------------------------------------------------------------------------------ */

/* Adds up the cases [first, end) of a group, which fit alone. */
static void check_group(const ls_workplace *workplace, ls_memory_case *cases, size_t first,
                        size_t end, ls_memory_sum *sum)
{
    size_t sessions = 0, copies = 0, trained = 0, gates = 0, held = 0;
    for (size_t i = first; i < end; i++) {
        ls_memory_case *c = &cases[i];
        const ls_footprint *f = &c->footprint;
        if (c->error)
            continue;
        const size_t now =
            base_bytes(sum) +
            larger(sessions + f->training.sessions, larger(gates, f->gate.sessions)) +
            larger(copies + f->training.copies, larger(held, f->gate.copies));
        c->error = judge(workplace, sum, now, refuse_group(sum, now, trained));
        if (c->error)
            continue;
        trained++;
        sessions += f->training.sessions;
        copies += f->training.copies;
        gates = larger(gates, f->gate.sessions);
        held = larger(held, f->gate.copies);
        sum->peak = larger(sum->peak, now);
    }
}

void ls_memory_check(const ls_workplace *workplace, ls_memory_case *cases, size_t count,
                     ls_memory_sum *out)
{
    const ls_machine_info *machine = ls_machine_describe(workplace->machine);
    const ls_processes *processes = workplace->request->processes;
    size_t most = 0;
    *out = (ls_memory_sum){.limit = machine->memory_limit * (size_t)processes->neighbours};
    for (size_t i = 0; i < count; i++) {
        /* a case without a communicator is rank 0's, and the others learn whether it is refused */
        const bool counted = cases[i].plan->job.ranks.comm || processes->rank == 0;
        cases[i].footprint = (ls_footprint){0};
        cases[i].error = ls_world_agree(
            processes->comm,
            counted ? count_case(workplace, cases[i].plan, &cases[i].footprint) : LS_OK);
        most = larger(most, cases[i].plan->device_count);
    }
    add_shared(workplace, cases, count, out);
    out->program = resident_bytes(processes) + spare_bytes + most * thread_bytes;
    out->program -= out->data < out->program ? out->data : 0;
    for (size_t i = 0; i < count; i++) {
        const ls_footprint *f = &cases[i].footprint;
        cases[i].peak = base_bytes(out) + larger(f->gate.sessions, f->training.sessions) +
                        larger(f->gate.copies, f->training.copies);
        if (!cases[i].error)
            cases[i].error = judge(workplace, out, cases[i].peak,
                                   refuse_alone(out, &cases[i], !workplace->request->verify));
    }
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && cases[end].group == cases[first].group;)
            end++;
        check_group(workplace, cases, first, end, out);
    }
}

/* ---- In words ------------------------------------------------------------------------------- */

json_t *ls_memory_group(const ls_memory_sum *sum, const ls_memory_case *one)
{
    const ls_footprint *f = &one->footprint;
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "sessions",
                     (json_int_t)larger(f->gate.sessions, f->training.sessions), "copies",
                     (json_int_t)larger(f->gate.copies, f->training.copies), "values",
                     (json_int_t)sum->values, "data", (json_int_t)sum->data, "program",
                     (json_int_t)sum->program, "peak", (json_int_t)one->peak, "limit",
                     (json_int_t)sum->limit);
}

void ls_memory_words(const ls_memory_sum *sum, const ls_memory_case *one, char *text, size_t size)
{
    static const char *const words[] = {"devices in training and checks",
                                        "copies of parameters and gradients", "initial parameters",
                                        "data set", "program and libraries"};
    json_auto_t *group = ls_memory_group(sum, one); /* begins with these */
    void *part = json_object_iter(group);
    char bytes[32];
    snprintf(text, size, "%s at its peak", ls_format_bytes((double)one->peak, bytes));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const json_t *value = json_object_iter_value(part);
        ls_text_add(text, size, "%s%s %s", i ? ", " : " (", words[i],
                    ls_format_bytes(json_number_value(value), bytes));
        part = json_object_iter_next(group, part);
    }
    ls_text_add(text, size, "); the limit of this machine or its control group is %s",
                ls_format_bytes((double)sum->limit, bytes));
}
