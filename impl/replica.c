/* SPDX-License-Identifier: MIT */
/* Replica: a device's buffers and the operations of a step; see replica.h. */
#include "impl/replica.h"

#include "common/base/digest.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

static size_t real_bytes(const ls_replica *replica)
{
    return replica->kernels->table->real_bytes;
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* Allocates a buffer and registers it. `out` points to a pointer of some type. */
static ls_status take(ls_replica *r, ls_replica_buffer buffer, void *out)
{
    LS_TRY(ls_grow("replica", &r->buffers, r->buffer_count, sizeof buffer));
    LS_TRY(ls_device_allocate(r->device, buffer.use, buffer.bytes, &buffer.memory));
    memcpy(out, &buffer.memory, sizeof buffer.memory);
    r->buffers[r->buffer_count++] = buffer;
    return LS_OK;
}

ls_status ls_replica_take(ls_replica *r, const char *what, ls_memory_use use, size_t bytes,
                          void *out)
{
    return take(r, (ls_replica_buffer){.what = what, .use = use, .bytes = bytes}, out);
}

/* An array of all elements, element i that of the variables; or of the shares alone. */
static ls_status take_array(ls_replica *r, const char *what, ls_memory_use use, bool shared,
                            void *out)
{
    const ls_replica_buffer array = {.what = what,
                                     .use = use,
                                     .element = shared && r->shares.buckets ? 0 : real_bytes(r),
                                     .bytes = (shared ? r->stated : r->elements) * real_bytes(r),
                                     .carried = use != LS_MEMORY_GRADIENTS};
    return take(r, array, out);
}

/* The memory of windows; without these, `whole`. */
static ls_status take_windows(ls_replica *r, const char *what, const ls_windows *windows,
                              void *whole, void **out)
{
    *out = whole;
    return windows ? ls_replica_take(r, what, LS_MEMORY_COMMUNICATION,
                                     windows->elements * real_bytes(r), out)
                   : LS_OK;
}

static ls_status take_small(ls_replica *r, const char *what, size_t bytes, void *out)
{
    return ls_replica_take(r, what, LS_MEMORY_WORKSPACE, bytes, out);
}

static ls_status take_carried(ls_replica *r, const char *what, size_t bytes, void *out)
{
    LS_TRY(take_small(r, what, bytes, out));
    r->buffers[r->buffer_count - 1].carried = true;
    return LS_OK;
}

static ls_status take_buffers(ls_replica *r, size_t rows)
{
    const size_t records = r->job->records;
    if (r->own_variables)
        LS_TRY(take_array(r, "parameters", LS_MEMORY_PARAMETERS, r->windows, &r->parameters));
    LS_TRY(take_array(r, "gradients", LS_MEMORY_GRADIENTS, r->gradient_windows, &r->gradients));
    LS_TRY(take_windows(r, "window", r->windows, r->parameters, &r->window));
    LS_TRY(
        take_windows(r, "gradient window", r->gradient_windows, r->gradients, &r->gradient_window));
    for (int i = 0; i < r->slots; i++)
        LS_TRY(take_array(r, "optimizer state", LS_MEMORY_OPTIMIZER, true, &r->slot[i]));
    if (r->job->average != 0 && r->updates)
        LS_TRY(take_array(r, "moving averages", LS_MEMORY_OPTIMIZER, true, &r->average));
    LS_TRY(ls_replica_take_clip(r));
    if (r->own_variables)
        LS_TRY(take_carried(r, "argument block", sizeof *r->state, &r->state));
    LS_TRY(take_small(r, "loss", LS_REPLICA_LOSSES * sizeof *r->loss, &r->loss));
    if (r->more > r->sums - 1)
        LS_TRY(take_carried(r, "loss", (2 + r->decay_parts) * sizeof *r->decay, &r->decay));
    if (r->more)
        LS_TRY(
            take_small(r, "records", records * r->more * sizeof *r->more_losses, &r->more_losses));
    LS_TRY(take_small(r, NULL, sizeof *r->mark_ns, &r->mark_ns));
    LS_TRY(take_small(r, "records", records * sizeof *r->records, &r->records));
    LS_TRY(take_small(r, "batch", rows * sizeof *r->indices, &r->indices));
    if (r->graph->blocks.whole)
        LS_TRY(take_small(r, "batch", rows * (size_t)r->graph->blocks.whole * sizeof *r->sequences,
                          &r->sequences));
    LS_TRY(take_small(r, NULL, sizeof *r->test_state, &r->test_state));
    return take_small(r, NULL, sizeof *r->correct, &r->correct);
}

static ls_status share_split(ls_replica *r, const ls_split *split,
                             const void *shared[LS_REPLICA_ARRAYS])
{
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++) {
        const ls_array *array = ls_replica_array(split, i);
        if (array->data)
            LS_TRY(ls_device_share(r->device, array->data, ls_array_bytes(array, split->samples),
                                   &shared[i]));
    }
    return LS_OK;
}

static ls_status open_parts(ls_replica *r, int64_t rows)
{
    LS_TRY(ls_queue_open(r->device, "compute", &r->queue));
    LS_TRY(ls_kernels_open_table(r->job->table, r->device, r->job->math, &r->kernels));
    r->kernels->convolution = r->job->convolution;
    LS_TRY(take_buffers(r, (size_t)rows));
    LS_TRY(share_split(r, &r->job->data->train, r->train));
    LS_TRY(share_split(r, &r->job->data->test, r->test));
    if (r->decay && !r->windows)
        LS_TRY(ls_replica_decay_loss(r, &r->decay_loss));
    return r->kernels->table->stamp(r->kernels, &(ls_stamp_args){.time_ns = r->mark_ns}, &r->mark);
}

static bool decays(const ls_replica *r)
{
    const ls_variables *variables = &r->graph->variables;
    for (size_t i = 0; i < variables->count; i++)
        if (variables->items[i].decay != 0 && variables->items[i].offset < r->owned)
            return true;
    return false;
}

static size_t count_stated(const ls_replica *r)
{
    size_t sum = 0;
    for (size_t b = 0; r->shares.buckets && b < r->shares.buckets->count; b++)
        sum += ls_bucket_share(r->shares.buckets, b, r->shares.share, r->shares.count).count;
    return r->shares.buckets ? sum : r->owned;
}

ls_status ls_replica_open(const ls_replica_options *options, ls_replica **out)
{
    const ls_job *job = options->job;
    ls_replica *replica;
    LS_TRY(ls_allocate("replica", &replica, 1, sizeof *replica));
    replica->job = job;
    replica->device = options->device;
    replica->number = options->number;
    replica->sums = options->sums;
    replica->slots = options->no_optimizer ? 0 : job->optimizer.rule->slots;
    replica->own_variables = !options->variables_of;
    replica->updates = !options->no_optimizer && replica->own_variables;
    if (options->variables_of) {
        replica->parameters = options->variables_of->parameters;
        replica->state = options->variables_of->state;
    }
    replica->part = options->part;
    replica->graph = options->part ? options->part->graph : job->model->graph;
    replica->elements = replica->graph->variables.elements;
    replica->owned = options->part ? options->part->owned : replica->elements;
    replica->shares = options->shares;
    replica->windows = options->windows;
    replica->gradient_windows = options->gradient_windows;
    replica->stated = count_stated(replica);
    replica->more = replica->sums - 1;
    replica->decay_parts =
        options->part && options->part->split ? (size_t)replica->graph->slices.splits + 1 : 1;
    replica->decays = options->decay_loss;
    if (decays(replica) &&
        (replica->decays == LS_DECAY_UPDATES ? replica->updates : replica->decays == LS_DECAY_HERE))
        replica->more += replica->decay_parts;
    ls_status status = open_parts(replica, options->rows);
    if (status) {
        ls_replica_close(replica);
        return status;
    }
    *out = replica;
    return LS_OK;
}

void ls_replica_close(ls_replica *r)
{
    if (!r)
        return;
    ls_queue_close(r->queue);
    ls_op_list_clear(&r->decay_loss);
    ls_op_list_clear(&r->test_feed);
    ls_op_list_clear(&r->test_count);
    free(r->test_outputs);
    ls_op_free(r->mark);
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++) {
        ls_device_unshare(r->device, r->train[i]);
        ls_device_unshare(r->device, r->test[i]);
    }
    for (size_t i = 0; i < r->buffer_count; i++)
        ls_device_release(r->device, r->buffers[i].memory);
    free(r->buffers);
    if (r->kernels)
        r->kernels->table->close(r->kernels);
    free(r);
}

/* ---- The end of a step ----------------------------------------------------------------------- */

ls_status ls_replica_finish(ls_replica *r, int64_t batch, ls_op_list *ops)
{
    const ls_finish_step_args args = {.state = r->state,
                                      .batch = (uint64_t)batch,
                                      .schedule = r->job->schedule,
                                      .loss = r->loss,
                                      .records = r->records,
                                      .capacity = r->job->records,
                                      .more = r->more,
                                      .more_losses = r->more_losses};
    ls_op *op;
    /* Last, since partial sums have used this memory. */
    for (size_t i = 0; i < r->decay_parts && r->decay; i++) {
        const ls_add_loss_args decay = {
            .a = r->decay + (i ? 2 + i : 0), .b = r->decay + 1, .out = r->loss + r->sums + i};
        LS_TRY(r->kernels->table->add_loss(r->kernels, &decay, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    LS_TRY(r->kernels->table->finish_step(r->kernels, &args, &op));
    op->use = LS_TIME_HARNESS;
    LS_TRY(ls_op_list_add(ops, op));
    return r->decay && r->decays == LS_DECAY_UPDATES ? ls_replica_decay_loss(r, ops) : LS_OK;
}

/* ---- Records -------------------------------------------------------------------------------- */

ls_status ls_replica_records(ls_replica *r, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    LS_TRY(ls_queue_read(r->queue, mark_ns, r->mark_ns, sizeof *mark_ns));
    while (count) { /* a range may wrap around the ring's end */
        uint64_t slot = first % r->job->records;
        uint64_t run = r->job->records - slot < count ? r->job->records - slot : count;
        LS_TRY(ls_queue_read(r->queue, out, r->records + slot, run * sizeof *out));
        first += run;
        out += run;
        count -= run;
    }
    return LS_OK;
}

ls_status ls_replica_more_losses(ls_replica *r, uint64_t index, double *out)
{
    return ls_queue_read(r->queue, out, r->more_losses + index % r->job->records * r->more,
                         r->more * sizeof *out);
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* The model's outputs for a batch of the test set, in runs: those of all positions, or of each
 * block of positions; of logits in slices, the loss's parts, each slice a run. */
struct ls_test_outputs {
    const void *device; /* real: the runs, each [rows, targets, classes, or LS_SOFTMAX_PART] */
    const ls_graph_blocks *blocks;
    uint64_t rows, done, digest; /* done: samples so far */
    uint64_t targets;            /* of a sample, in all blocks */
    uint64_t runs;
    size_t target_bytes; /* of one target's outputs */
    unsigned char host[];
};

/* A run: its first byte, and its targets of a sample. */
typedef struct test_run {
    size_t at;
    int64_t targets;
} test_run;

static test_run run_of(const struct ls_test_outputs *o, uint64_t i)
{
    const bool blocks = o->blocks->whole;
    const size_t before = (size_t)i * (size_t)(blocks ? (uint64_t)o->blocks->count[0] : o->targets);
    return (test_run){o->rows * before * o->target_bytes,
                      blocks ? o->blocks->count[i] : (int64_t)o->targets};
}

/* Appends counting the correct predictions of a run; of slices, of all. */
static ls_status append_count(ls_replica *r, const ls_net *net, uint64_t i, int64_t classes)
{
    const struct ls_test_outputs *o = r->test_outputs;
    const ls_kernel_table *table = r->kernels->table;
    const test_run run = run_of(o, i);
    const ls_count_correct_args whole = {.rows = (int64_t)o->rows * run.targets,
                                         .classes = classes,
                                         .targets = run.targets,
                                         .logits = (const char *)o->device + run.at,
                                         .labels = (const int32_t *)ls_net_target(net) +
                                                   run.at / o->target_bytes,
                                         .state = r->test_state,
                                         .samples = r->job->data->test.samples,
                                         .correct = r->correct};
    const ls_count_parts_args parts = {.rows = whole.rows,
                                       .slices = r->graph->slices.splits,
                                       .targets = whole.targets,
                                       .parts = ls_net_loss_parts(net),
                                       .labels = whole.labels,
                                       .state = whole.state,
                                       .samples = whole.samples,
                                       .correct = whole.correct};
    ls_op *op;
    LS_TRY(parts.parts ? table->count_parts(r->kernels, &parts, &op)
                       : table->count_correct(r->kernels, &whole, &op));
    return ls_op_list_add(&r->test_count, op);
}

static ls_status build_evaluation(ls_replica *r, ls_net *net)
{
    LS_TRY(ls_replica_feed_test(r, net, &r->test_feed));
    if (!ls_net_target(net)) /* another place has the model's output */
        return LS_OK;
    const ls_graph *graph = r->graph->blocks.whole ? r->graph : r->job->model->graph;
    const ls_node *loss = &graph->nodes[graph->count - 1];
    const int64_t targets = ls_graph_targets(graph);
    const int64_t classes = ls_shape_elements(&loss->shape) / targets;
    const void *parts = ls_net_loss_parts(net);
    const size_t target_bytes = (size_t)(parts ? LS_SOFTMAX_PART : classes) * real_bytes(r);
    LS_TRY(
        ls_allocate("replica", &r->test_outputs, 1,
                    sizeof *r->test_outputs + (size_t)(ls_net_rows(net) * targets) * target_bytes));
    struct ls_test_outputs *o = r->test_outputs;
    o->device = parts ? parts : ls_net_output(net);
    o->blocks = &r->graph->blocks;
    o->rows = (uint64_t)ls_net_rows(net);
    o->targets = (uint64_t)targets;
    o->runs = parts ? (uint64_t)r->graph->slices.splits : o->blocks->whole ? 2 : 1;
    o->target_bytes = target_bytes;
    for (uint64_t i = 0; i < (parts ? 1 : o->runs); i++)
        LS_TRY(append_count(r, net, i, classes));
    return LS_OK;
}

/* Replaces the parameters by their moving averages, if it has all; `back`: restores them.
 * Meanwhile they are in the gradient buffer, which is not read between steps. */
static ls_status exchange_averages(ls_replica *r, bool back)
{
    const size_t bytes = r->owned * real_bytes(r);
    const void *from = back ? r->gradients : r->average;
    if (!r->average || r->shares.buckets)
        return LS_OK;
    if (!back)
        LS_TRY(ls_queue_copy(r->queue, r->gradients, r->device, r->parameters, r->device, bytes));
    LS_TRY(ls_queue_copy(r->queue, r->parameters, r->device, from, r->device, bytes));
    return ls_queue_sync(r->queue);
}

static ls_status begin(const ls_tested *part)
{
    ls_replica *r = part->replica;
    LS_TRY(exchange_averages(r, false));
    if (!r->test_feed.count)
        LS_TRY(build_evaluation(r, part->net));
    if (r->test_outputs)
        r->test_outputs->done = r->test_outputs->digest = 0;
    return ls_queue_write(r->queue, r->correct, &(uint64_t){0}, sizeof *r->correct);
}

/* Gathers a batch from sample `position` on. */
static ls_status feed(ls_replica *r, uint64_t position)
{
    const ls_step_state state = {.position = position};
    LS_TRY(ls_queue_write(r->queue, r->test_state, &state, sizeof state));
    return ls_op_list_enqueue(&r->test_feed, r->queue);
}

/* Counts a batch's correct predictions, if the net has the model's output. */
static ls_status count_right(ls_replica *r)
{
    struct ls_test_outputs *o = r->test_outputs;
    if (!o)
        return LS_OK;
    const uint64_t left = r->job->data->test.samples - o->done;
    const uint64_t rows = left < o->rows ? left : o->rows;
    LS_TRY(ls_op_list_enqueue(&r->test_count, r->queue));
    for (uint64_t i = 0; i < o->runs; i++) {
        const test_run run = run_of(o, i);
        const size_t bytes = rows * (size_t)run.targets * o->target_bytes;
        LS_TRY(ls_queue_read(r->queue, o->host, (const char *)o->device + run.at, bytes));
        const uint64_t digests[] = {o->digest, ls_hash64(o->host, bytes)};
        o->digest = ls_hash64(digests, sizeof digests);
    }
    o->done += rows;
    return LS_OK;
}

void ls_evaluation_add(const ls_evaluation *part, ls_evaluation *sum)
{
    sum->right += part->right;
    sum->counted += part->counted;
    sum->outputs += part->outputs; /* in any order */
    sum->accuracy = (double)sum->right / (double)sum->counted;
}

static ls_status end(ls_replica *r, ls_evaluation *out)
{
    const struct ls_test_outputs *o = r->test_outputs;
    uint64_t correct;
    LS_TRY(ls_queue_read(r->queue, &correct, r->correct, sizeof correct));
    if (o) {
        const ls_graph_blocks *blocks = &r->graph->blocks;
        const uint64_t counted = o->done * o->targets;
        const uint64_t digests[] = {o->digest, (uint64_t)blocks->first[0]};
        const ls_evaluation mine = {(double)correct / (double)counted, correct, counted,
                                    blocks->whole ? ls_hash64(digests, sizeof digests) : o->digest};
        if (blocks->whole && out->accuracy >= 0)
            ls_evaluation_add(&mine, out);
        else
            *out = mine;
    }
    return exchange_averages(r, true);
}

ls_status ls_replica_evaluate(const ls_tested *parts, int count,
                              ls_status (*predict)(void *context), void *context, uint64_t most,
                              ls_evaluation *out)
{
    const uint64_t samples = parts->replica->job->data->test.samples;
    *out = (ls_evaluation){.accuracy = -1};
    for (int p = 0; p < count; p++)
        LS_TRY(begin(&parts[p]));
    for (uint64_t at = 0; at < samples && at < most; at += (uint64_t)ls_net_rows(parts->net)) {
        for (int p = 0; p < count; p++)
            LS_TRY(feed(parts[p].replica, at));
        LS_TRY(predict ? predict(context) : ls_net_predict(parts->net, parts->replica->queue));
        for (int p = 0; p < count; p++)
            LS_TRY(count_right(parts[p].replica));
    }
    for (int p = 0; p < count; p++)
        LS_TRY(end(parts[p].replica, out));
    return LS_OK;
}
