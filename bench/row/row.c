/* SPDX-License-Identifier: MIT */
/* A row of figures from a trial and its gate; see row.h. */
#include "bench/row/row.h"

#include "bench/output/format_parts.h"
#include "bench/row/provenance.h"
#include "bench/train/session.h"
#include "bench/train/waterfall.h"
#include "common/device/machine_gpus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* The random part comes from the system, so processes and hosts that start in the same second get
 * different ids. */
ls_status ls_row_id_make(ls_row_id *out)
{
    uint8_t bits[6];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits) /* so few come whole, or not at all */
        return ls_fail(LS_CODE_MISSING, "row id", "getrandom",
                       "%s; a system with getrandom is needed", strerror(errno));
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || !gmtime_r(&now.tv_sec, &utc))
        return ls_fail(LS_CODE_MISSING, "row id", "clock",
                       "the time of day cannot be read; set the clock");
    strftime(out->timestamp, sizeof out->timestamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    size_t used = strftime(out->id, sizeof out->id, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(out->id + used, sizeof out->id - used, "-%02x%02x%02x%02x%02x%02x", bits[0], bits[1],
             bits[2], bits[3], bits[4], bits[5]);
    return LS_OK;
}

/* Why the row is not ok: a finding of the gate or the trial, or why it could not run. */
static json_t *result_group(const ls_row_facts *f)
{
    json_t *group = json_object();
    const char *status = "ok", *reason = NULL;
    char interrupted[LS_REASON_SIZE];
    if (f->error) {
        status = "error";
        reason = f->error;
    } else if (f->gate && !f->gate->pass) {
        status = "failed";
        reason = f->gate->oracle;
    } else if (f->trial && f->verdict->failed) {
        status = "failed";
        reason = f->verdict->reason;
    } else if (f->trial && f->trial->learned.stopped) {
        status = "interrupted";
        reason = "interrupted in the evaluation: there is no accuracy; the times are complete";
    } else if (f->trial && f->trial->interrupted) {
        snprintf(interrupted, sizeof interrupted,
                 "interrupted after %llu of %lld steps; the figures are of those",
                 (unsigned long long)f->trial->session.step,
                 (long long)(f->plan->warmup + f->plan->timed));
        status = "interrupted";
        reason = interrupted;
    } else if (f->unfinished) {
        status = "interrupted";
        reason = "interrupted after the check passed, before the first timed step";
    } else if (f->gate && *f->gate->diverged) {
        status = "failed";
        reason = f->gate->diverged;
    }
    ls_put_text(group, "status", status);
    ls_put_text(group, "reason", reason);
    return group;
}

/* FLOPs per step of each whole device; logical devices of a GPU share its roof. */
static double step_flops(const ls_plan_of_case *plan)
{
    const int here = (int)plan->device_count;
    const double wholes =
        (double)plan->all_devices / here * ls_device_name_wholes(plan->devices, here);
    return ls_graph_flops(plan->model->graph) * (double)plan->job.batch / wholes;
}

double ls_row_reached(const ls_row_facts *f)
{
    const ls_statistics *s = &f->steps;
    const char *entry;
    json_t *kernels = ls_step_kernels(f->trial->session.run), *kernel;
    bool direct = true;
    json_object_foreach(kernels, entry, kernel)
    {
        const char *name = json_string_value(kernel);
        direct = direct && !strstr(name, "winograd") && !strstr(name, "cudnn");
    }
    json_decref(kernels);
    /* If workers are independent, no worker has the pace of the fastest steps; if an epoch's last
     * batch is smaller, the fastest steps are those. */
    direct = direct && !ls_ps_by_arrival(&f->plan->job.ps) &&
             ls_timed_step_samples(&f->trial->timed) >= (double)f->plan->job.batch;
    return direct && s->p10 > 0 ? step_flops(f->plan) / (s->p10 * 1e-3) : 0;
}

static void put_interval(json_t *group, const char *name, const double ci95[2])
{
    if (isfinite(ci95[0]))
        json_object_set_new(group, name, json_pack("[f,f]", ci95[0], ci95[1]));
}

/* Samples per second: of a full batch in the median step, or, if steps are not alike, of what was
 * trained; what follows from that; and the rate of the mean step. */
static void put_rates(json_t *group, const ls_row_facts *f)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_sample_ms *base = &f->baseline, *own = &f->pace;
    const double rate = own->even ? 1e3 / own->median : f->rate;
    ls_put_real(group, "samples_per_s", rate);
    if (!own->even)
        ls_put_text(group, "samples_per_s_of", "mean");
    ls_put_real(group, "samples_per_s_mean", f->rate);
    put_interval(group, "samples_per_s_mean_ci95", f->rate_ci95);
    if (base->median > 0) { /* both by the same measure */
        const bool even = own->even && base->even;
        const double speedup = even ? base->median / own->median : base->mean / own->mean;
        ls_put_real(group, "speedup", speedup);
        if (even && isfinite(own->ci95[0]) && isfinite(base->ci95[0])) {
            const ls_interval ratio =
                ls_statistics_ratio((ls_interval){base->median, base->ci95[0], base->ci95[1]},
                                    (ls_interval){own->median, own->ci95[0], own->ci95[1]});
            put_interval(group, "speedup_ci95", (const double[]){ratio.low, ratio.high});
        }
        ls_put_real(group, "efficiency",
                    speedup / (ls_strategy_serves(plan->strategy) ? ls_job_replicas(&plan->job)
                                                                  : plan->all_devices));
    }
    if (f->roof_flops > 0) {
        ls_put_real(group, "mfu",
                    step_flops(plan) / (double)plan->job.batch * rate / f->roof_flops);
        ls_put_real(group, "roof_gflops", f->roof_flops * 1e-9);
    }
}

static json_t *time_group(const ls_row_facts *f)
{
    const ls_trial *trial = f->trial;
    const ls_timed *timed = &trial->timed;
    const ls_profile *profile = &trial->profile;
    ls_statistics s = f->steps;
    ls_run_info info;
    trial->session.run->functions->describe(trial->session.run, &info);
    json_t *group = json_object(), *step = json_object();
    ls_put_real(step, "mean", ls_timed_mean_ms(timed));
    ls_put_real(step, "median", s.median);
    ls_put_real(step, "p10", s.p10);
    ls_put_real(step, "p90", s.p90);
    ls_put_real(step, "p99", s.p99);
    put_interval(step, "ci95", f->ci95);
    ls_put_integer(step, "n", s.n);
    json_object_set_new(group, "step_ms", step);
    if (timed->discarded)
        ls_put_integer(group, "discarded", timed->discarded);
    ls_put_integer(group, "blocks", timed->blocks);
    if (f->groups > 1) {
        ls_put_integer(group, "group", f->group + 1);
        ls_put_integer(group, "groups", f->groups);
    }
    ls_put_real(group, "timed_s", timed->ms * 1e-3);
    put_rates(group, f);
    if (f->exact_cost > 0) /* time of exact mode / time of fast mode */
        ls_put_real(group, "exact_cost", f->exact_cost);
    if (info.program.nodes) /* otherwise operations are enqueued one by one */
        ls_put_real(group, "build_ms", (double)info.program.build_ns * 1e-6);
    ls_put_real(group, "data_ms", (double)f->plan->data->read_ns * 1e-6); /* wait for data */
    ls_put_real(group, "setup_ms", (double)trial->session.setup_ns * 1e-6);
    if (trial->reopened) /* mean per reopening; not part of a step */
        ls_put_real(group, "reopen_ms", (double)trial->reopen_ns * 1e-6 / (double)trial->reopened);
    ls_statistics_compute(timed->enqueue_ns, timed->calls, &s);
    ls_put_real(group, "host_us", s.median * 1e-3);
    if (f->harness_ns > 0)
        ls_put_real(group, "harness_us", f->harness_ns * 1e-3);
    if (profile->profiled_ms > 0) {
        if (profile->accounted)
            ls_put_integer(group, "accounted", profile->accounted);
        ls_put_real(group, "profiled_ms", profile->profiled_ms);
        ls_put_real(group, "residual", profile->residual);
    }
    return group;
}

/* How much longer each part of the step takes than on `single` with n devices. */
static json_t *gap_group(const ls_row_facts *f)
{
    const ls_plan_of_case *plan = f->plan;
    const int devices =
        ls_strategy_serves(plan->strategy) ? ls_job_replicas(&plan->job) : (int)plan->all_devices;
    double ideal[LS_WATERFALL_PARTS];
    if (!f->baseline_parts)
        return json_object();
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        ideal[p] = f->baseline_parts[p] * ls_timed_step_samples(&f->trial->timed) / devices;
    return ls_waterfall_gap(f->trial->profile.part_ms, ideal);
}

/* How each training device spends the mean step; its rank, as --inject counts ranks. */
static json_t *device_loads(const ls_row_facts *f)
{
    const ls_session *session = &f->trial->session;
    const ls_processes *processes = f->workplace->request->processes;
    const size_t count = f->plan->device_count, ranks = (size_t)f->plan->config->ranks;
    const size_t each = ranks > 1 && count > ranks ? count / ranks : 1;
    json_t *loads = json_array();
    for (size_t i = 0; i < session->device_count; i++) {
        const ls_device_load *load = &f->trial->profile.loads[i];
        const size_t rank = session->job.comm ? (size_t)processes->rank : i / each;
        if (load->busy_ms + load->wait_ms > 0)
            json_array_append_new(loads, json_pack("{s:s,s:I,s:f,s:f,s:f}", "device",
                                                   ls_device_describe(session->devices[i])->text,
                                                   "rank", (json_int_t)rank, "busy_ms",
                                                   load->busy_ms, "waiting_ms", load->wait_ms,
                                                   "gathering_ms", load->gather_ms));
    }
    return loads;
}

json_t *ls_row_pipeline(const ls_job *job, const ls_bubble *bubble)
{
    json_t *group = json_object();
    if (!isfinite(bubble->measured))
        return group;
    double p = (double)ls_job_stages(job), m = job->microbatches;
    ls_put_real(group, "bubble", bubble->measured);
    ls_put_real(group, "bubble_formula", bubble->formula);
    ls_put_real(group, "bubble_equal", (p - 1) / (m + p - 1));
    ls_put_real(group, "slowest_stage", bubble->slowest);
    return group;
}

static json_t *equivalence_group(const ls_row_facts *f)
{
    const ls_gate *gate = f->gate;
    json_t *group = json_object();
    ls_put_text(group, "grade", gate->grade);
    if (gate->compared || gate->checked)
        json_object_set_new(group, "pass", json_boolean(gate->pass));
    if (gate->compared || gate->replayed)
        ls_put_integer(group, "steps", gate->steps);
    if (gate->compared) {
        ls_put_integer(group, "max_ulp", gate->max_ulp);
        ls_put_real(group, "max_rel", gate->max_rel);
        ls_put_real(group, "bound", gate->bound); /* exact mode: 0 */
    }
    ls_put_real(group, "gradient_rel", gate->gradient_rel);
    ls_put_real(group, "library_rel", gate->library_rel);
    ls_put_real(group, "kernels", gate->kernels_rel);
    if (*gate->kernels_compared)
        ls_put_text(group, "kernels_compared", gate->kernels_compared);
    ls_put_text(group, "oracle", gate->oracle);
    if (f->trial && *f->trial->checked.digest)
        ls_put_text(group, "digest", f->trial->checked.digest);
    else if (!f->trial && gate->compared && *gate->reference_digest)
        ls_put_text(group, "digest", gate->digest);
    if (*gate->reference_digest)
        ls_put_text(group, "reference_digest", gate->reference_digest);
    return group;
}

static json_t *device_memory(const ls_trial *trial, size_t index)
{
    const ls_session *session = &trial->session;
    const ls_run *run = session->run;
    const ls_memory_ledger ledger = trial->reported.ledgers[index];
    size_t peak = 0;
    ls_memory_formula formula = run->functions->memory(run, index);
    json_t *device = json_object(), *expected = json_object();
    ls_put_text(device, "device", ls_device_describe(session->devices[index])->text);
    for (ls_memory_use use = 0; use < LS_MEMORY_USES; use++) {
        ls_put_integer(device, ls_memory_use_name(use), ledger.in_use[use]);
        ls_put_integer(expected, ls_memory_use_name(use), formula.bytes[use]);
        peak += formula.bytes[use];
    }
    ls_put_integer(expected, "peak", peak);
    ls_put_integer(device, "reserved", ledger.reserved);
    ls_put_integer(device, "peak", ledger.in_use_peak);
    ls_put_integer(device, "allocations", ledger.allocations);
    json_object_set_new(device, "formula", expected);
    return device;
}

static json_t *memory_group(const ls_row_facts *f)
{
    const ls_trial *trial = f->trial;
    json_t *group = json_object(), *devices = json_array();
    for (size_t i = 0; i < trial->session.device_count; i++)
        json_array_append_new(devices, device_memory(trial, i));
    json_object_set_new(group, "devices", devices);
    if (trial->timed.done)
        ls_put_real(group, "growth_per_step", ls_growth_per_step(&trial->growth));
    if (trial->reported.rss_peak && !f->shared)
        ls_put_integer(group, "rss_peak", trial->reported.rss_peak);
    return group;
}

/* How a case with a GPU copied between devices: per replay of its program. */
static void put_copies(json_t *group, const ls_session *session)
{
    ls_copies all = {0};
    bool any_gpu = false;
    for (size_t i = 0; i < session->device_count; i++) {
        const ls_copies one = ls_device_copies(session->devices[i]);
        any_gpu |= ls_device_describe(session->devices[i])->name.kind == LS_DEVICE_GPU;
        all.peer_bytes += one.peer_bytes;
        all.staged_bytes += one.staged_bytes;
        all.host_bytes += one.host_bytes;
    }
    if (!any_gpu || session->device_count == 1)
        return;
    json_t *copies = json_object();
    ls_put_integer(copies, "peer_bytes", all.peer_bytes);
    ls_put_integer(copies, "staged_bytes", all.staged_bytes);
    ls_put_integer(copies, "host_bytes", all.host_bytes);
    json_object_set_new(group, "copies_put", copies);
}

/* Absent if nothing was sent between devices, or if only a library knows what was. */
static json_t *traffic_group(const ls_session *session, const ls_checked *checked)
{
    json_t *group = json_object();
    put_copies(group, session);
    if (!checked->counted)
        return group;
    ls_put_integer(group, "bytes_sent", checked->sent.bytes_sent);
    ls_put_integer(group, "messages_sent", checked->sent.messages_sent);
    ls_put_integer(group, "bytes_formula", checked->formula.bytes_sent);
    ls_put_integer(group, "messages_formula", checked->formula.messages_sent);
    return group;
}

static json_t *program_group(const ls_session *session)
{
    ls_run_info info;
    session->run->functions->describe(session->run, &info);
    json_t *group = json_object();
    if (ls_plan_mixes_kinds(session->plan) && session->plan->config->capture) {
        ls_put_text(group, "uncaptured", "the host orders the queues of a CPU and a GPU");
        return group;
    }
    if (!info.program.nodes) {
        json_decref(group);
        return NULL;
    }
    ls_put_integer(group, "nodes", info.program.nodes);
    ls_put_integer(group, "bytes", info.program.bytes);
    if (session->plan->devices->kind == LS_DEVICE_CPU) { /* other kinds are not counted */
        ls_put_integer(group, "reorders", info.program.reorders);
        ls_put_integer(group, "reordered_bytes", info.program.reordered_bytes);
    }
    return group;
}

static ls_status provenance_group(const ls_row_facts *f, json_t **out)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_device_info **devices = calloc(plan->device_count, sizeof(void *));
    ls_device_info *copies = calloc(plan->device_count, sizeof *copies);
    ls_status status = devices && copies ? LS_OK : ls_fail_memory("row", sizeof *copies);
    json_auto_t *kernels = NULL;
    for (size_t i = 0; i < plan->device_count && !status; i++) {
        if (f->trial) {
            devices[i] = ls_device_describe(f->trial->session.devices[i]);
            continue;
        }
        ls_device_info *d = &copies[i];
        d->name = plan->devices[i];
        ls_device_name_text(&d->name, d->text);
        if (d->name.kind == LS_DEVICE_GPU)
            ls_device_info_of_gpu(ls_machine_gpu(f->workplace->machine, d->name.index), d);
        else
            d->core_count = ls_machine_cores(f->workplace->machine, d->name.index, d->cores,
                                             (int)(sizeof d->cores / sizeof *d->cores));
        devices[i] = d;
    }
    if (f->trial && !status)
        kernels = ls_step_kernels(f->trial->session.run);
    else if (f->gate)
        kernels = json_incref(f->gate->kernels);
    const ls_provenance facts = {.machine = ls_machine_describe(f->workplace->machine),
                                 .devices = devices,
                                 .device_count = plan->device_count,
                                 .oversubscribed = plan->oversubscribed,
                                 .mpi = plan->job.comm ? f->workplace->request->processes->version
                                                       : NULL,
                                 .kernels = kernels};
    if (!status)
        *out = ls_provenance_build(&facts);
    free(copies);
    free(devices);
    return status;
}

static void put_group(json_t *row, const char *name, json_t *group)
{
    if (json_object_size(group))
        json_object_set_new(row, name, group);
    else
        json_decref(group);
}

ls_status ls_row_build(const ls_row_facts *f, json_t **out)
{
    ls_row_id id;
    json_t *provenance = NULL;
    const ls_request *request = f->workplace->request;
    LS_TRY(ls_row_id_make(&id));
    LS_TRY(provenance_group(f, &provenance));
    json_t *row = json_object();
    ls_put_integer(row, "schema", LS_ROW_SCHEMA);
    ls_put_text(row, "id", id.id);
    ls_put_text(row, "timestamp", id.timestamp);
    ls_put_text(row, "command", request->command);
    ls_put_text(row, "label", *f->plan->config->label ? f->plan->config->label : NULL);
    put_group(row, "case", ls_row_case(f));
    put_group(row, "result", result_group(f));
    bool keeps_time = f->trial && f->trial->timed.done && !f->verdict->failed && !f->error &&
                      (!f->gate || f->gate->pass) && !request->verify;
    if (keeps_time) {
        ls_row_note(f, row);
        put_group(row, "time", time_group(f));
        json_t *waterfall = ls_waterfall_group(f->trial->profile.part_ms);
        if (json_object_size(waterfall)) /* known on all ranks */
            json_object_set_new(row, "device_load", device_loads(f));
        put_group(row, "waterfall", waterfall);
        put_group(row, "gap", gap_group(f));
        put_group(row, "pipeline", ls_row_pipeline(&f->plan->job, &f->trial->profile.bubble));
        put_group(row, "noise", ls_row_noise(f));
    }
    if (f->trial)
        put_group(row, "train", ls_row_train(f));
    if (f->gate)
        put_group(row, "equivalence", equivalence_group(f));
    if (f->trial) {
        put_group(row, "traffic", traffic_group(&f->trial->session, &f->trial->checked));
        if (f->trial->reported.ledgers)
            put_group(row, "memory", memory_group(f));
        put_group(row, "program", program_group(&f->trial->session));
        ls_row_put_ps(row, &f->plan->job, &f->trial->reported);
    }
    put_group(row, "provenance", provenance);
    *out = row;
    return LS_OK;
}

void ls_row_mark_error(json_t *row, const char *reason)
{
    json_t *result = json_object_get(row, "result");
    ls_put_text(result, "status", "error");
    ls_put_text(result, "reason", reason);
}

ls_code ls_row_code(const json_t *row)
{
    const char *status = ls_row_text(row, "result", "status");
    return strcmp(status, "ok") == 0            ? LS_CODE_OK
           : strcmp(status, "interrupted") == 0 ? LS_CODE_INTERRUPTED
           : strcmp(status, "failed") == 0      ? LS_CODE_CHECK
                                                : LS_CODE_MISSING;
}
