/* SPDX-License-Identifier: MIT */
/*
 * Seed 1: the sum of two [1000,100] uniform tensors: on one CPU device; on an accelerator, if there
 * is one; split along axis 0 over two devices and concatenated. All results have the same bits.
 */
#include "common/base/random/philox.h"
#include "impl/examples/example.h"
#include "impl/examples/parallel.h"
#include "impl/examples/placed.h"

#include <string.h>

enum { ROWS = 1000, COLUMNS = 100, COUNT = ROWS * COLUMNS };

static float a[COUNT], b[COUNT], whole[COUNT], other[COUNT];

/* Adds on one device, whose name is in TensorFlow's form. */
static ls_status sum_on(const ls_placement *placement, const char *device, float *sum)
{
    ls_placed *program;
    const ls_matrix *terms[2], *total;
    LS_TRY(ls_placed_open(placement, &program));
    ls_status status =
        ls_placed_constant(program, (ls_place){"a", device}, ROWS, COLUMNS, a, &terms[0]);
    if (!status)
        status = ls_placed_constant(program, (ls_place){"b", device}, ROWS, COLUMNS, b, &terms[1]);
    if (!status)
        status = ls_placed_add_n(program, (ls_place){"sum", device}, terms, 2, &total);
    if (!status)
        status = ls_placed_run(program);
    if (!status)
        status = ls_placed_read(program, total, sum);
    ls_placed_close(program);
    return status;
}

/* A part adds its rows. */
static ls_status open_add(ls_part *part)
{
    const ls_add_args args = {.count = part->rows * COLUMNS,
                              .a = part->input[0].data,
                              .b = part->input[1].data,
                              .y = part->output[0].data};
    ls_op *op;
    LS_TRY(part->kernels->table->add(part->kernels, &args, &op));
    return ls_op_list_add(&part->ops, op);
}

static ls_status sum_split(example *e, float *sum)
{
    static const ls_part_function add = {.open = open_add};
    void *memory[3];
    ls_parallel *two;
    for (int i = 0; i < 3; i++)
        LS_TRY(example_take(e, 0, sizeof a, &memory[i]));
    LS_TRY(ls_queue_write(e->queue, memory[0], a, sizeof a));
    LS_TRY(ls_queue_write(e->queue, memory[1], b, sizeof b));
    const size_t row = COLUMNS * sizeof(float);
    const ls_parallel_options options = {.function = &add,
                                         .devices = e->device,
                                         .count = 2,
                                         .queue = e->queue,
                                         .rows = ROWS,
                                         .input_count = 2,
                                         .input = {{memory[0], row}, {memory[1], row}},
                                         .output_count = 1,
                                         .output = {{memory[2], row}}};
    LS_TRY(ls_make_parallel(&options, &two));
    LS_TRY(ls_parallel_enqueue(two));
    LS_TRY(ls_parallel_sync(two));
    ls_parallel_close(two);
    return ls_queue_read(e->queue, sum, memory[2], sizeof a);
}

static ls_status show(example *e)
{
    const ls_placement placement = {.machine = e->machine};
    ls_random_fill(ls_random_stream(1, "a"), 0, COUNT, 0, 1, a);
    ls_random_fill(ls_random_stream(1, "b"), 0, COUNT, 0, 1, b);
    LS_TRY(sum_on(&placement, "/cpu:0", whole));
    for (int i = 0; i < COUNT; i++)
        LS_TRY(example_expect(whole[i] == a[i] + b[i], "the sum on /cpu:0"));
    printf("/cpu:0: %g + %g = %g, and %d more\n", a[0], b[0], whole[0], COUNT - 1);
    LS_TRY(sum_split(e, other));
    LS_TRY(example_expect(!memcmp(whole, other, sizeof whole), "the bits of the split sum"));
    puts("split over cpu:0 and cpu:1, concatenated: the same bits");
    if (!ls_machine_count(e->machine, LS_DEVICE_GPU)) {
        printf("/gpu:0: left out, there is no accelerator here: %s\n",
               ls_machine_describe(e->machine)->gpu);
        return LS_OK;
    }
    LS_TRY(sum_on(&placement, "/gpu:0", other));
    puts("/gpu:0: the same bits");
    return example_expect(!memcmp(whole, other, sizeof whole), "the bits of the sum on /gpu:0");
}

int main(void)
{
    return example_main(2, show);
}
