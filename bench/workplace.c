/* SPDX-License-Identifier: MIT */
/* Workplace, plans and sessions: a case resolved, then opened; see trial.h. */
#include "bench/trial.h"

#include "common/base/clock.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many step records a device keeps: the most steps that are put at once. */
static const uint64_t record_capacity = 32768;

struct ls_data_cache {
    char key[768];
    ls_data *data;
    struct ls_data_cache *next;
};

ls_status ls_workplace_open(const ls_request *request, ls_workplace *out)
{
    const ls_machine_options options = {.cpu_devices = request->cpu_devices,
                                        .cores_per_device = request->cores_per_device,
                                        .logical_gpus = request->logical_gpus};
    *out = (ls_workplace){.request = request};
    return ls_machine_open(&options, &out->machine);
}

void ls_workplace_close(ls_workplace *place)
{
    while (place->data) {
        struct ls_data_cache *next = place->data->next;
        ls_data_close(place->data->data);
        free(place->data);
        place->data = next;
    }
    ls_machine_close(place->machine);
}

/* ---- Plans ---------------------------------------------------------------------------------- */

static ls_status find_data(ls_workplace *place, const char *spec, const ls_model *model,
                           const ls_data **out)
{
    char key[768];
    snprintf(key, sizeof key, "%s|%s", model->name, spec);
    for (struct ls_data_cache *entry = place->data; entry; entry = entry->next) {
        if (strcmp(entry->key, key) == 0) {
            *out = entry->data;
            return LS_OK;
        }
    }
    struct ls_data_cache *entry = calloc(1, sizeof *entry);
    if (!entry)
        return ls_fail_memory("data", sizeof *entry);
    ls_status status = ls_data_open(spec, &model->need, &entry->data);
    if (status) {
        free(entry);
        return status;
    }
    memcpy(entry->key, key, sizeof key);
    entry->next = place->data;
    place->data = entry;
    *out = entry->data;
    return LS_OK;
}

/* The global batch, and how many steps of it, timed and not. */
static ls_status size_steps(ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    ls_job *job = &plan->job;
    int64_t batch = c->batch > 0 ? c->batch : plan->model->kind->default_batch;
    int64_t global = batch;
    if (c->scaling == LS_SCALING_WEAK &&
        __builtin_mul_overflow(batch, (int64_t)plan->device_count, &global))
        return ls_fail(LS_CODE_USAGE, "option", "--batch", "times the devices overflows");
    if (global > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, "option", "--batch", "%lld samples are too many; at most %d",
                       (long long)global, INT32_MAX);
    job->batch = global;
    job->epochs = c->epochs >= 0;
    plan->warmup = c->warmup;
    plan->timed = c->steps;
    if (!job->epochs)
        return LS_OK;
    int64_t total;
    if (__builtin_mul_overflow((int64_t)ls_job_steps_per_epoch(job), c->epochs, &total))
        return ls_fail(LS_CODE_USAGE, "option", "--epochs", "the number of steps overflows");
    plan->warmup = c->warmup < total ? c->warmup : total;
    plan->timed = total - plan->warmup;
    return LS_OK;
}

/* Every replica needs something of a full batch: a sample, or in exact mode a shard. */
static ls_status check_shares(const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    int64_t replicas = (int64_t)plan->device_count;
    int64_t shares = job->batch;
    if (!plan->strategy->replicated || replicas == 1)
        return LS_OK;
    if (replicas > LS_JOB_REPLICAS)
        return ls_fail(LS_CODE_USAGE, "option", "--devices", "%lld are too many; at most %d",
                       (long long)replicas, LS_JOB_REPLICAS);
    if (shares < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "%lld samples are fewer than the %lld replicas; a batch of at least %lld "
                       "or fewer devices work",
                       (long long)shares, (long long)replicas, (long long)replicas);
    shares = job->micro_shards < shares ? job->micro_shards : shares;
    if (job->exact && shares < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                       "%lld shards are fewer than the %lld replicas; --micro-shards %lld or "
                       "fewer devices work",
                       (long long)shares, (long long)replicas, (long long)replicas);
    return LS_OK;
}

static ls_status check_target(const ls_plan_of_case *plan)
{
    if (plan->config->target_kind == LS_TARGET_ACCURACY &&
        (!plan->model->need.classes || !plan->data->test.samples))
        return ls_fail(LS_CODE_USAGE, "option", "--target",
                       "accuracy needs a test set with classes, which %s with %s data has not; "
                       "loss=VALUE works",
                       plan->model->name, plan->data->name);
    return LS_OK;
}

static ls_status make_initial(const ls_workplace *place, ls_plan_of_case *plan)
{
    const ls_variables *variables = &plan->model->graph->variables;
    plan->initial = malloc(variables->elements * sizeof *plan->initial);
    if (!plan->initial)
        return ls_fail_memory("parameters", variables->elements * sizeof *plan->initial);
    if (place->request->load)
        return ls_variables_load(variables, place->request->load, plan->initial);
    ls_variables_initialize(variables, plan->config->seed, plan->initial);
    return LS_OK;
}

static ls_status resolve(ls_workplace *place, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    LS_TRY(ls_model_open(c->model, &plan->model));
    LS_TRY(ls_strategy_find(c->strategy, &plan->strategy));
    LS_TRY(ls_machine_resolve(place->machine, c->devices, &plan->devices, &plan->device_count));
    LS_TRY(ls_device_name_parse(c->variable_device, &plan->variable_device));
    plan->oversubscribed =
        ls_machine_oversubscribed(place->machine, plan->devices, plan->device_count);
    LS_TRY(plan->strategy->check(plan->device_count, c->ranks));
    const ls_model_kind *kind = plan->model->kind;
    ls_job *job = &plan->job;
    *job = (ls_job){
        .model = plan->model,
        .device_count = plan->device_count,
        .seed = c->seed,
        .shuffle = c->shuffle,
        .schedule = {.initial = c->learning_rate >= 0 ? c->learning_rate : kind->default_rate},
        .exact = c->reduce == LS_REDUCE_EXACT,
        .micro_shards = c->micro_shards > 0 ? c->micro_shards : 16,
        .capture = c->capture,
    };
    LS_TRY(ls_optimizer_parse(*c->optimizer ? c->optimizer : kind->default_optimizer,
                              &job->optimizer));
    LS_TRY(find_data(place, *c->data ? c->data : kind->default_data, plan->model, &plan->data));
    job->data = plan->data;
    LS_TRY(size_steps(plan));
    uint64_t steps = (uint64_t)(plan->warmup + plan->timed);
    job->records = steps < record_capacity ? steps + 1 : record_capacity;
    LS_TRY(check_shares(plan));
    LS_TRY(check_target(plan));
    return make_initial(place, plan);
}

ls_status ls_plan_open(ls_workplace *place, const ls_case *config, ls_plan_of_case *out)
{
    *out = (ls_plan_of_case){.config = config};
    ls_status status = resolve(place, out);
    if (status)
        ls_plan_close(out);
    return status;
}

void ls_plan_close(ls_plan_of_case *plan)
{
    ls_model_close(plan->model);
    free(plan->devices);
    free(plan->initial);
    *plan = (ls_plan_of_case){0};
}

/* ---- Sessions ------------------------------------------------------------------------------- */

/* Opens the first `count` devices of the plan. */
static ls_status open_devices(const ls_workplace *place, const ls_plan_of_case *plan, size_t count,
                              ls_session *out)
{
    *out = (ls_session){.plan = plan, .job = plan->job, .device_count = count};
    out->devices = calloc(count, sizeof *out->devices);
    if (!out->devices)
        return ls_fail_memory("session", count * sizeof *out->devices);
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_device_open(place->machine, &plan->devices[i], &plan->config->memory,
                              &out->devices[i]));
        if (ls_device_name_overlaps(&plan->devices[i], &plan->variable_device))
            out->job.variable_device = out->devices[i];
    }
    out->job.devices = out->devices;
    out->job.device_count = count;
    return LS_OK;
}

static ls_status finish_open(ls_session *session, ls_status status, uint64_t begin_ns)
{
    if (!status)
        status = session->run->strategy->load(session->run, session->plan->initial);
    session->setup_ns = ls_clock_ns() - begin_ns;
    if (status)
        ls_session_close(session);
    return status;
}

ls_status ls_session_open(const ls_workplace *place, const ls_plan_of_case *plan, ls_session *out)
{
    uint64_t begin_ns = ls_clock_ns();
    ls_status status = open_devices(place, plan, plan->device_count, out);
    if (!status)
        status = plan->strategy->open(&out->job, &out->run);
    return finish_open(out, status, begin_ns);
}

ls_status ls_session_open_one(const ls_workplace *place, const ls_plan_of_case *plan,
                              ls_status (*open)(const ls_job *job, int replicas, ls_run **out,
                                                const void *context),
                              const void *context, ls_session *out)
{
    uint64_t begin_ns = ls_clock_ns();
    ls_status status = open_devices(place, plan, 1, out);
    if (!status)
        status = open(&out->job, (int)plan->device_count, &out->run, context);
    return finish_open(out, status, begin_ns);
}

void ls_session_close(ls_session *session)
{
    if (session->run)
        session->run->strategy->close(session->run);
    for (size_t i = 0; session->devices && i < session->device_count; i++)
        ls_device_close(session->devices[i]);
    free(session->devices);
    *session = (ls_session){0};
}

/* Whether step number `step` is the smaller one at the end of an epoch. */
static bool is_tail(const ls_job *job, uint64_t step)
{
    uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return ls_job_tail(job) && step % per_epoch == per_epoch - 1;
}

ls_status ls_session_steps(ls_session *session, uint64_t count)
{
    const ls_strategy *strategy = session->run->strategy;
    uint64_t end = session->step + count;
    LS_TRY(strategy->mark(session->run));
    while (session->step < end) {
        bool tail = is_tail(&session->job, session->step);
        uint64_t run = 1;
        if (!tail && ls_job_tail(&session->job)) {
            uint64_t per_epoch = ls_job_steps_per_epoch(&session->job);
            uint64_t until_tail = per_epoch - 1 - session->step % per_epoch;
            run = until_tail < end - session->step ? until_tail : end - session->step;
        } else if (!tail) {
            run = end - session->step;
        }
        LS_TRY(strategy->step(session->run, tail, run));
        session->step += run;
    }
    return strategy->sync(session->run);
}

ls_status ls_session_records(ls_session *session, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    return session->run->strategy->records(session->run, session->step - count, count, out,
                                           mark_ns);
}

uint64_t ls_session_samples(const ls_session *session, uint64_t steps)
{
    const ls_job *job = &session->job;
    if (!job->epochs)
        return steps * (uint64_t)job->batch;
    uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return steps / per_epoch * job->data->train.samples + steps % per_epoch * (uint64_t)job->batch;
}

size_t ls_session_in_use(const ls_session *session)
{
    size_t bytes = 0;
    for (size_t i = 0; i < session->device_count; i++) {
        ls_memory_ledger ledger = ls_device_ledger(session->devices[i]);
        for (int use = 0; use < LS_MEMORY_USES; use++)
            bytes += ledger.in_use[use];
    }
    return bytes;
}
