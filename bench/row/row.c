/* SPDX-License-Identifier: MIT */
/* A row of figures from a trial and its gate; see row.h. */
#include "bench/row/row.h"

#include "bench/row/provenance.h"
#include "bench/rows/put.h"
#include "bench/train/session.h"
#include "common/device/machine_gpus.h"
#include "impl/pipeline/pipeline_times.h"
#include "impl/replica/replicas.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* `id` sorts by time: "20261121T051700Z-1f0c9a7be244". The random part comes from the system, so
 * processes and hosts that start in the same second get different ids. */
ls_status ls_row_begin(const char *command, const char *label, json_t **out)
{
    uint8_t bits[6];
    char id[32], timestamp[24];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits) /* so few come whole, or not at all */
        return ls_fail(
            LS_CODE_MISSING, "row id", "getrandom",
            "no id can be made for the row: %s; use a system with the system call getrandom",
            strerror(errno));
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || !gmtime_r(&now.tv_sec, &utc))
        return ls_fail(LS_CODE_MISSING, "row id", "clock",
                       "the time of day cannot be read; set the system's clock");
    strftime(timestamp, sizeof timestamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const size_t used = strftime(id, sizeof id, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(id + used, sizeof id - used, "-%02x%02x%02x%02x%02x%02x", bits[0], bits[1], bits[2],
             bits[3], bits[4], bits[5]);
    *out = json_object();
    ls_put_schema(*out, LS_ROW_SCHEMA);
    ls_put_id(*out, id);
    ls_put_timestamp(*out, timestamp);
    ls_put_command(*out, command);
    ls_put_label(*out, label && *label ? label : NULL);
    return LS_OK;
}

/* Why the row is not ok: a finding of the gate or the trial, or why it could not run. */
static void put_result(const ls_row_facts *f, json_t *row)
{
    const ls_trial *trial = f->trial;
    const ls_gate *gate = f->gate;
    char steps[LS_REASON_SIZE] = "", differs[LS_REASON_SIZE + 128] = "";
    if (trial)
        snprintf(steps, sizeof steps,
                 "interrupted after %llu of %lld steps; the figures are of the steps until then",
                 (unsigned long long)trial->session.step,
                 (long long)f->plan->job.start + f->plan->warmup + f->plan->timed);
    if (gate && !gate->pass)
        snprintf(differs, sizeof differs,
                 "%s; look for a bug in the strategy or the kernels, or a faulty device",
                 gate->oracle);
    const struct {
        bool holds;
        const char *status, *reason;
    } rules[] = {
        {f->error, "error", f->error},
        {gate && !gate->pass, "failed", differs},
        {trial && f->verdict->failed, "failed", trial ? f->verdict->reason : NULL},
        {trial && trial->learned.stopped, "interrupted",
         "interrupted in the evaluation: there is no accuracy; the times are complete"},
        {trial && trial->interrupted, "interrupted", steps},
        {f->unfinished, "interrupted",
         "interrupted after the check passed, before the first "
         "timed step"},
        {gate && *gate->diverged, "failed", gate ? gate->diverged : NULL},
        {true, "ok", NULL},
    };
    size_t rule = 0;
    while (!rules[rule].holds)
        rule++;
    ls_put_result_status(row, rules[rule].status);
    ls_put_result_reason(row, rules[rule].reason);
}

/* FLOPs per step of each whole device; logical devices of a GPU share its roof. */
static double step_flops(const ls_plan_of_case *plan)
{
    const int local = (int)plan->device_count;
    const double wholes =
        (double)plan->all_devices / local * ls_device_name_wholes(plan->devices, local);
    return ls_graph_flops(plan->model->graph) * (double)plan->job.batch / wholes;
}

/* Devices that a step's samples are divided among. */
static int training_devices(const ls_plan_of_case *plan)
{
    return ls_strategy_serves(plan->strategy) ? ls_job_replicas(&plan->job)
                                              : (int)plan->all_devices;
}

ls_reached ls_row_reached(const ls_row_facts *f)
{
    const ls_statistics *s = &f->steps;
    const char *entry;
    json_t *kernels = ls_step_kernels(f->trial->session.run), *kernel;
    bool stored = json_object_get(kernels, "bf16_product") != NULL, direct = true;
    json_object_foreach(kernels, entry, kernel)
    {
        const char *name = json_string_value(kernel);
        direct = direct && !strstr(name, "winograd") && !strstr(name, "cudnn");
        stored = stored && !strstr(entry, "conv"); /* most work is theirs, and is float32 */
    }
    json_decref(kernels);
    /* If workers are independent, no worker has the pace of the fastest steps; if an epoch's last
     * batch is smaller, the fastest steps are the ones with it. */
    direct = direct && !ls_ps_by_arrival(&f->plan->job.ps) &&
             ls_timed_step_samples(&f->trial->timed) >= (double)f->plan->job.batch;
    const double rate = direct && s->p10 > 0 ? step_flops(f->plan) / (s->p10 * 1e-3) : 0;
    return (ls_reached){rate, stored};
}

/* Samples per second: of a full batch in the median step, or, if steps are not alike, of all
 * trained samples; what follows from that; and the rate of the mean step. */
static void put_rates(const ls_row_facts *f, json_t *row)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_sample_ms *base = &f->baseline, *own = &f->pace;
    const double rate = own->even ? 1e3 / own->median : f->rate;
    ls_put_time_samples_per_s(row, rate);
    ls_put_time_samples_per_s_of(row, own->even ? NULL : "mean");
    ls_put_time_samples_per_s_mean(row, f->rate);
    ls_put_time_samples_per_s_mean_ci95(row, ls_interval_value(f->rate_ci95[0], f->rate_ci95[1]));
    if (base->median > 0) { /* both by the same measure */
        const bool even = own->even && base->even;
        const double speedup = even ? base->median / own->median : base->mean / own->mean;
        ls_put_time_speedup(row, speedup);
        if (even && isfinite(own->ci95[0]) && isfinite(base->ci95[0])) {
            const ls_interval ratio =
                ls_statistics_ratio((ls_interval){base->median, base->ci95[0], base->ci95[1]},
                                    (ls_interval){own->median, own->ci95[0], own->ci95[1]});
            ls_put_time_speedup_ci95(row, ls_interval_value(ratio.low, ratio.high));
        }
        ls_put_time_efficiency(row, speedup / training_devices(plan));
    }
    if (f->roof_flops > 0) {
        ls_put_time_mfu(row, step_flops(plan) / (double)plan->job.batch * rate / f->roof_flops);
        ls_put_time_roof_gflops(row, f->roof_flops * 1e-9);
    }
}

static void put_time(const ls_row_facts *f, const ls_run_info *info, json_t *row)
{
    const ls_trial *trial = f->trial;
    const ls_timed *timed = &trial->timed;
    const ls_profile *profile = &trial->profile;
    ls_statistics enqueued;
    ls_put_time_step_ms_mean(row, ls_timed_mean_ms(timed));
    ls_put_time_step_ms_median(row, f->steps.median);
    ls_put_time_step_ms_p10(row, f->steps.p10);
    ls_put_time_step_ms_p90(row, f->steps.p90);
    ls_put_time_step_ms_p99(row, f->steps.p99);
    ls_put_time_step_ms_ci95(row, ls_interval_value(f->ci95[0], f->ci95[1]));
    ls_put_time_step_ms_n(row, f->steps.n);
    if (trial->learned.losses_kept)
        ls_put_time_steps_ms(row, ls_reals(trial->learned.step_ms, trial->learned.losses_kept));
    ls_put_time_blocks(row, timed->blocks);
    if (f->groups > 1) {
        ls_put_time_group(row, f->group + 1);
        ls_put_time_groups(row, f->groups);
    }
    ls_put_time_timed_s(row, timed->ms * 1e-3);
    ls_put_time_discarded(row, ls_nonzero(timed->discarded));
    put_rates(f, row);
    if (f->exact_cost > 0) /* time of exact mode / time of fast mode */
        ls_put_time_exact_cost(row, f->exact_cost);
    if (info->program.nodes) /* otherwise operations are enqueued one by one */
        ls_put_time_build_ms(row, (double)info->program.build_ns * 1e-6);
    ls_statistics_compute(timed->enqueue_ns, timed->calls, &enqueued);
    ls_put_time_host_us(row, enqueued.median * 1e-3);
    ls_put_time_data_ms(row, (double)f->plan->data->read_ns * 1e-6); /* wait for data */
    ls_put_time_setup_ms(row, (double)trial->session.setup_ns * 1e-6);
    if (trial->reopened) /* mean per reopening; not part of a step */
        ls_put_time_reopen_ms(row, (double)trial->reopen_ns * 1e-6 / (double)trial->reopened);
    ls_put_time_harness_us(row, f->harness_ns > 0 ? f->harness_ns * 1e-3 : NAN);
    if (profile->profiled_ms > 0) {
        ls_put_time_accounted(row, ls_nonzero(profile->accounted));
        ls_put_time_profiled_ms(row, profile->profiled_ms);
        ls_put_time_residual(row, profile->residual);
    }
}

/* How much longer each part of the step takes than on `single` with n devices. */
static void put_gap(const ls_row_facts *f, json_t *row)
{
    const double factor = ls_timed_step_samples(&f->trial->timed) / training_devices(f->plan);
    double parts[LS_WATERFALL_PARTS], step = 0;
    if (!f->baseline_parts)
        return;
    ls_waterfall_parts(f->trial->profile.part_ms, parts);
    for (int p = 0; p < LS_WATERFALL_PARTS; p++) {
        const double ideal = f->baseline_parts[p] * factor;
        step += ideal;
        ls_row_put_real(row, (ls_field_number)(LS_F_gap_compute_gap_ms + p), parts[p] - ideal);
    }
    ls_put_gap_ideal_step_ms(row, step);
}

/* How each training device spends the mean step; its rank, as --inject counts ranks. */
static void put_device_loads(const ls_row_facts *f, json_t *row)
{
    const ls_session *session = &f->trial->session;
    const ls_elastic_phase *phase = session->plan->phase;
    const size_t count = f->plan->device_count, ranks = (size_t)f->plan->config->ranks;
    const size_t each = ranks > 1 && count > ranks ? count / ranks : 1;
    for (size_t i = 0; i < session->device_count; i++) {
        const ls_device_load *load = &f->trial->profile.loads[i];
        size_t number = i; /* among all devices of the case */
        while (phase && phase->member[number] != (int)i)
            number++;
        if (!(load->busy_ms + load->wait_ms > 0))
            continue;
        json_t *one = ls_row_make(row, LS_G_device_load);
        ls_put_device_load_device(one, ls_device_describe(session->devices[i])->text);
        ls_put_device_load_rank(one, session->job.ranks.comm
                                         ? (size_t)f->workplace->request->processes->rank
                                         : number / each);
        ls_put_device_load_busy_ms(one, load->busy_ms);
        ls_put_device_load_waiting_ms(one, load->wait_ms);
        ls_put_device_load_gathering_ms(one, load->gather_ms);
    }
}

static void put_most(json_t *row, const ls_schedule *schedule)
{
    json_t *in_flight = json_array(), *waiting = schedule->rule->split ? json_array() : NULL;
    for (int stage = 0; stage < schedule->stages; stage++) {
        ls_schedule_most most = {0};
        ls_status_free(ls_schedule_count(schedule, stage, 0, &most));
        json_array_append_new(in_flight, json_integer(most.in_flight));
        if (waiting)
            json_array_append_new(waiting, json_integer(most.weights_waiting));
    }
    ls_put_pipeline_in_flight(row, in_flight);
    ls_put_pipeline_weights_waiting(row, waiting);
}

void ls_row_put_pipeline(json_t *row, const ls_job *job, const ls_bubble *bubble)
{
    const ls_schedule schedule = ls_replicated_schedule(job, 0, LS_FULL);
    if (!isfinite(bubble->measured))
        return;
    ls_put_pipeline_bubble(row, bubble->measured);
    ls_put_pipeline_bubble_formula(row, bubble->formula);
    ls_put_pipeline_bubble_equal(row, ls_schedule_equal(&schedule));
    ls_put_pipeline_bubble_stage(row, bubble->stage);
    ls_put_pipeline_slowest_stage(row, bubble->slowest);
    put_most(row, &schedule);
    ls_put_pipeline_passes_ms_forward(row, bubble->forward_ms);
    ls_put_pipeline_passes_ms_data(row, bubble->backward_ms);
    ls_put_pipeline_passes_ms_weights(row, bubble->weights_ms);
}

static void put_equivalence(const ls_row_facts *f, json_t *row)
{
    const ls_gate *gate = f->gate;
    ls_put_equivalence_grade(row, gate->grade);
    if (gate->compared || gate->checked)
        ls_put_equivalence_pass(row, gate->pass);
    if (gate->compared) {
        ls_put_equivalence_max_ulp(row, gate->max_ulp);
        ls_put_equivalence_max_rel(row, gate->max_rel);
        ls_put_equivalence_bound(row, gate->bound); /* exact mode: 0 */
    }
    ls_put_equivalence_gradient_rel(row, gate->gradient_rel);
    ls_put_equivalence_library_rel(row, gate->library_rel);
    ls_put_equivalence_kernels(row, gate->kernels_rel);
    if (gate->copies && *gate->kernels_compared)
        ls_put_equivalence_precision(row, gate->precision_rel);
    const size_t differ = strlen(ls_gate_copies_differ);
    if (gate->copies && strncmp(gate->oracle, ls_gate_copies_differ, differ) == 0)
        ls_put_equivalence_copies(row, gate->oracle + differ);
    else if (gate->copies)
        ls_put_equivalence_copies(row, "same bits");
    ls_put_equivalence_kernels_compared(row, ls_nonempty(gate->kernels_compared));
    if (f->trial && *f->trial->checked.digest)
        ls_put_equivalence_digest(row, f->trial->checked.digest);
    else if (!f->trial && gate->compared && *gate->reference_digest)
        ls_put_equivalence_digest(row, gate->digest);
    ls_put_equivalence_reference_digest(row, ls_nonempty(gate->reference_digest));
    ls_put_equivalence_steps(row, gate->compared || gate->replayed ? gate->steps : LS_ABSENT);
    ls_put_equivalence_oracle(row, gate->oracle);
}

/* ---- What it took ---------------------------------------------------------------------------- */

void ls_row_put_traffic(json_t *row, const ls_traffic *sent, const ls_traffic *formula)
{
    ls_put_traffic_bytes_sent(row, sent->bytes_sent);
    ls_put_traffic_messages_sent(row, sent->messages_sent);
    ls_put_traffic_bytes_formula(row, formula->bytes_sent);
    ls_put_traffic_messages_formula(row, formula->messages_sent);
}

/* How a case with a GPU copied between devices: per replay of its program. */
static void put_copies(const ls_session *session, json_t *row)
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
    ls_put_traffic_copies_put_peer_bytes(row, all.peer_bytes);
    ls_put_traffic_copies_put_staged_bytes(row, all.staged_bytes);
    ls_put_traffic_copies_put_host_bytes(row, all.host_bytes);
}

static void put_program(const ls_session *session, const ls_run_info *info, json_t *row)
{
    if (ls_plan_mixes_kinds(session->plan) && session->plan->config->capture) {
        ls_put_program_uncaptured(row, "the host orders the queues of a CPU and a GPU");
        return;
    }
    if (!info->program.nodes)
        return;
    ls_put_program_nodes(row, info->program.nodes);
    ls_put_program_bytes(row, info->program.bytes);
    if (session->plan->devices->kind == LS_DEVICE_CPU) { /* other kinds are not counted */
        ls_put_program_reorders(row, info->program.reorders);
        ls_put_program_reordered_bytes(row, info->program.reordered_bytes);
    }
}

static json_t *bins_of(const ls_ps_histogram *h)
{
    json_t *bins = json_array();
    for (uint64_t i = 0; i <= h->max && i < LS_PS_BINS; i++)
        json_array_append_new(bins, json_integer((json_int_t)h->bins[i]));
    return bins;
}

/* What servers counted. For each server the bytes of variables, the share of time in which it did
 * not wait, and the bytes of gradients that it receives and copies per step. */
static void put_servers(const ls_job *job, const ls_reported *reported, json_t *row)
{
    const ls_ps_histogram *lead = &reported->ended.lead, *stale = &reported->ended.staleness;
    if (!stale->count) /* no gradient was applied */
        return;
    ls_put_lead_bound(row, job->ps.mode == LS_PS_SSP ? job->ps.staleness : LS_ABSENT);
    ls_put_lead_max(row, lead->max);
    ls_put_lead_histogram(row, bins_of(lead));
    ls_put_staleness_max(row, stale->max);
    ls_put_staleness_mean(row, (double)stale->sum / (double)stale->count);
    ls_put_staleness_histogram(row, bins_of(stale));
    if (job->ps.backups) /* counted in timed steps */
        ls_put_dropped(row, reported->ended.dropped - reported->warm.dropped);
    for (size_t i = 0; i < reported->server_count; i++) {
        const ls_ps_server *s = &reported->servers[i];
        json_t *load = ls_row_make(row, LS_G_server_load);
        ls_put_server_load_device(load, s->device);
        ls_put_server_load_bytes(load, s->bytes);
        if (s->busy > 0) /* 0 if not measured */
            ls_put_server_load_busy(load, s->busy);
        if (s->steps) { /* mean bytes per step */
            ls_put_server_load_received_bytes(load, (s->received.bytes + s->steps / 2) / s->steps);
            ls_put_server_load_copied_bytes(load, (s->received.copied + s->steps / 2) / s->steps);
        }
    }
}

/* ---- All ------------------------------------------------------------------------------------- */

static void put_provenance(const ls_row_facts *f, json_t *row)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_machine *machine = f->workplace->machine;
    const ls_machine_info *info = ls_machine_describe(machine);
    ls_provenance_put(row, info, plan->oversubscribed,
                      plan->job.ranks.comm ? f->workplace->request->processes->version : NULL);
    json_auto_t *kernels = f->trial  ? ls_step_kernels(f->trial->session.run)
                           : f->gate ? json_incref(f->gate->kernels)
                                     : NULL;
    if (json_object_size(kernels))
        json_object_update(ls_row_make(row, LS_G_provenance_kernels), kernels);
    for (size_t i = 0; i < plan->device_count; i++) {
        ls_device_info planned = {.name = plan->devices[i]};
        const ls_device_info *device = &planned;
        if (f->trial && !plan->phases) {
            device = ls_device_describe(f->trial->session.devices[i]);
        } else if (planned.name.kind == LS_DEVICE_GPU) {
            ls_device_name_text(&planned.name, planned.text);
            ls_device_info_of_gpu(ls_machine_gpu(machine, planned.name.index), &planned);
        } else {
            planned.core_count = ls_machine_cores(machine, planned.name.index, planned.cores,
                                                  sizeof planned.cores / sizeof *planned.cores);
        }
        ls_provenance_put_device(row, info, device);
    }
    ls_put_provenance_ci95(row, ls_statistics_meaning());
}

ls_status ls_row_build(const ls_row_facts *f, json_t **out)
{
    const ls_trial *trial = f->trial;
    const ls_request *request = f->workplace->request;
    ls_run_info info;
    json_t *row;
    LS_TRY(ls_row_begin(request->command, f->plan->config->label, &row));
    *out = row;
    ls_row_put_case(f, row);
    put_result(f, row);
    if (trial)
        trial->session.run->functions->describe(trial->session.run, &info);
    if (trial && trial->timed.done && !f->verdict->failed && !f->error &&
        (!f->gate || f->gate->pass) && !request->verify) {
        ls_row_note(f, row);
        put_time(f, &info, row);
        ls_row_put_noise(f, row);
        ls_waterfall_put(row, trial->profile.part_ms);
        put_gap(f, row);
        ls_row_put_pipeline(row, &f->plan->job, &trial->profile.bubble);
        if (ls_row_group(row, LS_G_waterfall)) /* known on all ranks */
            put_device_loads(f, row);
    }
    ls_row_put_trained(f, row);
    if (f->gate)
        put_equivalence(f, row);
    if (trial) {
        if (trial->checked.counted) /* something was sent, and not only a library knows what */
            ls_row_put_traffic(row, &trial->checked.sent, &trial->checked.formula);
        put_copies(&trial->session, row);
        if (trial->reported.ledgers)
            ls_row_put_memory(f, row);
        put_program(&trial->session, &info, row);
        put_servers(&f->plan->job, &trial->reported, row);
    }
    put_provenance(f, row);
    return LS_OK;
}

void ls_row_mark_error(json_t *row, const char *reason)
{
    ls_put_result_status(row, "error");
    ls_put_result_reason(row, reason);
}

ls_code ls_row_code(const json_t *row)
{
    const char *status = ls_row_string(row, LS_F_result_status);
    return strcmp(status, "ok") == 0            ? LS_CODE_OK
           : strcmp(status, "interrupted") == 0 ? LS_CODE_INTERRUPTED
           : strcmp(status, "failed") == 0      ? LS_CODE_CHECK
                                                : LS_CODE_MISSING;
}
