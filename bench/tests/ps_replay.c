/* SPDX-License-Identifier: MIT */
/*
 * The judge of servers that serve requests in order of arrival: a sequential replay of what a run's
 * servers recorded with --ps-record, on one device, by the host alone. It must reproduce the bits
 * of the run's parameters, which --save wrote. So the run depends on nothing but this order. Lead,
 * staleness and, with backup workers, first and last loss in the run's row are recomputed, too.
 *     ps_replay run OPTIONS <ROW     the run's options; `--ranks N` if it had N processes
 *     pull w s     worker w's copy of shard s = the current shard
 *     push w s     (worker w has pulled every shard) the gradient of the slice of w's batch in this
 *                  step, computed from its copy, is applied to shard s
 * A line waits until its worker has reached that step. With backup workers, each reads all shards
 * before update k, which applies the gradients of batch k that arrived first. Status 0: same bits
 * and distances; 1: different, or no run can have served so; 3: undecided. No tolerance.
 */
#include "bench/case/workplace.h"
#include "bench/cli/options.h"
#include "common/base/grow.h"
#include "impl/arrival/serve.h"
#include "impl/replica/replicas.h"

#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker. */
typedef struct copy {
    float *parameters, *gradient; /* [P] host memory */
    uint64_t step;
    int pulled, pushed; /* shards pulled and pushed in this step */
    bool computed;
    double loss, decay; /* its part of the step's, and weight decay's, once computed */
} copy;

/* A server's state about a worker. */
typedef struct known {
    uint64_t steps, version; /* steps done; shard version when pulled */
    bool has;                /* has pulled, and not pushed since */
} known;

typedef struct replay {
    const ls_request *request;
    ls_workplace workplace;
    ls_plan_of_case plan;
    ls_device *device, **devices; /* one device, in all entries */
    ls_job job;
    uint64_t steps;
    ls_ps_layout layout;
    ls_replica *replica;           /* computes for all workers, one after another */
    ls_slice **slices[LS_BATCHES]; /* [workers] */
    ls_op_list clip;               /* the norm of its gradient, with --clip; else none */
    ls_ps_shard *shards;           /* [servers] */
    ls_op_list *apply;             /* [servers] */
    ls_ps_log *logs;               /* [servers] as read from the file */
    size_t *next;                  /* [servers] index in its log */
    uint64_t *versions;            /* [servers] updates so far */
    known *clocks;                 /* [servers, workers] */
    copy *copies;                  /* [workers] */
    float *shard;                  /* [P] result before it is applied */
    ls_range all;                  /* elements of the model */
    int active;                    /* servers with at least one variable */
    ls_ps_histogram lead, staleness;
    double losses[2]; /* of the first and the last step, with backup workers */
} replay;

static ls_status not_so(const char *why)
{
    return ls_fail(LS_CODE_CHECK, "replay", "order", "no run can have served so: %s", why);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static ls_status open_slices(replay *me, int batch_kind)
{
    const int workers = me->layout.workers;
    LS_TRY(ls_allocate("replay", &me->slices[batch_kind], (size_t)workers, sizeof(ls_slice *)));
    /* Slices differ by at most one row, and no slice is larger than the last. */
    for (int w = workers; w-- > 0 && ls_replicated_batch(&me->job, batch_kind);) {
        const ls_slice_options options = {.replica = me->replica,
                                          .batch = ls_replicated_batch(&me->job, batch_kind),
                                          .number = w,
                                          .count = workers,
                                          .memory_of = me->slices[LS_FULL][workers - 1]};
        LS_TRY(ls_slice_open(&options, &me->slices[batch_kind][w]));
    }
    return LS_OK;
}

static ls_status open_shards(replay *me)
{
    const size_t servers = (size_t)me->layout.servers, workers = (size_t)me->layout.workers;
    LS_TRY(ls_allocate("replay", &me->shards, servers, sizeof *me->shards));
    LS_TRY(ls_allocate("replay", &me->apply, servers, sizeof *me->apply));
    LS_TRY(ls_allocate("replay", &me->logs, servers, sizeof *me->logs));
    LS_TRY(ls_allocate("replay", &me->next, servers, sizeof *me->next));
    LS_TRY(ls_allocate("replay", &me->versions, servers, sizeof *me->versions));
    LS_TRY(ls_allocate("replay", &me->clocks, servers * workers, sizeof *me->clocks));
    for (size_t s = 0; s < servers; s++) {
        ls_ps_shard *shard = &me->shards[s];
        me->logs[s].capacity = 2 * me->steps * workers;
        LS_TRY(ls_allocate("replay", &me->logs[s].events, me->logs[s].capacity,
                           sizeof *me->logs[s].events));
        LS_TRY(ls_ps_shard_open(&me->job, &me->layout, (int)s, me->device, shard));
        LS_TRY(ls_ps_shard_apply(shard, &me->apply[s]));
        LS_TRY(ls_replicas_load(&shard->replica, 1, &me->plan.initial));
        me->active += me->layout.elements[s] > 0;
    }
    return LS_OK;
}

static ls_status open_workers(replay *me)
{
    const ls_replica workplace = {.job = &me->job,
                                  .device = me->device,
                                  .number = -2, /* no worker: no planted fault */
                                  .data.rows = me->job.batch,
                                  .loss = {.sums = 1, .decays = LS_DECAY_HERE}};
    LS_TRY(ls_replica_open(&workplace, &me->replica));
    LS_TRY(ls_replica_clip_all(me->replica, LS_DECAY_TO_ADD, &me->clip));
    LS_TRY(open_slices(me, LS_FULL));
    LS_TRY(open_slices(me, LS_TAIL));
    LS_TRY(ls_allocate("replay", &me->shard, me->all.count, sizeof *me->shard));
    LS_TRY(ls_allocate("replay", &me->copies, (size_t)me->layout.workers, sizeof *me->copies));
    for (int w = 0; w < me->layout.workers; w++) {
        LS_TRY(ls_allocate("replay", &me->copies[w].parameters, me->all.count, sizeof *me->shard));
        LS_TRY(ls_allocate("replay", &me->copies[w].gradient, me->all.count, sizeof *me->shard));
    }
    return LS_OK;
}

static ls_status open_replay(replay *me)
{
    LS_TRY(ls_workplace_open(me->request, &me->workplace));
    LS_TRY(ls_plan_open(&me->workplace, &me->request->cases[0], &me->plan));
    LS_TRY(ls_plan_draw(&me->workplace, &me->plan));
    me->job = me->plan.job;
    me->all = ls_job_elements(&me->job);
    me->steps = (uint64_t)(me->plan.warmup + me->plan.timed);
    if (!me->request->ps_record || !me->request->save)
        return ls_fail(LS_CODE_USAGE, "replay", NULL,
                       "reads the files of --ps-record and --save of asynchronous servers");
    LS_TRY(ls_device_open(me->workplace.machine, &me->plan.devices[0],
                          &(ls_memory_policy){.kind = LS_MEMORY_GROWTH}, &me->device));
    LS_TRY(ls_allocate("replay", &me->devices, me->plan.device_count, sizeof *me->devices));
    for (size_t i = 0; i < me->plan.device_count; i++)
        me->devices[i] = me->device;
    me->job.devices = me->devices;
    me->job.device_count = me->plan.device_count;
    LS_TRY(ls_ps_layout_open(&me->job, &me->layout));
    LS_TRY(open_workers(me));
    return open_shards(me);
}

static void close_replay(replay *me)
{
    for (int b = LS_BATCHES; b-- > 0; free(me->slices[b]))
        for (int w = 0; me->slices[b] && w < me->layout.workers; w++) /* the memory's owner last */
            ls_slice_close(me->slices[b][w]);
    ls_op_list_clear(&me->clip);
    ls_replica_close(me->replica);
    for (int s = 0; me->shards && s < me->layout.servers; s++) {
        ls_op_list_clear(&me->apply[s]);
        free(me->logs[s].events);
        ls_ps_shard_close(&me->shards[s]);
    }
    for (int w = 0; me->copies && w < me->layout.workers; w++) {
        free(me->copies[w].parameters);
        free(me->copies[w].gradient);
    }
    void *const memory[] = {me->shards, me->apply,  me->logs,  me->next,   me->versions,
                            me->clocks, me->copies, me->shard, me->devices};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    ls_ps_layout_close(&me->layout);
    ls_device_close(me->device);
    ls_plan_close(&me->plan);
    ls_workplace_close(&me->workplace);
}

/* ---- The record ------------------------------------------------------------------------------ */

/* Only a worker that pulled may push, and pull again only after a push or a dropped gradient. */
static bool note_line(replay *me, const char *line)
{
    static const char *const kinds[] = {"pull", "push", "empty", "drop"}; /* by ls_ps_kind */
    char what[8];
    int server, worker, kind = LS_PS_PULL, end = 0;
    if (sscanf(line, "%d %7s %d\n%n", &server, what, &worker, &end) != 3 || line[end])
        return false;
    while (kind < LS_PS_BYE && strcmp(what, kinds[kind]) != 0)
        kind++;
    if (server < 0 || server >= me->layout.servers || worker < 0 || worker >= me->layout.workers ||
        kind == LS_PS_BYE)
        return false;
    known *c = &me->clocks[server * me->layout.workers + worker];
    if (kind == LS_PS_PULL ? c->has && !me->job.ps.backups : !c->has)
        return false;
    c->has = kind == LS_PS_PULL;
    ls_ps_log_note(&me->logs[server], worker, (ls_ps_kind)kind);
    return !me->logs[server].lost;
}

static ls_status read_record(replay *me)
{
    const char *path = me->request->ps_record;
    char line[64] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return ls_fail(LS_CODE_MISSING, "replay", path, "%s", strerror(errno));
    bool good = fgets(line, sizeof line, file) && strcmp(line, "lockstep ps order 1\n") == 0;
    while (good && fgets(line, sizeof line, file))
        good = note_line(me, line);
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    return good ? LS_OK : not_so(line);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Start of the worker's step in the data, and whether its batch is an epoch's smaller last one. */
static uint64_t position_of(const ls_job *job, uint64_t step, int *batch_kind)
{
    const uint64_t per_epoch = ls_job_steps_per_epoch(job), batch = (uint64_t)job->batch;
    *batch_kind = ls_job_is_tail(job, step) ? LS_TAIL : LS_FULL;
    if (!ls_job_tail(job))
        return step * batch;
    return step / per_epoch * job->data->train.samples + step % per_epoch * batch;
}

/* With --clip, a worker scales its gradient by its norm. */
static ls_status scale(replay *me, float *gradient)
{
    const ls_replica *r = me->replica;
    ls_clip clip = {.factor = 1};
    if (r->norm.clip)
        LS_TRY(ls_queue_read(r->queue, &clip, r->norm.clip, sizeof clip));
    for (size_t i = 0; i < r->elements; i++)
        gradient[i] *= (float)clip.factor;
    return LS_OK;
}

static ls_status compute(replay *me, int worker)
{
    copy *c = &me->copies[worker];
    ls_replica *r = me->replica;
    int batch_kind;
    const ls_step_state state = {.step = c->step,
                                 .position = position_of(&me->job, c->step, &batch_kind)};
    const size_t bytes = r->elements * sizeof(float);
    LS_TRY(ls_queue_write(r->queue, r->state, &state, sizeof state));
    LS_TRY(ls_queue_write(r->queue, r->parameters, c->parameters, bytes));
    LS_TRY(ls_op_list_enqueue(&r->loss.decay_loss, r->queue));
    LS_TRY(ls_slice_enqueue(me->slices[batch_kind][worker]));
    LS_TRY(ls_op_list_enqueue(&me->clip, r->queue));
    c->computed = true;
    LS_TRY(ls_queue_read(r->queue, &c->loss, r->loss.parts, sizeof c->loss));
    const double *decay = r->loss.decay;
    LS_TRY(!decay ? LS_OK : ls_queue_read(r->queue, &c->decay, decay, sizeof c->decay));
    LS_TRY(ls_queue_read(r->queue, c->gradient, r->gradients, bytes));
    return scale(me, c->gradient);
}

/* A worker's gradient of the shard; if `add`, added to `shard`. */
static ls_status take_gradient(replay *me, int server, int worker, bool add)
{
    copy *c = &me->copies[worker];
    if (!c->computed)
        LS_TRY(compute(me, worker));
    for (size_t i = 0; i < me->layout.range_count; i++) {
        const ls_ps_range *range = &me->layout.ranges[i];
        const float *from = c->gradient + range->range.first;
        float *to = me->shard + range->at;
        for (size_t k = 0; range->server == server && k < range->range.count; k++)
            to[k] = add ? to[k] + from[k] : from[k];
    }
    return LS_OK;
}

static ls_status apply(replay *me, int server)
{
    ls_replica *r = me->shards[server].replica;
    me->versions[server]++;
    LS_TRY(ls_queue_write(r->queue, r->gradients, me->shard, r->elements * sizeof(float)));
    LS_TRY(ls_op_list_enqueue(&me->apply[server], r->queue));
    return ls_queue_sync(r->queue);
}

static ls_status push(replay *me, int server, int worker)
{
    const known *clocks = &me->clocks[server * me->layout.workers];
    uint64_t slowest = UINT64_MAX;
    for (int w = 0; w < me->layout.workers; w++)
        slowest = clocks[w].steps < slowest ? clocks[w].steps : slowest;
    ls_ps_histogram_note(&me->lead, clocks[worker].steps - slowest);
    ls_ps_histogram_note(&me->staleness, me->versions[server] - clocks[worker].version);
    LS_TRY(take_gradient(me, server, worker, false));
    return apply(me, server);
}

/* *done: the worker has reached that step, and the event is replayed. */
static ls_status take_event(replay *me, int server, const ls_ps_event *event, bool *done)
{
    copy *c = &me->copies[event->worker];
    known *seen = &me->clocks[server * me->layout.workers + (int)event->worker];
    const bool pulls = event->kind == LS_PS_PULL;
    *done = pulls ? c->pulled < me->active : c->pulled == me->active;
    if (!*done)
        return LS_OK;
    if (pulls) {
        c->pulled++;
        seen->version = me->versions[server];
        return ls_replica_gather(me->shards[server].replica, LS_VALUES, me->all, c->parameters);
    }
    if (event->kind == LS_PS_PUSH)
        LS_TRY(push(me, server, (int)event->worker));
    seen->steps++;
    if (++c->pushed == me->active) {
        c->pulled = c->pushed = 0;
        c->computed = false;
        c->step++;
    }
    return LS_OK;
}

/* Replays all events, and so all steps of all workers. */
static ls_status take_all(replay *me)
{
    ls_status status = LS_OK;
    bool left = true, moved = true;
    while (left && moved && !status) {
        left = moved = false;
        for (int s = 0; s < me->layout.servers; s++) {
            const ls_ps_log *log = &me->logs[s];
            for (bool done = true; done && me->next[s] < log->count && !status;
                 me->next[s] += done) {
                status = take_event(me, s, &log->events[me->next[s]], &done);
                moved |= done;
            }
            left |= me->next[s] < log->count;
        }
    }
    for (int w = 0; w < me->layout.workers; w++)
        left |= me->copies[w].step != me->steps;
    return !status && left ? not_so("steps are not whole") : status;
}

/* ---- Backup workers -------------------------------------------------------------------------- */

/* The next update of a shard, for the step of `copies` and a batch with `batch` samples. */
static ls_status take_update(replay *me, int server, int64_t batch)
{
    const int workers = me->layout.workers;
    const int needed = ls_ps_backup_needed(&me->job, workers, batch);
    const ls_ps_log *log = &me->logs[server];
    int64_t samples = 0;
    for (int w = 0; w < workers; w++)
        me->copies[w].pushed = 0;
    for (int taken = 0; taken < needed; ++me->next[server]) {
        if (me->next[server] == log->count)
            return not_so("steps are not whole");
        const ls_ps_event *event = &log->events[me->next[server]];
        const int64_t w = event->worker, rows = ls_slice_share(batch, w, workers);
        me->copies[w].pulled += event->kind == LS_PS_PULL;
        if (event->kind != LS_PS_PUSH)
            continue;
        if (!rows || me->copies[w].pushed++)
            return not_so("of no samples, or twice in one sum");
        LS_TRY(take_gradient(me, server, (int)w, taken++ > 0));
        samples += rows;
        ls_ps_histogram_note(&me->lead, 0);
        ls_ps_histogram_note(&me->staleness, 0);
    }
    const float factor = (float)((double)batch / (double)samples);
    for (size_t i = 0; i < me->shards[server].replica->elements; i++)
        me->shard[i] *= factor;
    return apply(me, server);
}

/* Copies the current shards to the workers; no gradient is computed yet. */
static ls_status begin_step(replay *me, uint64_t step)
{
    for (int w = 0; w < me->layout.workers; w++) {
        copy *c = &me->copies[w];
        c->step = step;
        c->pulled = 0;
        c->computed = false;
        for (int s = 0; s < me->layout.servers; s++)
            LS_TRY(ls_replica_gather(me->shards[s].replica, LS_VALUES, me->all, c->parameters));
    }
    return LS_OK;
}

/* Of the workers that had every shard before its update, scaled to the whole batch. */
static ls_status take_loss(replay *me, bool first, int64_t batch)
{
    const int workers = me->layout.workers;
    double sum = 0, samples = 0, decay = 0;
    for (int w = 0; w < workers; w++) {
        const copy *c = &me->copies[w];
        const int64_t rows = c->pulled < me->active ? 0 : ls_slice_share(batch, w, workers);
        LS_TRY(!rows || c->computed ? LS_OK : compute(me, w));
        samples += (double)rows;
        sum += rows ? c->loss : 0;
        decay = rows ? c->decay : decay;
    }
    me->losses[1] = sum * (double)batch / samples + decay;
    me->losses[0] = first ? me->losses[1] : me->losses[0];
    return LS_OK;
}

/* Replays all updates; gradients after the last one were never applied. */
static ls_status take_updates(replay *me)
{
    for (uint64_t step = 0; step < me->steps; step++) {
        const int64_t batch =
            ls_replicated_batch(&me->job, ls_job_is_tail(&me->job, step) ? LS_TAIL : LS_FULL);
        LS_TRY(begin_step(me, step));
        for (int s = 0; s < me->layout.servers; s++)
            if (me->layout.elements[s])
                LS_TRY(take_update(me, s, batch));
        LS_TRY(take_loss(me, !step, batch));
    }
    for (int s = 0; s < me->layout.servers; s++)
        for (; me->next[s] < me->logs[s].count; me->next[s]++)
            if (me->logs[s].events[me->next[s]].kind == LS_PS_PUSH)
                return not_so("more steps than were trained");
    return LS_OK;
}

/* ---- Judging --------------------------------------------------------------------------------- */

static ls_status compare_bits(replay *me)
{
    const ls_variables *variables = &me->plan.model->graph->variables;
    float *values = me->copies[0].gradient, *again = me->copies[0].parameters;
    LS_TRY(ls_variables_load(variables, me->request->save, values));
    for (int s = 0; s < me->layout.servers; s++)
        LS_TRY(ls_replica_gather(me->shards[s].replica, LS_VALUES, me->all, again));
    const ls_difference d = ls_variables_compare(variables, values, again);
    const ls_variable *v = d.same_bits ? NULL : ls_variables_holding(variables, d.first);
    return !v ? LS_OK
              : ls_fail(LS_CODE_CHECK, "replay", v->name, "element %zu is %.9g, in sequence %.9g",
                        d.first - v->offset, (double)values[d.first], (double)again[d.first]);
}

static ls_status compare_histogram(const json_t *row, const char *name, const ls_ps_histogram *h)
{
    const json_t *bins = json_object_get(json_object_get(row, name), "histogram");
    bool same = json_array_size(bins) == (h->max < LS_PS_BINS ? h->max + 1 : LS_PS_BINS);
    for (size_t i = 0; i < json_array_size(bins) && same; i++)
        same = (uint64_t)json_integer_value(json_array_get(bins, i)) == h->bins[i];
    return same ? LS_OK : ls_fail(LS_CODE_CHECK, "replay", name, "the row's histogram is another");
}

static ls_status compare_row(const replay *me)
{
    json_t *row = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL);
    ls_status status = compare_histogram(row, "lead", &me->lead);
    status = status ? status : compare_histogram(row, "staleness", &me->staleness);
    for (int i = 0; i < 2 && me->job.ps.backups && !status; i++) {
        const char *name = i ? "loss_last" : "loss_first";
        const json_t *its = json_object_get(json_object_get(row, "train"), name);
        if (json_number_value(its) != me->losses[i])
            status = ls_fail(LS_CODE_CHECK, "replay", name, "in sequence %.17g", me->losses[i]);
    }
    json_decref(row);
    return status;
}

static ls_status judge(replay *me)
{
    LS_TRY(open_replay(me));
    LS_TRY(read_record(me));
    LS_TRY(me->job.ps.backups ? take_updates(me) : take_all(me));
    LS_TRY(compare_bits(me));
    return compare_row(me);
}

int main(int argc, char **argv)
{
    const ls_processes alone = ls_processes_alone();
    ls_request *request = NULL;
    replay me = {0};
    ls_status status = argc < 2 ? ls_fail(LS_CODE_USAGE, "replay", NULL, "run OPTIONS <ROW")
                                : ls_request_parse(argc - 1, argv + 1, &alone, stderr, &request);
    if (!status) {
        me.request = request;
        request->processes = &alone;
        status = judge(&me);
        close_replay(&me);
    }
    ls_request_free(request);
    const int code = (int)ls_status_code(status);
    if (status)
        fprintf(stderr, "%s\n", ls_status_text(status));
    ls_status_free(status);
    return code;
}
