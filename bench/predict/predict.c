/* SPDX-License-Identifier: MIT */
/* Predictions; see predict.h. */
#include "bench/predict/predict.h"

#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/predict/predict_parts.h"
#include "bench/predict/virtual.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Options -------------------------------------------------------------------------------- */

static ls_status read_durations(const char *text, ls_predictor *out)
{
    static const char flops[] = "flops=";
    if (!text || strcmp(text, "measured") == 0) {
        out->measures = true;
        return LS_OK;
    }
    if (strncmp(text, flops, sizeof flops - 1) != 0)
        return ls_durations_read(text, &out->durations);
    if (!ls_parse_real(text + sizeof flops - 1, &out->durations.flops_per_s) ||
        !(out->durations.flops_per_s > 0))
        return ls_fail(LS_CODE_USAGE, "option --durations", text,
                       "the rate is not a number above 0; give FLOPs per second, as in --durations "
                       "flops=2e10");
    return LS_OK;
}

static ls_status read_slowdown(const char *text, ls_predictor *out)
{
    int64_t device;
    char copy[64];
    out->slow_device = -1;
    out->slow_factor = 1;
    if (!text)
        return LS_OK;
    snprintf(copy, sizeof copy, "%s", text);
    char *equals = strchr(copy, '=');
    if (equals)
        *equals++ = 0;
    if (!equals || !ls_parse_integer(copy, 0, INT32_MAX, &device) ||
        !ls_parse_real(equals, &out->slow_factor) || !(out->slow_factor > 0))
        return ls_fail(
            LS_CODE_USAGE, "option --slowdown", text,
            "this is not a device's number and a factor above 0; for example, --slowdown "
            "3=1.2 makes device 3 a fifth slower");
    out->slow_device = (int)device;
    return LS_OK;
}

ls_status ls_predictor_open(const ls_prediction_request *request, ls_predictor *out)
{
    *out = (ls_predictor){.request = request,
                          .level = (ls_expansion)request->collectives,
                          .draws = request->draws,
                          .memory_limit = SIZE_MAX};
    LS_TRY(ls_predictor_set_network(out, request->platform, request->devices_per_host));
    if (request->memory_limit && !ls_parse_bytes(request->memory_limit, &out->memory_limit))
        return ls_fail(LS_CODE_USAGE, "option --memory-limit", request->memory_limit,
                       "this is not a size; give bytes, or a unit, as in 16GB or 512MiB");
    LS_TRY(read_slowdown(request->slowdown, out));
    if (request->calibrate && request->durations && strcmp(request->durations, "measured") != 0)
        return ls_fail(
            LS_CODE_USAGE, "option --durations", request->durations,
            "cannot be used with --calibrate, which measures durations itself; remove --durations");
    return read_durations(request->durations, out);
}

ls_status ls_predictor_set_network(ls_predictor *p, const char *platform, int devices_per_host)
{
    p->platform = (ls_platform){0};
    if (platform)
        LS_TRY(ls_platform_parse(platform, &p->platform));
    p->engine = (ls_engine)p->request->engine;
    LS_TRY(ls_engine_choose(&p->platform, &p->engine));
    if (devices_per_host != p->devices_per_host && p->measures)
        ls_durations_close(&p->durations);
    p->devices_per_host = devices_per_host;
    p->probed = p->wired = 0;
    return LS_OK;
}

void ls_predictor_close(ls_predictor *predictor)
{
    ls_durations_close(&predictor->durations);
}

static ls_status refuse_no_platform(void)
{
    return ls_fail(LS_CODE_USAGE, "option", "--platform",
                   "several devices need a network, but none is given; use for example --platform "
                   "flat:latency=10us,bandwidth=1GB/s");
}

size_t ls_predictor_devices(const ls_plan_of_case *plan)
{
    bool separate = ls_plan_has_variable_device(plan); /* the variables' device is one more */
    for (size_t i = 0; i < plan->device_count; i++)
        separate = separate && !ls_device_name_overlaps(&plan->devices[i], &plan->variable_device);
    return plan->device_count + separate;
}

static ls_status probe(ls_predictor *p, int devices)
{
    if (p->platform.kind != LS_PLATFORM_FILE || devices <= p->probed)
        return LS_OK;
    LS_TRY(ls_engine_probe(p->engine, &p->platform, devices, p->devices_per_host));
    p->probed = devices;
    return LS_OK;
}

static ls_status check(ls_predictor *predictor, const ls_plan_of_case *plan)
{
    const size_t devices = ls_predictor_devices(plan);
    if (devices > 1 && predictor->platform.kind == LS_PLATFORM_NONE)
        return refuse_no_platform();
    if (plan->devices->kind != LS_DEVICE_CPU)
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "operations of GPUs cannot be timed one by one; use CPU devices, as "
                       "--devices cpu:0+cpu:1");
    if (ls_ps_by_arrival(&plan->job.ps))
        return ls_fail(
            LS_CODE_USAGE, "option", "--ps-mode",
            "servers that serve requests as they arrive cannot be predicted, since the order of "
            "requests differs from run to run; use --ps-mode sync --ps-backup-workers 0");
    if (plan->job.exchange.sync_statistics)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "exchanges statistics within a forward pass, which lockstep predict cannot "
                       "simulate; remove --sync-bn");
    if (plan->config->fault.kind && !plan->config->fault.delay_ns)
        return ls_fail(LS_CODE_USAGE, "option", "--inject",
                       "this fault acts on training, but lockstep predict does not train; use "
                       "--inject delay=RANK:TIME");
    return probe(predictor, (int)devices);
}

/* What is known of a file's network only when its devices are counted. */
static ls_status choose_on_file(ls_predictor *p, ls_plan_of_case *plan)
{
    const int devices = (int)plan->device_count;
    if (p->platform.kind != LS_PLATFORM_FILE)
        return LS_OK;
    if (p->wired != devices)
        LS_TRY(ls_engine_wires(p->engine, &p->platform, devices, p->devices_per_host, &p->wires));
    p->wired = devices;
    return ls_plan_choose_allreduce(&p->wires, plan);
}

static bool is_library(const ls_case *given)
{
    return strcmp(given->allreduce, "library") == 0;
}

/* An all-reduce of NCCL's, where it would be one on GPUs: by NCCL's estimate (nccl_model.h). */
static ls_status take_library(const ls_predictor *p, const ls_case *given, ls_plan_of_case *plan)
{
    if (!is_library(given))
        return LS_OK;
    if (p->level != LS_EXPAND_FORMULA || p->platform.kind == LS_PLATFORM_FILE)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'library' is NCCL's own all-reduce, whose messages are unknown, so only "
                       "its total time can be estimated; use --collectives formula with a flat or "
                       "two-level --platform, or --allreduce ring");
    return ls_allreduce_find("library", &plan->job.exchange.allreduce);
}

/* A case in the form that is played: the platform is its link, and the data are synthetic. */
static ls_status make_played(const ls_predictor *predictor, const ls_case *given, ls_case *out)
{
    memcpy(out, given, sizeof *out); /* including padding */
    const bool several = ls_case_devices(given) > 1;
    if (several && predictor->platform.kind == LS_PLATFORM_NONE)
        return refuse_no_platform();
    if (predictor->platform.kind == LS_PLATFORM_FLAT) /* of one device, too, as of run */
        snprintf(out->link_text, sizeof out->link_text, "%s", predictor->platform.link);
    else if (several)
        snprintf(out->link_text, sizeof out->link_text, "%s", "platform");
    if (is_library(given))
        snprintf(out->allreduce, sizeof out->allreduce, "%s", "ring"); /* as which it is built */
    if (strncmp(given->data, "file:", 5) != 0)
        snprintf(out->data, sizeof out->data, "synthetic:1"); /* their shape counts */
    return LS_OK;
}

ls_status ls_predictor_plan(ls_predictor *p, ls_workplace *workplace, const ls_case *given,
                            ls_case *played, ls_plan_of_case *out)
{
    LS_TRY(make_played(p, given, played));
    const ls_wires wires = ls_platform_wires(&p->platform);
    workplace->wires = &wires;
    workplace->devices_per_host = p->devices_per_host;
    ls_status opened = ls_plan_open(workplace, played, out);
    workplace->wires = NULL;
    LS_TRY(opened);
    out->oversubscribed = false;
    const int64_t period = out->job.update.period; /* steps are whole periods */
    if (period) {
        out->warmup = (out->warmup + period - 1) / period * period;
        out->timed = (out->timed + period - 1) / period * period;
    }
    ls_status status = ls_status_first(check(p, out), take_library(p, given, out));
    if (!status)
        status = choose_on_file(p, out);
    if (status)
        ls_plan_close(out);
    memcpy(played->data, given->data, sizeof played->data); /* shown */
    return status;
}

/* ---- Virtual devices ------------------------------------------------------------------------ */

static ls_status open_device(ls_virtual_run *v, const ls_device_name *name, int number)
{
    LS_TRY(ls_virtual_device_open(name, number, v->like, &v->devices[v->count]));
    v->count++;
    return LS_OK;
}

/* On the thread of the real device, which is how many threads a kernel may use. */
static ls_status open_strategy(void *context)
{
    ls_virtual_run *v = context;
    return ls_strategy_open(v->strategy, &v->job, &v->run);
}

static ls_status open_virtual(const ls_machine *machine, const ls_plan_of_case *plan,
                              ls_virtual_run *v)
{
    v->job = plan->job;
    v->strategy = plan->strategy;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {
        .kind = LS_DEVICE_CPU, .index = 0, .logical = -1, .replica = -1, .task = -1};
    LS_TRY(ls_device_open(machine, &name, &policy, &v->like));
    LS_TRY(ls_allocate("predict", &v->devices, plan->device_count + 1, sizeof *v->devices));
    for (size_t i = 0; i < plan->device_count; i++) {
        LS_TRY(open_device(v, &plan->devices[i], ls_plan_number(plan, i)));
        if (ls_device_name_overlaps(&plan->devices[i], &plan->variable_device))
            v->job.variable_device = v->devices[i];
    }
    if (!v->job.variable_device && ls_plan_has_variable_device(plan)) {
        LS_TRY(open_device(v, &plan->variable_device, (int)v->count));
        v->job.variable_device = v->devices[v->count - 1];
    }
    const ls_allreduce *built = plan->job.exchange.allreduce;
    v->algorithm = built->formula ? built : NULL;
    if (!v->algorithm)
        LS_TRY(ls_allreduce_find("ring", &built));
    v->described = ls_virtual_allreduce(built);
    v->job.exchange.allreduce = &v->described;
    v->job.devices = v->devices;
    v->job.device_count = plan->device_count;
    v->job.exchange.transport = &ls_comm_virtual;
    v->job.kernels.capture = false;
    v->job.faults.delay_ns = plan->config->fault.delay_ns;
    return ls_device_call(v->like, open_strategy, v);
}

static void close_virtual(ls_virtual_run *v)
{
    if (v->run)
        v->run->functions->close(v->run);
    for (size_t i = 0; i < v->count; i++)
        ls_device_close(v->devices[i]);
    ls_device_close(v->like);
    free(v->devices);
}

static ls_status take_memory(const ls_predictor *p, const ls_virtual_run *v, ls_predicted *out)
{
    size_t fullest = 0;
    LS_TRY(ls_allocate("predict", &out->ledgers, v->count, sizeof *out->ledgers));
    LS_TRY(ls_allocate("predict", &out->memory, v->count, sizeof *out->memory));
    out->devices = v->count;
    for (size_t i = 0; i < v->count; i++) {
        size_t bytes = 0;
        out->ledgers[i] = ls_device_ledger(v->devices[i]);
        out->memory[i] = v->run->functions->memory(v->run, i);
        for (int use = 0; use < LS_MEMORY_USES; use++)
            bytes += out->memory[i].bytes[use];
        if (bytes > out->most_memory) {
            out->most_memory = bytes;
            fullest = i;
        }
    }
    if (out->most_memory <= p->memory_limit)
        return LS_OK;
    char needs[32], limit[32];
    return ls_fail(
        LS_CODE_MISSING, "memory", ls_device_describe(v->devices[fullest])->text,
        "the case needs %s (%zu bytes) on this device, but --memory-limit allows %s (%zu bytes); "
        "use a smaller --batch, or more --devices",
        ls_format_bytes((double)out->most_memory, needs), out->most_memory,
        ls_format_bytes((double)p->memory_limit, limit), p->memory_limit);
}

/* ---- A case --------------------------------------------------------------------------------- */

/* Measures what is not known yet of the run's operations. */
static ls_status measure(ls_predictor *p, const ls_machine *machine, const ls_plan_of_case *plan,
                         const ls_virtual_run *v)
{
    const clock_t begin = clock();
    const ls_drawn_values drawn = {&plan->model->graph->variables, plan->config->seed};
    const ls_state_source initial = ls_drawn_source(&drawn);
    const ls_measuring with = {machine, ls_step_run_of(v->run), &p->platform, p->devices_per_host,
                               &initial};
    ls_status status = ls_durations_measure(&p->durations, &with);
    p->measuring_s += (double)(clock() - begin) / CLOCKS_PER_SEC;
    return status;
}

static ls_status predict(ls_predictor *p, const ls_machine *machine, const ls_plan_of_case *plan,
                         ls_virtual_run *v, ls_predicted *out)
{
    LS_TRY(open_virtual(machine, plan, v));
    LS_TRY(take_memory(p, v, out));
    ls_step_run *run = ls_step_run_of(v->run);
    if (p->measures && !ls_profile_is(plan->config->model))
        LS_TRY(measure(p, machine, plan, v));
    LS_TRY(ls_durations_check(ls_predictor_durations(p, plan), run));
    return ls_predictor_play(p, plan, v, out);
}

ls_status ls_predictor_calibrate(ls_predictor *p, const ls_machine *machine,
                                 const ls_plan_of_case *plan)
{
    ls_virtual_run v = {0};
    if (ls_profile_is(plan->config->model))
        return ls_fail(LS_CODE_USAGE, "option --calibrate", plan->config->model,
                       "this model is a profile, which already contains its times, so nothing is "
                       "measured; remove --calibrate");
    ls_status status = open_virtual(machine, plan, &v);
    if (!status)
        status = measure(p, machine, plan, &v);
    close_virtual(&v);
    return status;
}

ls_status ls_predict(ls_predictor *p, const ls_machine *machine, const ls_plan_of_case *plan,
                     ls_predicted *out)
{
    const uint64_t begin_ns = ls_clock_ns();
    ls_virtual_run v = {0};
    *out = (ls_predicted){0};
    ls_status status = predict(p, machine, plan, &v, out);
    close_virtual(&v);
    out->wall_s = (double)(ls_clock_ns() - begin_ns) * 1e-9;
    return status;
}

void ls_predicted_close(ls_predicted *p)
{
    free(p->other_ms);
    free(p->step_ms);
    free(p->uses_ns);
    free(p->ledgers);
    free(p->memory);
    ls_status_free(p->unsaved);
    *p = (ls_predicted){0};
}
