/* SPDX-License-Identifier: MIT */
/* What a replica gathers from data sets; see replica.h. */
#include "impl/replica/replica.h"

/* ---- Feeding --------------------------------------------------------------------------------- */

/* LS_ARRAY_IMAGE has a separate operation. */
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
                                        .indices = r->data.indices,
                                        .augment = source->augment,
                                        .seed = r->job->seed,
                                        .offset = first,
                                        .state = source->state,
                                        .out = ls_net_input(net, 0),
                                        .pad = r->job->model->need.border};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "gather_crops", "the data set",
                                "another data set"));
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
        return ls_fail(LS_CODE_USAGE, "kernels", table->name,
                       "these kernels compute with numbers of %zu bytes, but context-parallel can "
                       "divide only inputs of 4-byte numbers; use other kernels",
                       table->real_bytes);
    LS_TRY(ls_kernel_table_need(table, "copy_columns", "the strategy context-parallel",
                                "another strategy"));
    for (int i = 0; i < batch->count; i++) {
        float *out = batch->gather[i].out;
        one.gather[0] = batch->gather[i];
        one.gather[0].out = r->data.sequences;
        LS_TRY(append_gathers(r, &one, ops));
        for (int b = 0; b < 2; b++) {
            const ls_copy_columns_args copy = {.rows = one.indices.rows,
                                               .width = blocks->count[b],
                                               .x_pitch = blocks->whole,
                                               .y_pitch = blocks->count[b],
                                               .x = r->data.sequences + blocks->first[b],
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
                                              .indices = r->data.indices}};
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
                                                       .indices = r->data.indices,
                                                       .out = out};
    }
    if (!batch.count && !images) /* a part of a model without inputs from the data */
        return LS_OK;
    if (r->data.sequences)
        return append_blocks(r, &batch, ops);
    LS_TRY(append_gathers(r, &batch, ops));
    if (images)
        LS_TRY(append_crops(r, source, net, first, ops));
    return ls_net_store_inputs(net, ops);
}

/* Takes the labels away that lie behind a sample's length; of the positions that are here. */
static ls_status append_targets(ls_replica *r, const feed_source *source, ls_net *net,
                                const ls_replica_part *part, ls_op_list *ops)
{
    const ls_graph_blocks *blocks = &r->graph->blocks;
    ls_set_targets_args args = {.order = source->order,
                                .state = source->state,
                                .random = ls_random_stream(0, "lengths"),
                                .whole = r->job->model->need.targets,
                                .first = part->divided,
                                .count = part->divisor,
                                .offset = part->first,
                                .rows = ls_net_rows(net),
                                .width = r->job->model->need.targets,
                                .labels = ls_net_target(net),
                                .scale = r->data.scale};
    for (int b = 0; b < (blocks->whole ? 2 : 1); b++) {
        ls_op *op;
        if (blocks->whole)
            args.begin = blocks->first[b], args.width = blocks->count[b];
        LS_TRY(r->kernels->table->set_targets(r->kernels, &args, &op));
        LS_TRY(ls_op_list_add(ops, op));
        args.labels += args.rows * args.width;
    }
    return LS_OK;
}

ls_status ls_replica_feed(ls_replica *r, ls_net *net, const ls_replica_part *part, ls_op_list *ops)
{
    const feed_source source = {.split = &r->job->data->train,
                                .shared = r->data.train,
                                .order = {.samples = r->job->data->train.samples,
                                          .seed = r->job->seed,
                                          .shuffle = r->job->sampling.shuffle},
                                .state = r->state,
                                .augment = r->job->sampling.augment};
    const size_t before = ops->count;
    const ls_set_first_args position = {r->state, part->first, ls_net_first(net)};
    ls_op *op;
    LS_TRY(append_feed(r, &source, net, part->first, ops));
    if (r->data.scale && ls_net_target(net))
        LS_TRY(append_targets(r, &source, net, part, ops));
    if (position.first) {
        LS_TRY(r->kernels->table->set_first(r->kernels, &position, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    for (size_t i = before; i < ops->count; i++) /* its time counts as gathering */
        ops->items[i]->use = LS_TIME_GATHER;
    return LS_OK;
}

ls_status ls_replica_feed_test(ls_replica *r, ls_net *net, ls_op_list *ops)
{
    const ls_split *test = &r->job->data->test;
    const feed_source source = {.split = test,
                                .shared = r->data.test,
                                .order = {.samples = test->samples},
                                .state = r->test.state};
    return append_feed(r, &source, net, 0, ops);
}
