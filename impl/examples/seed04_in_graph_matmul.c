/* SPDX-License-Identifier: MIT */
/*
 * Seed 4: [[1,2,3],[4,5,6],[7,8,9],[10,11,12]] x [[1],[1],[2]] = [[9],[21],[33],[45]] on one
 * device; then in-graph on n devices, with the data on /cpu:0, its rows split over cpu:1 to cpu:n,
 * and the products concatenated on /cpu:0. The result is the same; each device adds the same number
 * of nodes to the program.
 */
#include "impl/examples/example.h"
#include "impl/examples/parallel.h"
#include "impl/examples/placed.h"

#include <string.h>

static const float a[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
static const float b[3][1] = {{1}, {1}, {2}};
static const float product[4][1] = {{9}, {21}, {33}, {45}};

static ls_status single(const ls_placement *placement)
{
    ls_placed *program;
    const ls_matrix *left, *right, *result;
    float got[4][1];
    LS_TRY(ls_placed_open(placement, &program));
    LS_TRY(ls_placed_constant(program, (ls_place){"a", "/cpu:0"}, 4, 3, &a[0][0], &left));
    LS_TRY(ls_placed_constant(program, (ls_place){"b", "/cpu:0"}, 3, 1, &b[0][0], &right));
    LS_TRY(ls_placed_matmul(program, (ls_place){"product", "/cpu:0"}, left, right, &result));
    LS_TRY(ls_placed_run(program));
    LS_TRY(ls_placed_read(program, result, &got[0][0]));
    printf("1 device:   [[%g],[%g],[%g],[%g]], %zu nodes\n", got[0][0], got[1][0], got[2][0],
           got[3][0], ls_placed_describe(program).nodes);
    ls_placed_close(program);
    return example_expect(!memcmp(got, product, sizeof got), "the product on one device");
}

/* A part's rows times the shared b. */
static ls_status open_matmul(ls_part *part)
{
    const ls_gemm_args args = {.m = part->rows,
                               .n = 1,
                               .k = 3,
                               .a = part->input[0].data,
                               .b = part->variables,
                               .c = part->output[0].data};
    ls_op *op;
    LS_TRY(part->kernels->table->gemm(part->kernels, &args, &op));
    return ls_op_list_add(&part->ops, op);
}

/* Runs in `count` parts; returns the program's number of nodes. */
static ls_status in_graph(example *e, ls_parallel_options *options, int count, size_t *nodes)
{
    ls_parallel *parallel;
    ls_program *program;
    float got[4][1] = {{0}};
    options->count = count;
    LS_TRY(ls_queue_write(e->queue, options->output[0].data, got, sizeof got));
    LS_TRY(ls_make_parallel(options, &parallel));
    LS_TRY(ls_program_begin(e->queue));
    LS_TRY(ls_parallel_enqueue(parallel));
    LS_TRY(ls_program_end(e->queue, &program));
    LS_TRY(ls_program_launch(program, 1));
    LS_TRY(ls_parallel_sync(parallel));
    LS_TRY(ls_queue_read(e->queue, got, options->output[0].data, sizeof got));
    const ls_program_info info = ls_program_describe(program);
    *nodes = info.nodes;
    printf("in-graph %d: [[%g],[%g],[%g],[%g]], %zu nodes, built in %.3g us\n", count, got[0][0],
           got[1][0], got[2][0], got[3][0], info.nodes, (double)info.build_ns * 1e-3);
    ls_program_close(program);
    ls_parallel_close(parallel);
    return example_expect(!memcmp(got, product, sizeof got), "the product on several devices");
}

static ls_status show(example *e)
{
    static const ls_part_function matmul = {.open = open_matmul};
    const ls_placement placement = {.machine = e->machine};
    void *rows, *factor, *result;
    size_t nodes[5];
    LS_TRY(single(&placement));
    LS_TRY(example_take(e, 0, sizeof a, &rows));
    LS_TRY(example_take(e, 0, sizeof b, &factor));
    LS_TRY(example_take(e, 0, sizeof product, &result));
    LS_TRY(ls_queue_write(e->queue, rows, a, sizeof a));
    LS_TRY(ls_queue_write(e->queue, factor, b, sizeof b));
    ls_parallel_options options = {.function = &matmul,
                                   .devices = e->device + 1,
                                   .queue = e->queue,
                                   .rows = 4,
                                   .input_count = 1,
                                   .input = {{rows, sizeof a[0]}},
                                   .output_count = 1,
                                   .output = {{result, sizeof product[0]}},
                                   .variables = factor,
                                   .variable_bytes = sizeof b};
    for (int n = 1; n <= 4; n++)
        LS_TRY(in_graph(e, &options, n, &nodes[n]));
    const size_t each = nodes[2] - nodes[1];
    return example_expect(nodes[2] > nodes[1] && nodes[3] == nodes[2] + each &&
                              nodes[4] == nodes[3] + each,
                          "as many nodes for each further device");
}

int main(void)
{
    return example_main(5, show);
}
