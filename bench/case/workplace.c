/* SPDX-License-Identifier: MIT */
/* Workplace and plans: resolves a case; see workplace.h. */
#include "bench/case/workplace.h"

#include "bench/case/case_facts.h"
#include "bench/case/case_plan.h"
#include "bench/case/profile.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/device/machine_gpus.h"
#include "common/device/placement.h"
#include "common/device/pulse.h"
#include "common/nn/divide/graph_context.h"
#include "common/nn/divide/graph_split.h"
#include "common/nn/layer.h"
#include "common/nn/divide/places.h"
#include "impl/strategies.h"
#include "impl/step/plan/plan.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many step records a device keeps: the most steps that may be enqueued at once. */
static const uint64_t record_capacity = 32768;

struct ls_data_cache {
    char key[1200];
    ls_data *data;
    struct ls_data_cache *next;
};

/* Number of mpi_pulse.c's checks in eight timeouts. */
enum { BUSY_LOOKS = 8 * 16 };

void ls_workplace_busy(ls_workplace *workplace, bool begins)
{
    atomic_store(&workplace->busy, begins ? BUSY_LOOKS : 0);
}

/* Whether this process is alive: its devices' queues made progress, or it is busy. */
static bool has_moved(void *context)
{
    ls_workplace *workplace = context;
    int busy = atomic_load(&workplace->busy);
    if (busy > 0)
        atomic_compare_exchange_strong(&workplace->busy, &busy, busy - 1);
    return ls_pulse_moved(ls_machine_pulse(workplace->machine)) || busy > 0;
}

ls_machine_options ls_request_machine(const ls_request *request)
{
    const ls_processes *processes = request->processes;
    return (ls_machine_options){.cpu_devices = request->cpu_devices,
                                .cores_per_device = request->cores_per_device,
                                .logical_gpus = request->logical_gpus,
                                .part = processes->part,
                                .parts = processes->parts,
                                .neighbours = processes->neighbours,
                                .neighbour = processes->neighbour};
}

ls_status ls_workplace_open(const ls_request *request, ls_workplace *out)
{
    const ls_machine_options options = ls_request_machine(request);
    *out = (ls_workplace){.request = request};
    LS_TRY(ls_allocate("workplace", &out->left, 1, sizeof *out->left));
    LS_TRY(ls_machine_open(&options, &out->machine));
    LS_TRY(ls_processes_pulse(request->processes, has_moved, out));
    if (request->logical_gpus > 1 && !ls_machine_count(out->machine, LS_DEVICE_GPU))
        return ls_fail(LS_CODE_USAGE, "option", "--logical-gpus",
                       "there is no GPU to split in this case; remove --logical-gpus");
    return LS_OK;
}

void ls_workplace_close(ls_workplace *workplace)
{
    while (workplace->data) {
        struct ls_data_cache *next = workplace->data->next;
        ls_data_close(workplace->data->data);
        free(workplace->data);
        workplace->data = next;
    }
    ls_first_values_close(workplace);
    ls_resumed_close(workplace->resumed);
    if (workplace->request) /* it was opened */
        ls_status_free(ls_processes_pulse(workplace->request->processes, NULL, NULL));
    ls_machine_close(workplace->machine);
    free(workplace->left);
}

/* ---- Plans ---------------------------------------------------------------------------------- */

/* A data set that fits into no memory is not begun. */
static ls_status refuse_large(const ls_workplace *workplace, const char *spec,
                              const ls_model *model)
{
    const size_t limit = ls_machine_describe(workplace->machine)->memory_limit;
    const double bytes = ls_data_bytes(spec, &model->need);
    char needs[32], most[32];
    if (bytes <= (double)limit)
        return LS_OK;
    return ls_fail(
        LS_CODE_MISSING, "data", spec,
        "the data set needs %s of host memory, but this process may use only %s; use fewer samples",
        ls_format_bytes(bytes, needs), ls_format_bytes((double)limit, most));
}

static ls_status find_data(ls_workplace *workplace, const char *spec, const ls_model *model,
                           const ls_data **out)
{
    char key[1200];
    snprintf(key, sizeof key, "%s|%s", model->name, spec);
    for (struct ls_data_cache *entry = workplace->data; entry; entry = entry->next) {
        if (strcmp(entry->key, key) == 0) {
            *out = entry->data;
            return LS_OK;
        }
    }
    struct ls_data_cache *entry;
    LS_TRY(refuse_large(workplace, spec, model));
    LS_TRY(ls_allocate("data", &entry, 1, sizeof *entry));
    ls_status status = ls_data_open(spec, &model->need, &entry->data);
    if (status) {
        free(entry);
        return status;
    }
    memcpy(entry->key, key, sizeof key);
    entry->next = workplace->data;
    workplace->data = entry;
    *out = entry->data;
    return LS_OK;
}

/* Sets the global batch, and the numbers of timed and untimed steps. */
static ls_status size_steps(ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    ls_job *job = &plan->job;
    int64_t batch = c->batch > 0 ? c->batch : ls_model_batch(plan->model);
    int64_t global = batch;
    if (c->scaling == LS_SCALING_WEAK &&
        __builtin_mul_overflow(batch, (int64_t)ls_job_replicas(job), &global))
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "is too large: the product of --batch and the number of devices overflows; "
                       "use a smaller --batch");
    if (global > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "the batch of all devices together has %lld samples, but at most %d are "
                       "possible; use a smaller --batch",
                       (long long)global, INT32_MAX);
    job->batch = global;
    job->sampling.epochs = c->epochs > 0;
    plan->warmup = c->warmup;
    plan->timed = c->steps;
    if (!job->sampling.epochs)
        return LS_OK;
    int64_t total;
    if (__builtin_mul_overflow((int64_t)ls_job_steps_per_epoch(job), c->epochs, &total))
        return ls_fail(LS_CODE_USAGE, "option", "--epochs",
                       "is too large: the number of steps overflows; use fewer epochs");
    plan->warmup = c->warmup < total ? c->warmup : total;
    plan->timed = total - plan->warmup;
    return LS_OK;
}

/* What asks for an accuracy requires a test set. */
static ls_status check_tested(const ls_plan_of_case *plan)
{
    const bool target = plan->config->target_kind == LS_TARGET_ACCURACY;
    if ((!target && plan->config->eval_samples <= 0) || ls_plan_tests(plan))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", target ? "--target" : "--eval-samples",
                   "accuracy needs a test set with classes, but --model %s with --data %s has no "
                   "classes; use %s",
                   plan->model->name, plan->data->name, target ? "loss=VALUE" : "auto");
}

static ls_placement placement_of(const ls_workplace *workplace)
{
    return (ls_placement){.machine = workplace->machine,
                          .log = &workplace->request->log,
                          .soft = workplace->request->soft_placement,
                          .logged = workplace->request->log_placement};
}

/* Between GPUs of several processes, MPI does not exchange. With `auto` NCCL sums, if it is here
 * and sums what the strategy needs. */
static void prefer_nccl(ls_plan_of_case *plan, const ls_outline *outline)
{
    ls_outline with = *outline;
    with.comm = "nccl";
    if (!plan->config->comm_auto || !plan->job.ranks.comm || !ls_strategy_reduces(plan->strategy) ||
        plan->devices->kind != LS_DEVICE_GPU)
        return;
    ls_status refused = ls_strategy_check(plan->strategy, &with);
    const ls_comm_backend *found =
        refused ? NULL : ls_comm_backend_of_gpus(plan->devices, (int)plan->device_count);
    ls_status_free(refused);
    plan->job.exchange.transport = found ? found : plan->job.exchange.transport;
}

/* Chooses the communicator of the devices: the processes' own, or one of this process. */
static ls_status choose_transport(ls_plan_of_case *plan, const ls_outline *outline)
{
    const ls_case *c = plan->config;
    ls_job *job = &plan->job;
    char text[2][32];
    job->exchange.transport = ls_comm_backend_auto(job->ranks.comm, plan->devices->kind);
    for (size_t i = 1; i < plan->device_count && !ls_strategy_alone(plan->strategy); i++)
        if (plan->devices[i].kind != plan->devices->kind)
            return ls_fail(
                LS_CODE_USAGE, "option", "--devices",
                "%s and %s are a CPU device and a GPU, which do not compute the same bits; name "
                "devices of one type, or use --strategy independent, which accepts both",
                ls_device_name_text(plan->devices, text[0]),
                ls_device_name_text(&plan->devices[i], text[1]));
    if (strcmp(c->comm, "device") == 0 || strcmp(c->comm, "nccl") == 0)
        LS_TRY(ls_comm_backend_find(c->comm, &job->exchange.transport));
    else
        prefer_nccl(plan, outline);
    return job->exchange.transport->check
               ? job->exchange.transport->check(plan->devices, (int)plan->device_count)
               : LS_OK;
}

/* TF32, and a chosen convolution library, need GPUs for all devices, also the one that updates. */
static ls_status check_kernels(const ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    char text[32];
    for (size_t i = 0; i < plan->device_count; i++) {
        const ls_device_name *device = &plan->devices[i];
        const ls_kernel_table *table = ls_kernel_table_default(device->kind);
        if (table && c->math == LS_MATH_TF32 && !table->tf32)
            return ls_fail(LS_CODE_USAGE, "option --math", ls_math_words[c->math],
                           "works on GPUs only, but %s is a CPU device; use --math float32",
                           ls_device_name_text(device, text));
        if (table)
            LS_TRY(ls_kernel_math_check(table, c->math));
        if (c->convolution != LS_CONVOLUTION_AUTO && device->kind != LS_DEVICE_GPU)
            return ls_fail(LS_CODE_USAGE, "option --convolution",
                           ls_convolution_words[c->convolution],
                           "works on GPUs only, but %s is a CPU device; use --convolution auto",
                           ls_device_name_text(device, text));
    }
    return LS_OK;
}

/* The variable device must be one of the case's, or exist, or may be replaced. */
static ls_status place_variables(const ls_workplace *workplace, ls_plan_of_case *plan)
{
    const char *text = ls_declared_text(&plan->config->own, &ls_option_variable_device);
    ls_auto ls_device_name *names = NULL;
    size_t count;
    LS_TRY(ls_device_name_parse(text, &plan->variable_device));
    if (!ls_plan_has_variable_device(plan))
        return LS_OK;
    for (size_t i = 0; i < plan->device_count; i++)
        if (ls_device_name_overlaps(&plan->devices[i], &plan->variable_device))
            return LS_OK;
    const ls_placement placement = placement_of(workplace);
    LS_TRY(ls_placement_resolve(&placement, NULL, text, &names, &count, &plan->variables_placed));
    plan->variable_device = *names;
    if (!ls_plan_mixes_kinds(plan))
        return LS_OK;
    if (ls_strategy_serves(plan->strategy))
        return ls_fail(LS_CODE_USAGE, "option --variable-device", text,
                       "this device and the workers' devices must be of the same type (CPU or "
                       "GPU); use --variable-device %s",
                       plan->devices->kind == LS_DEVICE_GPU ? "/gpu:0" : "/cpu:0");
    if (plan->variable_device.kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_USAGE, "option --variable-device", text,
                       "CPU devices cannot read variables in a GPU's memory; use a CPU device, as "
                       "--variable-device /cpu:0");
    if (plan->job.division.backward_held)
        return ls_fail(LS_CODE_USAGE, "option --colocate-gradients", "no",
                       "'no' would run a GPU's backward pass on a CPU device, which is not "
                       "possible; use --colocate-gradients yes, or a GPU as --variable-device");
    return LS_OK;
}

/* If the model is divided, decides which of a replica's devices computes each node; refuses an
 * impossible division before anything is opened. */
static ls_status divide_model(ls_plan_of_case *plan)
{
    const ls_graph *graph = plan->model->graph;
    const char *text = ls_declared_text(&plan->job.options, &ls_option_model_parallel_place);
    if (!plan->place)
        return LS_OK;
    const int places = ls_job_stages(&plan->job) * ls_job_chunks(&plan->job);
    if (*text && places > (int)plan->device_count)
        return ls_fail(
            LS_CODE_USAGE, "option", "--model-parallel-place",
            "can only name devices of one process, but here the %d devices of a replica belong to "
            "several processes; remove --model-parallel-place, or give each process more --devices",
            places);
    LS_TRY(*text ? ls_places_parse(graph, text, plan->devices, places, plan->place)
                 : ls_places_balance(graph, places, plan->place));
    if (ls_job_slices(&plan->job))
        ls_graph_split_stages(graph, plan->place);
    return ls_places_check(graph, plan->place, places);
}

/* If layers are split, or positions divided, refuses what they cannot be split into. */
static ls_status check_slices(const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    const ls_graph *graph = plan->model->graph;
    const int splits = ls_job_splits(job);
    if (job->mesh.rest == LS_POSITION)
        return ls_context_check(graph, ls_job_places(job));
    return splits > 1 || ls_job_slices(job)
               ? ls_graph_split_check(graph, splits, job->exact.on ? "--micro-splits" : "--devices")
               : LS_OK;
}

void ls_plan_log(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    const ls_placement found = placement_of(workplace), *placement = &found;
    const ls_graph *graph = plan->model->graph;
    const int slices = ls_job_mesh(&plan->job).size[LS_SLICE], places = ls_job_places(&plan->job);
    for (size_t d = 0; d < plan->device_count; d++) {
        const ls_device_name *holder =
            ls_plan_has_variable_device(plan) ? &plan->variable_device : &plan->devices[d];
        for (int n = 0; n < graph->count; n++) {
            if (plan->place && plan->place[n] % ls_job_stages(&plan->job) !=
                                   ls_job_member(&plan->job, d) % places / slices)
                continue;
            const ls_node *node = &graph->nodes[n];
            char name[64];
            snprintf(name, sizeof name, "node %d %s", n, node->layer->name);
            ls_placement_log(placement, name, &plan->devices[d],
                             node->variable_count ? holder : NULL);
        }
    }
}

/* The devices of this process; each rank that is its thread has as many. */
static ls_status place_devices(const ls_placement *placement, const ls_processes *processes,
                               ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    const bool separate =
        strcmp(c->comm, "mpi") == 0 || (strcmp(c->comm, "nccl") == 0 && processes->comm);
    const int local_ranks = separate ? 1 : c->ranks;
    char all[32];
    int64_t devices;
    const char *spec = c->devices;
    if (local_ranks > 1) {
        if (!ls_parse_integer(spec, 1, INT32_MAX, &devices))
            return ls_fail(LS_CODE_USAGE, "option", "--devices",
                           "names devices, but every rank chooses its own devices; give the number "
                           "of devices of each rank, as --devices 1");
        snprintf(all, sizeof all, "%lld", (long long)devices * local_ranks);
        spec = all;
    }
    LS_TRY(ls_placement_resolve(placement, NULL, spec, &plan->devices, &plan->device_count,
                                &plan->soft_placed));
    plan->all_devices = (int)plan->device_count * (c->ranks / local_ranks);
    return LS_OK;
}

ls_status ls_plan_resolve(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    const ls_processes *processes = workplace->request->processes;
    LS_TRY(ls_case_model_open(c->model, c->data, ls_case_dropout(c), &plan->model));
    plan->strategy = c->strategy;
    const ls_placement placement = placement_of(workplace);
    if (!plan->whole)
        LS_TRY(place_devices(&placement, processes, plan));
    LS_TRY(check_kernels(plan));
    const ls_model_family *family = plan->model->family;
    ls_job *job = &plan->job;
    *job = (ls_job){
        .model = plan->model,
        .device_count = plan->device_count,
        .ranks.comm = c->ranks > 1 ? processes->comm : NULL,
        .ranks.processes = processes,
        .ranks.timeout_ns = workplace->request->timeout_ns,
        .ranks.layout = c->ranks > 1 && processes->comm ? &processes->layout : NULL,
        .update.average = family->average,
    };
    ls_case_job(c, job);
    LS_TRY(ls_plan_check_precision(plan));
    LS_TRY(place_variables(workplace, plan));
    job->kernels.capture &= !ls_plan_mixes_kinds(plan);
    plan->oversubscribed =
        ls_machine_oversubscribed(workplace->machine, plan->devices, plan->device_count);
    LS_TRY(ls_optimizer_parse(*c->optimizer ? c->optimizer : family->default_optimizer,
                              &job->update.optimizer));
    LS_TRY(
        find_data(workplace, *c->data ? c->data : family->default_data, plan->model, &plan->data));
    job->data = plan->data;
    if (job->mesh.rest == LS_STAGE || job->mesh.size[LS_STAGE] > 1) /* chosen later */
        LS_TRY(ls_allocate("placement", &plan->place, (size_t)plan->model->graph->count,
                           sizeof *plan->place));
    job->division.place = plan->place;
    LS_TRY(size_steps(plan));
    LS_TRY(ls_plan_choose_rate(workplace->request, plan));
    LS_TRY(ls_plan_resume(workplace, plan));
    uint64_t steps = (uint64_t)(plan->warmup + plan->timed);
    job->records = steps < record_capacity ? steps + 1 : record_capacity;
    if (workplace->request->ps_record) /* room for a pull and a push of each worker per step */
        job->ps.log_events = 2 * steps * (uint64_t)ls_job_replicas(job);
    const ls_outline outline =
        ls_case_outline(c, job, (size_t)(plan->all_devices / c->ranks), processes->hosts);
    if (!ls_case_is_elastic(c) || plan->whole) /* not all replicas need take part at once */
        LS_TRY(ls_strategy_check(plan->strategy, &outline));
    LS_TRY(choose_transport(plan, &outline));
    LS_TRY(ls_plan_choose_reduction(workplace, plan));
    if (plan->whole) { /* what its row says */
        job->exchange.allreduce = plan->whole->job.exchange.allreduce;
        job->exchange.bucket_bytes = plan->whole->job.exchange.bucket_bytes;
    }
    LS_TRY(divide_model(plan));
    LS_TRY(ls_step_plan_check_windows(plan->strategy, job));
    LS_TRY(check_slices(plan));
    if (!plan->whole)
        LS_TRY(ls_plan_place_faults(workplace, plan));
    LS_TRY(check_tested(plan));
    LS_TRY(ls_sync_bn_check_devices(plan));
    return ls_plan_open_phases(workplace, plan);
}

ls_status ls_plan_open(ls_workplace *workplace, const ls_case *config, ls_plan_of_case *out)
{
    *out = (ls_plan_of_case){.config = config};
    ls_status status = ls_plan_resolve(workplace, out);
    if (status)
        ls_plan_close(out);
    return status;
}

void ls_plan_close(ls_plan_of_case *plan)
{
    ls_plan_close_phases(plan);
    ls_model_close(plan->model);
    free(plan->devices);
    free(plan->place);
    if (plan->layout)
        free((int *)plan->layout->host);
    free(plan->layout);
    *plan = (ls_plan_of_case){0};
}
