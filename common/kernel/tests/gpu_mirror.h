/* SPDX-License-Identifier: MIT */
/*
 * Part of test_gpu_kernels.c: the cuda table behind arguments in host memory, so that the tests of
 * the cpu table run on it as they are. An operation's run copies every tensor to the GPU, runs the
 * real one, and copies what it writes back.
 */
#ifndef LS_COMMON_KERNEL_TESTS_GPU_MIRROR_H
#define LS_COMMON_KERNEL_TESTS_GPU_MIRROR_H

#include "common/kernel/tests/kernel_fixture.h"

enum { MIRROR_TENSORS = 8 };

typedef struct mirror_kernels {
    ls_kernels base; /* its device is the GPU */
    ls_queue *queue;
    ls_kernels *gpu;
} mirror_kernels;

typedef struct mirror_tensor {
    void *host, *device;
    size_t bytes;
    bool written;
} mirror_tensor;

typedef struct mirror_op {
    ls_op op;
    mirror_kernels *kernels;
    ls_op *inner;
    mirror_tensor tensors[MIRROR_TENSORS];
    size_t count;
} mirror_op;

static ls_status mirror_run(ls_op *op, ls_queue *queue)
{
    mirror_op *m = (mirror_op *)op;
    ls_queue *gpu = m->kernels->queue;
    (void)queue;
    for (size_t i = 0; i < m->count; i++)
        LS_TRY(ls_queue_write(gpu, m->tensors[i].device, m->tensors[i].host, m->tensors[i].bytes));
    LS_TRY(ls_queue_put(gpu, m->inner));
    LS_TRY(ls_queue_sync(gpu));
    for (size_t i = 0; i < m->count; i++)
        if (m->tensors[i].written)
            LS_TRY(
                ls_queue_read(gpu, m->tensors[i].host, m->tensors[i].device, m->tensors[i].bytes));
    return LS_OK;
}

static void mirror_destroy(ls_op *op)
{
    mirror_op *m = (mirror_op *)op;
    ls_op_free(m->inner);
    for (size_t i = 0; i < m->count; i++)
        ls_device_release(m->kernels->base.device, m->tensors[i].device);
    free(m);
}

static mirror_op *mirror_open(ls_kernels *kernels)
{
    mirror_op *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->kernels = (mirror_kernels *)kernels;
    return m;
}

/* The place on the GPU of host memory; one place where the same memory is given twice. */
static void *mirror_move(mirror_op *m, const void *host, size_t bytes, bool written)
{
    if (!host)
        return NULL;
    for (size_t i = 0; i < m->count; i++) {
        if (m->tensors[i].host != host)
            continue;
        m->tensors[i].written |= written;
        return m->tensors[i].device;
    }
    assert_true(m->count < MIRROR_TENSORS);
    mirror_tensor *t = &m->tensors[m->count++];
    t->host = (void *)(uintptr_t)host;
    t->bytes = bytes;
    t->written = written;
    must(ls_device_allocate(m->kernels->base.device, LS_MEMORY_WORKSPACE, bytes, &t->device));
    return t->device;
}

/* `made` is what the real constructor said, with m->inner. */
static ls_status mirror_done(mirror_op *m, ls_status made, ls_op **out)
{
    if (made) {
        mirror_destroy(&m->op);
        return made;
    }
    m->op = *m->inner;
    m->op.run = mirror_run;
    m->op.destroy = mirror_destroy;
    *out = &m->op;
    return LS_OK;
}

static size_t floats(int64_t rows, int64_t columns)
{
    return (size_t)(rows * columns) * sizeof(float);
}

static ls_status mirror_gemm(ls_kernels *kernels, const ls_gemm_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_gemm_args to = *a;
    to.a = mirror_move(m, a->a, floats(a->m, a->k), false);
    to.b = mirror_move(m, a->b, floats(a->k, a->n), false);
    to.c = mirror_move(m, a->c, floats(a->m, a->n), true);
    return mirror_done(m, m->kernels->gpu->table->gemm(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *a,
                                      ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_dense_forward_args to = *a;
    to.x = mirror_move(m, a->x, floats(a->rows, a->inputs), false);
    to.weight = mirror_move(m, a->weight, floats(a->outputs, a->inputs), false);
    to.bias = mirror_move(m, a->bias, floats(a->outputs, 1), false);
    to.y = mirror_move(m, a->y, floats(a->rows, a->outputs), true);
    return mirror_done(m, m->kernels->gpu->table->dense_forward(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_dense_backward_weights(ls_kernels *kernels,
                                               const ls_dense_backward_weights_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    const ls_kernel_table *t = m->kernels->gpu->table;
    ls_dense_backward_weights_args to = *a;
    to.x = mirror_move(m, a->x, floats(a->rows, a->inputs), false);
    to.dy = mirror_move(m, a->dy, floats(a->rows, a->outputs), false);
    to.dweight = mirror_move(m, a->dweight, floats(a->outputs, a->inputs), true);
    to.dbias = mirror_move(m, a->dbias, floats(a->outputs, 1), true);
    return mirror_done(m, t->dense_backward_weights(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_dense_backward_data(ls_kernels *kernels,
                                            const ls_dense_backward_data_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    const ls_kernel_table *t = m->kernels->gpu->table;
    ls_dense_backward_data_args to = *a;
    to.dy = mirror_move(m, a->dy, floats(a->rows, a->outputs), false);
    to.weight = mirror_move(m, a->weight, floats(a->outputs, a->inputs), false);
    to.relu_output = mirror_move(m, a->relu_output, floats(a->rows, a->inputs), false);
    to.dx = mirror_move(m, a->dx, floats(a->rows, a->inputs), true);
    return mirror_done(m, t->dense_backward_data(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_relu_forward(ls_kernels *kernels, const ls_relu_forward_args *a,
                                     ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_relu_forward_args to = *a;
    to.x = mirror_move(m, a->x, floats(a->count, 1), false);
    to.y = mirror_move(m, a->y, floats(a->count, 1), true);
    return mirror_done(m, m->kernels->gpu->table->relu_forward(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_relu_backward(ls_kernels *kernels, const ls_relu_backward_args *a,
                                      ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_relu_backward_args to = *a;
    to.y = mirror_move(m, a->y, floats(a->count, 1), false);
    to.dy = mirror_move(m, a->dy, floats(a->count, 1), false);
    to.dx = mirror_move(m, a->dx, floats(a->count, 1), true);
    return mirror_done(m, m->kernels->gpu->table->relu_backward(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_polynomial(ls_kernels *kernels, const ls_polynomial_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_polynomial_args to = *a;
    to.x = mirror_move(m, a->x, floats(a->rows, 1), false);
    to.y = mirror_move(m, a->y, floats(a->rows, 3), true);
    return mirror_done(m, m->kernels->gpu->table->polynomial(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_softmax_cross_entropy(ls_kernels *kernels,
                                              const ls_softmax_cross_entropy_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    const ls_kernel_table *t = m->kernels->gpu->table;
    ls_softmax_cross_entropy_args to = *a;
    to.logits = mirror_move(m, a->logits, floats(a->rows, a->classes), false);
    to.labels = mirror_move(m, a->labels, floats(a->rows, 1), false);
    to.dlogits = mirror_move(m, a->dlogits, floats(a->rows, a->classes), true);
    to.loss = mirror_move(m, a->loss, sizeof *a->loss, true);
    return mirror_done(m, t->softmax_cross_entropy(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_squared_error(ls_kernels *kernels, const ls_squared_error_args *a,
                                      ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_squared_error_args to = *a;
    to.y = mirror_move(m, a->y, floats(a->rows, a->outputs), false);
    to.target = mirror_move(m, a->target, floats(a->rows, a->outputs), false);
    to.dy = mirror_move(m, a->dy, floats(a->rows, a->outputs), true);
    to.loss = mirror_move(m, a->loss, sizeof *a->loss, true);
    return mirror_done(m, m->kernels->gpu->table->squared_error(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_count_correct(ls_kernels *kernels, const ls_count_correct_args *a,
                                      ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_count_correct_args to = *a;
    to.logits = mirror_move(m, a->logits, floats(a->rows, a->classes), false);
    to.labels = mirror_move(m, a->labels, floats(a->rows, 1), false);
    to.state = mirror_move(m, a->state, sizeof *a->state, false);
    to.correct = mirror_move(m, a->correct, sizeof *a->correct, true);
    return mirror_done(m, m->kernels->gpu->table->count_correct(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *a,
                                      ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_batch_indices_args to = *a;
    to.state = mirror_move(m, a->state, sizeof *a->state, false);
    to.indices = mirror_move(m, a->indices, floats(a->rows, 1), true);
    return mirror_done(m, m->kernels->gpu->table->batch_indices(m->kernels->gpu, &to, &m->inner),
                       out);
}

/* The set reaches to the largest index. */
static ls_status mirror_gather(ls_kernels *kernels, const ls_gather_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_gather_args to = *a;
    int64_t samples = 0;
    for (int64_t i = 0; i < a->rows; i++)
        samples = (int64_t)a->indices[i] + 1 > samples ? (int64_t)a->indices[i] + 1 : samples;
    const size_t bytes = floats(samples, a->width);
    to.source =
        mirror_move(m, a->source, a->type == LS_GATHER_BYTES_TO_UNIT ? bytes / 4 : bytes, false);
    to.indices = mirror_move(m, a->indices, floats(a->rows, 1), false);
    to.out = mirror_move(m, a->out, floats(a->rows, a->width), true);
    return mirror_done(m, m->kernels->gpu->table->gather(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_optimizer(ls_kernels *kernels, const ls_optimizer_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_optimizer_args to = *a;
    to.weight = mirror_move(m, a->weight, floats(a->count, 1), true);
    to.gradient = mirror_move(m, a->gradient, floats(a->count, 1), false);
    for (int i = 0; i < 2; i++)
        to.slot[i] = mirror_move(m, a->slot[i], floats(a->count, 1), true);
    to.state = mirror_move(m, a->state, sizeof *a->state, false);
    return mirror_done(m, m->kernels->gpu->table->optimizer(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_add(ls_kernels *kernels, const ls_add_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_add_args to = *a;
    to.a = mirror_move(m, a->a, floats(a->count, 1), false);
    to.b = mirror_move(m, a->b, floats(a->count, 1), false);
    to.y = mirror_move(m, a->y, floats(a->count, 1), true);
    return mirror_done(m, m->kernels->gpu->table->add(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_add_loss(ls_kernels *kernels, const ls_add_loss_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_add_loss_args to = *a;
    to.a = mirror_move(m, a->a, sizeof *a->a, false);
    to.b = mirror_move(m, a->b, sizeof *a->b, false);
    to.out = mirror_move(m, a->out, sizeof *a->out, true);
    return mirror_done(m, m->kernels->gpu->table->add_loss(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_fill(ls_kernels *kernels, const ls_fill_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_fill_args to = *a;
    to.y = mirror_move(m, a->y, floats(a->count, 1), true);
    return mirror_done(m, m->kernels->gpu->table->fill(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_finish_step(ls_kernels *kernels, const ls_finish_step_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_finish_step_args to = *a;
    to.state = mirror_move(m, a->state, sizeof *a->state, true);
    to.loss = mirror_move(m, a->loss, (1 + a->more) * sizeof *a->loss, false);
    to.records = mirror_move(m, a->records, a->capacity * sizeof *a->records, true);
    to.more_losses =
        mirror_move(m, a->more_losses, a->capacity * a->more * sizeof *a->more_losses, true);
    return mirror_done(m, m->kernels->gpu->table->finish_step(m->kernels->gpu, &to, &m->inner),
                       out);
}

static ls_status mirror_stamp(ls_kernels *kernels, const ls_stamp_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_stamp_args to = *a;
    to.time_ns = mirror_move(m, a->time_ns, sizeof *a->time_ns, true);
    return mirror_done(m, m->kernels->gpu->table->stamp(m->kernels->gpu, &to, &m->inner), out);
}

static ls_status mirror_flip_bit(ls_kernels *kernels, const ls_flip_bit_args *a, ls_op **out)
{
    mirror_op *m = mirror_open(kernels);
    ls_flip_bit_args to = *a;
    to.data = mirror_move(m, a->data, floats(a->count, 1), true);
    to.state = mirror_move(m, a->state, sizeof *a->state, false);
    return mirror_done(m, m->kernels->gpu->table->flip_bit(m->kernels->gpu, &to, &m->inner), out);
}

static void mirror_close(ls_kernels *kernels)
{
    mirror_kernels *m = (mirror_kernels *)kernels;
    m->gpu->table->close(m->gpu);
    ls_queue_close(m->queue);
    ls_device_close(m->base.device);
    free(m);
}

/* Every entry of the table, also one that is new: without a line of its own it does not compile. */
#define MIRROR_ENTRY(entry, args) .entry = mirror_##entry,
static const ls_kernel_table mirror_table = {.name = "cuda, from host memory",
                                             .kind = LS_DEVICE_GPU,
                                             .real_bytes = sizeof(float),
                                             .close = mirror_close,
                                             LS_KERNEL_ENTRIES(MIRROR_ENTRY)};
#undef MIRROR_ENTRY

/* The mirror of gpu:0, in place of the cpu table. */
static ls_kernels *mirror_of(const ls_machine *machine)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .logical = -1};
    const ls_kernel_table *table = ls_kernel_table_default(LS_DEVICE_GPU);
    mirror_kernels *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->base.table = &mirror_table;
    must(ls_device_open(machine, &name, &policy, &m->base.device));
    must(ls_queue_open(m->base.device, "test", &m->queue));
    must(table->open(m->base.device, &m->gpu));
    return &m->base;
}

#endif
