/* SPDX-License-Identifier: MIT */
/*
 * Deal and collect: what passes between places that have parts of the positions of sequences
 * (graph_context.h). A deal takes the channels of some heads, or the positions of a place, for this
 * place; a collect puts together what all places have dealt. Both copy columns, and backward
 * copies back.
 */
#include "common/nn/divide/graph_context.h"
#include "common/nn/layers.h"

/* A part of a sequence and the whole of it, real memory. */
typedef struct pair {
    void *part, *whole;
    const ls_shape *part_shape, *whole_shape; /* [positions, channels] */
    int place;                                /* whose part it is */
} pair;

static void *at(const ls_layer_site *site, void *memory, int64_t element)
{
    return (char *)memory + (size_t)element * site->kernels->table->real_bytes;
}

static ls_status copy(const ls_layer_site *site, bool to_whole, ls_copy_columns_args to_part,
                      ls_op_list *ops)
{
    ls_copy_columns_args args = to_part;
    if (to_whole) {
        args.x = to_part.y, args.x_pitch = to_part.y_pitch;
        args.y = (void *)to_part.x, args.y_pitch = to_part.x_pitch;
    }
    return ls_layer_put_copy_columns(site, &args, ops);
}

/* The channels of a place's heads, of each range. */
static ls_status copy_heads(const ls_layer_site *site, const pair *p, bool to_whole,
                            ls_op_list *ops)
{
    const ls_layer_exchange *e = &site->node->options.exchange;
    const int64_t part = p->part_shape->size[1], whole = p->whole_shape->size[1];
    const int64_t first = whole / e->ranges / e->heads * (e->heads * p->place / e->places);
    for (int64_t r = 0; r < e->ranges; r++)
        LS_TRY(copy(site, to_whole,
                    (ls_copy_columns_args){
                        .rows = site->rows * p->part_shape->size[0],
                        .width = part / e->ranges,
                        .x_pitch = whole,
                        .y_pitch = part,
                        .x = at(site, p->whole, r * (whole / e->ranges) + first),
                        .y = at(site, p->part, r * (part / e->ranges)),
                    },
                    ops));
    return LS_OK;
}

/* A place's blocks of positions. */
static ls_status copy_positions(const ls_layer_site *site, const pair *p, bool to_whole,
                                ls_op_list *ops)
{
    const int64_t T = p->whole_shape->size[0], width = p->whole_shape->size[1];
    const ls_graph_blocks blocks =
        ls_context_blocks(T, p->place, site->node->options.exchange.places);
    for (int b = 0; b < 2; b++)
        LS_TRY(copy(site, to_whole,
                    (ls_copy_columns_args){
                        .rows = site->rows,
                        .width = blocks.count[b] * width,
                        .x_pitch = T * width,
                        .y_pitch = blocks.count[b] * width,
                        .x = at(site, p->whole, blocks.first[b] * width),
                        .y = at(site, p->part, b ? site->rows * blocks.count[0] * width : 0),
                    },
                    ops));
    return LS_OK;
}

static ls_status copy_part(const ls_layer_site *site, const pair *p, bool to_whole, ls_op_list *ops)
{
    return site->node->options.exchange.heads ? copy_heads(site, p, to_whole, ops)
                                              : copy_positions(site, p, to_whole, ops);
}

/* ---- Deal ------------------------------------------------------------------------------------ */

static ls_status deal(const ls_layer_site *site, bool backward, ls_op_list *ops)
{
    const pair p = {.part = backward ? site->output_gradient : site->output,
                    .whole = backward ? site->input_gradient[0] : site->input[0],
                    .part_shape = &site->node->shape,
                    .whole_shape = &site->input_node[0]->shape,
                    .place = site->node->options.exchange.place};
    return p.whole ? copy_part(site, &p, backward, ops) : LS_OK;
}

static ls_status deal_forward(const ls_layer_site *site, ls_op_list *ops)
{
    return deal(site, false, ops);
}

static ls_status deal_backward(const ls_layer_site *site, ls_op_list *ops)
{
    return deal(site, true, ops);
}

/* ---- Collect --------------------------------------------------------------------------------- */

/* The inputs come from place 0, 1 and so on. */
static ls_status collect(const ls_layer_site *site, bool backward, ls_op_list *ops)
{
    for (int i = 0; i < site->node->input_count; i++) {
        const pair p = {.part = backward ? site->input_gradient[i] : site->input[i],
                        .whole = backward ? site->output_gradient : site->output,
                        .part_shape = &site->input_node[i]->shape,
                        .whole_shape = &site->node->shape,
                        .place = i};
        if (p.part)
            LS_TRY(copy_part(site, &p, !backward, ops));
    }
    return LS_OK;
}

static ls_status collect_forward(const ls_layer_site *site, ls_op_list *ops)
{
    return collect(site, false, ops);
}

static ls_status collect_backward(const ls_layer_site *site, ls_op_list *ops)
{
    return collect(site, true, ops);
}

const ls_layer ls_layer_deal = {
    .name = "deal",
    .help = "a part of its input, for one place",
    .inputs = 1,
    .writes_part = true,
    .forward = deal_forward,
    .backward = deal_backward,
};

const ls_layer ls_layer_collect = {
    .name = "collect",
    .help = "puts the parts of all places together",
    .inputs = 1,
    .more_inputs = LS_NODE_INPUTS - 1,
    .forward = collect_forward,
    .backward = collect_backward,
};
