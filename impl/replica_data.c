/* SPDX-License-Identifier: MIT */
/* What a replica gathers from data sets, for a step and for evaluation; see replica.h. */
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "impl/replica.h"

#include <stdlib.h>

/* ---- Feeding --------------------------------------------------------------------------------- */

/* LS_ARRAY_IMAGE has an operation of its own. */
static const ls_gather_type gather_types[] = {[LS_ARRAY_UINT8] = LS_GATHER_BYTES_TO_UNIT,
                                              [LS_ARRAY_FLOAT32] = LS_GATHER_FLOAT,
                                              [LS_ARRAY_ONE_HOT] = LS_GATHER_ONE_HOT,
                                              [LS_ARRAY_INT32] = LS_GATHER_INT32};

/* What a feed reads: a split, its arrays on the device, the order of samples, the argument
 * block. */
typedef struct feed_source {
    const ls_split *split;
    const void *const *shared;
    ls_sample_order order;
    const ls_step_state *state;
    bool augment;
} feed_source;

/* Gathers images, cropped to the model's size. */
static ls_status append_crops(ls_replica *r, const feed_source *source, const ls_net *net,
                              uint64_t first, ls_op_list *ops)
{
    const ls_array *array = &source->split->input[0];
    const ls_gather_crops_args crops = {.rows = ls_net_rows(net),
                                        .channels = array->width / (array->side * array->side),
                                        .in_side = array->side,
                                        .out_side = r->job->model->need.shape[0][1],
                                        .source = source->shared[0],
                                        .samples = source->split->samples,
                                        .indices = r->indices,
                                        .augment = source->augment,
                                        .seed = r->job->seed,
                                        .offset = first,
                                        .state = source->state,
                                        .out = ls_net_input(net, 0),
                                        .pad = r->job->model->need.border};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "gather_crops", "the data set"));
    LS_TRY(r->kernels->table->gather_crops(r->kernels, &crops, &op));
    return ls_op_list_add(ops, op);
}

/* As one operation, if the table has it. */
static ls_status append_gathers(ls_replica *r, const ls_gather_batch_args *batch, ls_op_list *ops)
{
    const ls_kernel_table *table = r->kernels->table;
    ls_op *op;
    if (table->gather_batch) {
        LS_TRY(table->gather_batch(r->kernels, batch, &op));
        return ls_op_list_add(ops, op);
    }
    LS_TRY(table->batch_indices(r->kernels, &batch->indices, &op));
    LS_TRY(ls_op_list_add(ops, op));
    for (int i = 0; i < batch->count; i++) {
        LS_TRY(table->gather(r->kernels, &batch->gather[i], &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

/* Gathers whole sequences, an input after the other, and takes the positions that are here
 * (graph_context.h) from each; elements of both have 4 bytes. */
static ls_status append_blocks(ls_replica *r, const ls_gather_batch_args *batch, ls_op_list *ops)
{
    const ls_kernel_table *table = r->kernels->table;
    const ls_graph_blocks *blocks = &r->graph->blocks;
    ls_gather_batch_args one = *batch;
    one.count = 1;
    if (table->real_bytes != sizeof(float))
        return ls_fail(
            LS_CODE_USAGE, "table", table->name,
            "has reals of %zu bytes, and context-parallel takes positions of inputs of 4 bytes; "
            "use another table",
            table->real_bytes);
    LS_TRY(ls_kernel_table_need(table, "copy_columns", "the positions of a place"));
    for (int i = 0; i < batch->count; i++) {
        float *out = batch->gather[i].out;
        one.gather[0] = batch->gather[i];
        one.gather[0].out = r->sequences;
        LS_TRY(append_gathers(r, &one, ops));
        for (int b = 0; b < 2; b++) {
            const ls_copy_columns_args copy = {.rows = one.indices.rows,
                                               .width = blocks->count[b],
                                               .x_pitch = blocks->whole,
                                               .y_pitch = blocks->count[b],
                                               .x = r->sequences + blocks->first[b],
                                               .y = out};
            ls_op *op;
            LS_TRY(table->copy_columns(r->kernels, &copy, &op));
            LS_TRY(ls_op_list_add(ops, op));
            out += one.indices.rows * blocks->count[b];
        }
    }
    return LS_OK;
}

static ls_status append_feed(ls_replica *r, const feed_source *source, ls_net *net, uint64_t first,
                             ls_op_list *ops)
{
    ls_gather_batch_args batch = {.indices = {.rows = ls_net_rows(net),
                                              .order = source->order,
                                              .offset = first,
                                              .state = source->state,
                                              .indices = r->indices}};
    const bool images = source->split->input[0].type == LS_ARRAY_IMAGE && ls_net_input(net, 0);
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++) {
        const ls_array *array = ls_replica_array(source->split, i);
        void *out = i < LS_DATA_INPUTS ? ls_net_input(net, i) : ls_net_target(net);
        if (!array->data || !out || array->type == LS_ARRAY_IMAGE) /* append_crops gathers images */
            continue;
        batch.gather[batch.count++] = (ls_gather_args){.rows = ls_net_rows(net),
                                                       .width = array->width,
                                                       .type = gather_types[array->type],
                                                       .source = source->shared[i],
                                                       .samples = source->split->samples,
                                                       .indices = r->indices,
                                                       .out = out};
    }
    if (!batch.count && !images) /* a part of a model without inputs from the data */
        return LS_OK;
    if (r->sequences)
        return append_blocks(r, &batch, ops);
    LS_TRY(append_gathers(r, &batch, ops));
    return images ? append_crops(r, source, net, first, ops) : LS_OK;
}

ls_status ls_replica_feed(ls_replica *r, ls_net *net, uint64_t first, ls_op_list *ops)
{
    const feed_source source = {.split = &r->job->data->train,
                                .shared = r->train,
                                .order = {.samples = r->job->data->train.samples,
                                          .seed = r->job->seed,
                                          .shuffle = r->job->shuffle},
                                .state = r->state,
                                .augment = r->job->augment};
    const size_t before = ops->count;
    LS_TRY(append_feed(r, &source, net, first, ops));
    for (size_t i = before; i < ops->count; i++) /* its time counts as gathering */
        ops->items[i]->use = LS_TIME_GATHER;
    return LS_OK;
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Some outputs of each sample of a batch: all, or those of a block of positions. */
typedef struct test_run {
    size_t at;       /* byte of the outputs at which those of all rows begin */
    int64_t targets; /* of a sample */
} test_run;

enum { TEST_RUNS = 2 };

/* The model's outputs for a batch of the test set. */
struct ls_test_outputs {
    const void *device;          /* real [rows, targets, classes], or a run after the other */
    uint64_t rows, done, digest; /* done: samples so far */
    uint64_t targets;            /* of a sample */
    size_t target_bytes;         /* of one target's outputs */
    test_run runs[TEST_RUNS];
    int run_count;
    unsigned char host[];
};

static void list_runs(const ls_graph_blocks *blocks, struct ls_test_outputs *o)
{
    o->runs[0].targets = (int64_t)o->targets;
    o->run_count = 1;
    if (!blocks->whole)
        return;
    o->run_count = TEST_RUNS;
    for (int b = 0; b < TEST_RUNS; b++)
        o->runs[b].targets = blocks->count[b];
    o->runs[1].at = o->rows * (size_t)blocks->count[0] * o->target_bytes;
}

/* Appends counting the correct predictions of a run. */
static ls_status append_count(ls_replica *r, const ls_net *net, const test_run *run,
                              int64_t classes)
{
    const struct ls_test_outputs *o = r->test_outputs;
    const ls_count_correct_args count = {.rows = (int64_t)o->rows * run->targets,
                                         .classes = classes,
                                         .targets = run->targets,
                                         .logits = (const char *)o->device + run->at,
                                         .labels = (const int32_t *)ls_net_target(net) +
                                                   run->at / o->target_bytes,
                                         .state = r->test_state,
                                         .samples = r->job->data->test.samples,
                                         .correct = r->correct};
    ls_op *op;
    LS_TRY(r->kernels->table->count_correct(r->kernels, &count, &op));
    return ls_op_list_add(&r->test_count, op);
}

static ls_status build_evaluation(ls_replica *r, ls_net *net)
{
    const ls_split *test = &r->job->data->test;
    const feed_source source = {.split = test,
                                .shared = r->test,
                                .order = {.samples = test->samples},
                                .state = r->test_state};
    LS_TRY(append_feed(r, &source, net, 0, &r->test_feed));
    if (!ls_net_target(net)) /* another place has the model's output */
        return LS_OK;
    const ls_graph *graph = r->graph->blocks.whole ? r->graph : r->job->model->graph;
    const ls_node *loss = &graph->nodes[graph->count - 1];
    const int64_t targets = ls_graph_targets(graph);
    const int64_t classes = ls_shape_elements(&loss->shape) / targets;
    const size_t row_bytes = (size_t)(targets * classes) * r->kernels->table->real_bytes;
    LS_TRY(ls_allocate("replica", &r->test_outputs, 1,
                       sizeof *r->test_outputs + (size_t)ls_net_rows(net) * row_bytes));
    struct ls_test_outputs *o = r->test_outputs;
    o->device = ls_net_output(net);
    o->rows = (uint64_t)ls_net_rows(net);
    o->targets = (uint64_t)targets;
    o->target_bytes = (size_t)classes * r->kernels->table->real_bytes;
    list_runs(&graph->blocks, o);
    for (int i = 0; i < o->run_count; i++)
        LS_TRY(append_count(r, net, &o->runs[i], classes));
    return LS_OK;
}

/* Replaces the parameters by their moving averages, if it has all; `back`: restores them.
 * Meanwhile they are in the gradient buffer, which is not read between steps. */
static ls_status exchange_averages(ls_replica *r, bool back)
{
    const size_t bytes = r->owned * r->kernels->table->real_bytes;
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
    const uint64_t none = 0;
    LS_TRY(exchange_averages(r, false));
    if (!r->test_feed.count)
        LS_TRY(build_evaluation(r, part->net));
    if (r->test_outputs)
        r->test_outputs->done = r->test_outputs->digest = 0;
    return ls_queue_write(r->queue, r->correct, &none, sizeof none);
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
    for (int i = 0; i < o->run_count; i++) {
        const test_run *run = &o->runs[i];
        const size_t bytes = rows * (size_t)run->targets * o->target_bytes;
        LS_TRY(ls_queue_read(r->queue, o->host, (const char *)o->device + run->at, bytes));
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
