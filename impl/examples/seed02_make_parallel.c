/* SPDX-License-Identifier: MIT */
/*
 * Seed 2: make_parallel for two functions: a network with shared variables, and a function of two
 * batches with two results. 10 rows on 3 devices are split into 3, 3 and 4; outputs are bitwise
 * equal to the whole batch's; copies between devices are counted.
 */
#include "common/base/random/philox.h"
#include "common/nn/model.h"
#include "impl/examples/example.h"
#include "impl/examples/parallel.h"

#include <string.h>

enum { ROWS = 10, WIDTH = 20, CLASSES = 4, MOST = ROWS * WIDTH };

/* (a, b) becomes (a + b, max(a, 0)). */
static ls_status open_sum_and_relu(ls_part *part)
{
    const ls_kernel_table *table = part->kernels->table;
    const int64_t count = part->rows * WIDTH;
    const ls_add_args add = {count, part->input[0].data, part->input[1].data, part->output[0].data};
    const ls_relu_forward_args relu = {count, part->input[0].data, part->output[1].data};
    ls_op *op;
    printf("  part %d: %d rows\n", part->number, (int)part->rows);
    LS_TRY(table->add(part->kernels, &add, &op));
    LS_TRY(ls_op_list_add(&part->ops, op));
    LS_TRY(table->relu_forward(part->kernels, &relu, &op));
    return ls_op_list_add(&part->ops, op);
}

/* Runs the function in `count` parts and reads its outputs, one after the other. */
static ls_status run_parts(example *e, ls_parallel_options *options, int count,
                           float outputs[2 * MOST], ls_traffic *sent)
{
    static const float nothing[MOST];
    ls_parallel *parallel;
    options->count = count;
    for (int i = 0; i < options->output_count; i++)
        LS_TRY(ls_queue_write(e->queue, options->output[i].data, nothing,
                              ROWS * options->output[i].row_bytes));
    LS_TRY(ls_make_parallel(options, &parallel));
    LS_TRY(ls_parallel_enqueue(parallel));
    LS_TRY(ls_parallel_sync(parallel));
    *sent = ls_parallel_traffic(parallel);
    ls_parallel_close(parallel);
    for (int i = 0; i < options->output_count; i++)
        LS_TRY(ls_queue_read(e->queue, outputs + i * MOST, options->output[i].data,
                             ROWS * options->output[i].row_bytes));
    return LS_OK;
}

/* Outputs of three parts must equal one part's; `messages` copies must move `bytes` bytes. */
static ls_status compare(example *e, ls_parallel_options *options, uint64_t messages,
                         uint64_t bytes)
{
    static float whole[2 * MOST], split[2 * MOST];
    ls_traffic none, sent;
    LS_TRY(run_parts(e, options, 1, whole, &none));
    LS_TRY(run_parts(e, options, 3, split, &sent));
    printf("  three devices: the bits of one; %d copies of %d bytes\n", (int)sent.messages_sent,
           (int)sent.bytes_sent);
    LS_TRY(example_expect(!memcmp(whole, split, sizeof whole), "the outputs of one part"));
    LS_TRY(example_expect(none.messages_sent == 0, "no copy on one device"));
    return example_expect(sent.messages_sent == messages && sent.bytes_sent == bytes,
                          "the copies of seven rows to two devices, and back");
}

static ls_status show(example *e)
{
    static const ls_part_function sum_and_relu = {.open = open_sum_and_relu};
    static float numbers[2 * MOST], parameters[1000];
    const size_t row = WIDTH * sizeof(float), result = CLASSES * sizeof(float);
    void *a, *b, *sum, *relu, *variables;
    void **const memory[] = {&a, &b, &sum, &relu, &variables};
    const ls_kernel_table *table; /* whose rows do not depend on the number of rows */
    ls_model *model;
    for (int i = 0; i < 5; i++)
        LS_TRY(example_take(e, 0, sizeof parameters, memory[i]));
    ls_random_fill(ls_random_stream(1, "numbers"), 0, 2 * MOST, -1, 1, numbers);
    LS_TRY(ls_queue_write(e->queue, a, numbers, MOST * sizeof *numbers));
    LS_TRY(ls_queue_write(e->queue, b, numbers + MOST, MOST * sizeof *numbers));
    LS_TRY(ls_kernel_table_find("reference", &table));
    ls_parallel_options options = {.function = &sum_and_relu,
                                   .devices = e->device,
                                   .table = table,
                                   .queue = e->queue,
                                   .rows = ROWS,
                                   .input_count = 2,
                                   .input = {{a, row}, {b, row}},
                                   .output_count = 2,
                                   .output = {{sum, row}, {relu, row}}};
    puts("sum and relu:");
    LS_TRY(compare(e, &options, 2 * 4, 7 * 4 * row));
    LS_TRY(ls_model_open("mlp:20-9-4", &model));
    const size_t bytes = model->graph->variables.elements * sizeof(float);
    ls_variables_initialize(&model->graph->variables, 1, parameters);
    LS_TRY(ls_queue_write(e->queue, variables, parameters, bytes));
    options.function = &ls_part_graph;
    options.context = model->graph;
    options.input_count = options.output_count = 1;
    options.output[0].row_bytes = result;
    options.variables = variables;
    options.variable_bytes = bytes;
    printf("%s, one set of variables:\n", model->name);
    LS_TRY(compare(e, &options, 2 * 3, 7 * (row + result) + 2 * bytes));
    ls_model_close(model);
    return LS_OK;
}

int main(void)
{
    return example_main(3, show);
}
