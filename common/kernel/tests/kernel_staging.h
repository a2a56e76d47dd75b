/* SPDX-License-Identifier: MIT */
/*
 * A table on host memory that has its operations done by another device: arguments are copied
 * there, the operation runs, results are copied back. So the tests of the kernel tables, which work
 * on host memory, run on a GPU.
 *
 * Around all that is copied lies a guard, which must be whole afterwards; inputs must be unchanged.
 */
#ifndef LS_COMMON_KERNEL_TESTS_KERNEL_STAGING_H
#define LS_COMMON_KERNEL_TESTS_KERNEL_STAGING_H

#include "common/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

enum { STAGED_FIELDS = 18, STAGED_GUARD = 64, STAGED_GUARD_BYTE = 0xA5 };

typedef struct staging_kernels {
    ls_kernels base;
    ls_kernel_table table; /* without what the inner one lacks */
    ls_kernels *inner;
    ls_queue *queue; /* of the inner table's device */
} staging_kernels;

/* Memory of the test, and where it lies on the device: a guard, the bytes, aligned as on the host,
 * a guard. */
typedef struct staged_field {
    void *host;
    char *device;
    size_t offset, bytes;
    bool written;
} staged_field;

typedef struct staged_op {
    ls_op op;
    ls_op *inner;
    staging_kernels *kernels;
    int count;
    staged_field fields[STAGED_FIELDS];
} staged_op;

static inline staging_kernels *staging_of(ls_kernels *kernels)
{
    return (staging_kernels *)kernels;
}

static inline size_t whole_of(const staged_field *f)
{
    return f->offset + f->bytes + STAGED_GUARD;
}

static inline ls_status put_field(const staged_op *s, const staged_field *f)
{
    char *all = malloc(whole_of(f));
    memset(all, STAGED_GUARD_BYTE, whole_of(f));
    memcpy(all + f->offset, f->host, f->bytes);
    ls_status status = ls_queue_write(s->kernels->queue, f->device, all, whole_of(f));
    free(all);
    return status;
}

static inline ls_status check_field(const staged_field *f, const char *op, const char *all)
{
    for (size_t i = 0; i < whole_of(f); i++)
        if ((i < f->offset || i >= f->offset + f->bytes) &&
            (unsigned char)all[i] != STAGED_GUARD_BYTE)
            return ls_fail(LS_CODE_CHECK, op, "staging", "it wrote outside its memory");
    if (!f->written && memcmp(all + f->offset, f->host, f->bytes) != 0)
        return ls_fail(LS_CODE_CHECK, op, "staging", "it wrote into an input");
    return LS_OK;
}

static inline ls_status take_field(const staged_op *s, const staged_field *f)
{
    char *all = malloc(whole_of(f));
    ls_status status = ls_queue_read(s->kernels->queue, all, f->device, whole_of(f));
    if (!status)
        status = check_field(f, s->op.name, all);
    if (!status && f->written)
        memcpy(f->host, all + f->offset, f->bytes);
    free(all);
    return status;
}

static inline ls_status staged_run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    staged_op *s = (staged_op *)op;
    for (int i = 0; i < s->count; i++)
        LS_TRY(put_field(s, &s->fields[i]));
    LS_TRY(ls_queue_put(s->kernels->queue, s->inner));
    LS_TRY(ls_queue_sync(s->kernels->queue));
    for (int i = 0; i < s->count; i++)
        LS_TRY(take_field(s, &s->fields[i]));
    return LS_OK;
}

static inline void staged_destroy(ls_op *op)
{
    staged_op *s = (staged_op *)op;
    ls_op_free(s->inner);
    for (int i = 0; i < s->count; i++)
        ls_device_release(s->kernels->inner->device, s->fields[i].device);
    free(s);
}

static inline staged_op *staged_open(ls_kernels *kernels)
{
    staged_op *s = calloc(1, sizeof *s);
    s->op.run = staged_run;
    s->op.destroy = staged_destroy;
    s->kernels = staging_of(kernels);
    return s;
}

/* `place` is an argument that points to `bytes` bytes, or NULL; it becomes the device's. The same
 * memory in two arguments is the same memory there, too. */
static inline void stage(staged_op *s, void *place, size_t bytes, bool written)
{
    void *host;
    void *device;
    memcpy(&host, place, sizeof host);
    if (!host)
        return;
    int i = 0;
    while (i < s->count && s->fields[i].host != host)
        i++;
    if (i == s->count) {
        const staged_field field = {host, NULL, STAGED_GUARD + (uintptr_t)host % STAGED_GUARD,
                                    bytes, written};
        ls_status status = ls_device_allocate(s->kernels->inner->device, LS_MEMORY_WORKSPACE,
                                              whole_of(&field), &device);
        if (status || i == STAGED_FIELDS)
            abort();
        s->fields[s->count] = field;
        s->fields[s->count++].device = device;
    }
    s->fields[i].written |= written;
    device = s->fields[i].device + s->fields[i].offset;
    memcpy(place, &device, sizeof device);
}

static inline void stage_in(staged_op *s, void *place, size_t bytes)
{
    stage(s, place, bytes, false);
}

static inline void stage_out(staged_op *s, void *place, size_t bytes)
{
    stage(s, place, bytes, true);
}

static inline ls_status staged_close(staged_op *s, ls_status status, ls_op **out)
{
    if (status) {
        staged_destroy(&s->op);
        return status;
    }
    s->op.name = s->inner->name;
    s->op.flops = s->inner->flops;
    s->op.bytes = s->inner->bytes;
    *out = &s->op;
    return LS_OK;
}

static inline size_t reals(int64_t count)
{
    return (size_t)count * sizeof(float);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static inline ls_status staged_gemm(ls_kernels *k, const ls_gemm_args *args, ls_op **out)
{
    ls_gemm_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.a, reals(a.m * a.k));
    stage_in(s, &a.b, reals(a.k * a.n));
    stage_out(s, &a.c, reals(a.m * a.n));
    return staged_close(s, inner->table->gemm(inner, &a, &s->inner), out);
}

static inline ls_status staged_dense_forward(ls_kernels *k, const ls_dense_forward_args *args,
                                             ls_op **out)
{
    ls_dense_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.rows * a.inputs));
    stage_in(s, &a.weight, reals(a.outputs * a.inputs));
    stage_in(s, &a.bias, reals(a.outputs));
    stage_out(s, &a.y, reals(a.rows * a.outputs));
    return staged_close(s, inner->table->dense_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_dense_backward_weights(ls_kernels *k,
                                                      const ls_dense_backward_weights_args *args,
                                                      ls_op **out)
{
    ls_dense_backward_weights_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.rows * a.inputs));
    stage_in(s, &a.dy, reals(a.rows * a.outputs));
    stage_out(s, &a.dweight, reals(a.outputs * a.inputs));
    stage_out(s, &a.dbias, reals(a.outputs));
    return staged_close(s, inner->table->dense_backward_weights(inner, &a, &s->inner), out);
}

static inline ls_status
staged_dense_backward_data(ls_kernels *k, const ls_dense_backward_data_args *args, ls_op **out)
{
    ls_dense_backward_data_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.dy, reals(a.rows * a.outputs));
    stage_in(s, &a.weight, reals(a.outputs * a.inputs));
    stage_in(s, &a.relu_output, reals(a.rows * a.inputs));
    stage_out(s, &a.dx, reals(a.rows * a.inputs));
    return staged_close(s, inner->table->dense_backward_data(inner, &a, &s->inner), out);
}

static inline ls_status staged_dense_backward(ls_kernels *k, const ls_dense_backward_args *args,
                                              ls_op **out)
{
    ls_dense_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const size_t input = reals(a.data.rows * a.data.inputs);
    const size_t weight = reals(a.data.outputs * a.data.inputs);
    stage_in(s, &a.weights.x, input);
    stage_in(s, &a.weights.dy, reals(a.data.rows * a.data.outputs));
    stage_out(s, &a.weights.dweight, weight);
    stage_out(s, &a.weights.dbias, reals(a.data.outputs));
    a.data.dy = a.weights.dy;
    stage_in(s, &a.data.weight, weight);
    stage_in(s, &a.data.relu_output, input);
    stage_out(s, &a.data.dx, input);
    return staged_close(s, inner->table->dense_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_relu_forward(ls_kernels *k, const ls_relu_forward_args *args,
                                            ls_op **out)
{
    ls_relu_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.count));
    stage_out(s, &a.y, reals(a.count));
    return staged_close(s, inner->table->relu_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_relu_backward(ls_kernels *k, const ls_relu_backward_args *args,
                                             ls_op **out)
{
    ls_relu_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.y, reals(a.count));
    stage_in(s, &a.dy, reals(a.count));
    stage_out(s, &a.dx, reals(a.count));
    return staged_close(s, inner->table->relu_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_polynomial(ls_kernels *k, const ls_polynomial_args *args,
                                          ls_op **out)
{
    ls_polynomial_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.rows));
    stage_out(s, &a.y, reals(3 * a.rows));
    return staged_close(s, inner->table->polynomial(inner, &a, &s->inner), out);
}

static inline ls_status
staged_softmax_cross_entropy(ls_kernels *k, const ls_softmax_cross_entropy_args *args, ls_op **out)
{
    ls_softmax_cross_entropy_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.logits, reals(a.rows * a.classes));
    stage_in(s, &a.labels, (size_t)a.rows * sizeof *a.labels);
    stage_out(s, &a.dlogits, reals(a.rows * a.classes));
    stage_out(s, &a.loss, sizeof *a.loss);
    return staged_close(s, inner->table->softmax_cross_entropy(inner, &a, &s->inner), out);
}

static inline ls_status staged_squared_error(ls_kernels *k, const ls_squared_error_args *args,
                                             ls_op **out)
{
    ls_squared_error_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.y, reals(a.rows * a.outputs));
    stage_in(s, &a.target, reals(a.rows * a.outputs));
    stage_out(s, &a.dy, reals(a.rows * a.outputs));
    stage_out(s, &a.loss, sizeof *a.loss);
    return staged_close(s, inner->table->squared_error(inner, &a, &s->inner), out);
}

static inline ls_status staged_count_correct(ls_kernels *k, const ls_count_correct_args *args,
                                             ls_op **out)
{
    ls_count_correct_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.logits, reals(a.rows * a.classes));
    stage_in(s, &a.labels, (size_t)a.rows * sizeof *a.labels);
    stage_in(s, &a.state, sizeof *a.state);
    stage_out(s, &a.correct, sizeof *a.correct);
    return staged_close(s, inner->table->count_correct(inner, &a, &s->inner), out);
}

static inline ls_status staged_batch_indices(ls_kernels *k, const ls_batch_indices_args *args,
                                             ls_op **out)
{
    ls_batch_indices_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.state, sizeof *a.state);
    stage_out(s, &a.indices, (size_t)a.rows * sizeof *a.indices);
    return staged_close(s, inner->table->batch_indices(inner, &a, &s->inner), out);
}

static inline ls_status staged_gather_batch(ls_kernels *k, const ls_gather_batch_args *args,
                                            ls_op **out)
{
    ls_gather_batch_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.indices.state, sizeof *a.indices.state);
    stage_out(s, &a.indices.indices, (size_t)a.indices.rows * sizeof *a.indices.indices);
    for (int i = 0; i < a.count; i++) {
        ls_gather_args *g = &a.gather[i];
        const bool hot = g->type == LS_GATHER_ONE_HOT, bytes = g->type == LS_GATHER_BYTES_TO_UNIT;
        stage_in(s, &g->source,
                 a.indices.order.samples * (size_t)g->width * (hot || bytes ? 1 : 4));
        g->indices = a.indices.indices;
        stage_out(s, &g->out, reals(g->rows * g->width * (hot ? 256 : 1)));
    }
    return staged_close(s, inner->table->gather_batch(inner, &a, &s->inner), out);
}

/* As many samples as the indices name. */
static inline ls_status staged_gather(ls_kernels *k, const ls_gather_args *args, ls_op **out)
{
    ls_gather_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    size_t samples = 0;
    for (int64_t i = 0; i < a.rows; i++)
        samples = a.indices[i] >= samples ? (size_t)a.indices[i] + 1 : samples;
    bool one_hot = a.type == LS_GATHER_ONE_HOT,
         bytes = one_hot || a.type == LS_GATHER_BYTES_TO_UNIT;
    stage_in(s, &a.source, samples * (size_t)a.width * (bytes ? 1 : 4));
    stage_in(s, &a.indices, (size_t)a.rows * sizeof *a.indices);
    stage_out(s, &a.out, reals(a.rows * a.width * (one_hot ? 256 : 1)));
    return staged_close(s, inner->table->gather(inner, &a, &s->inner), out);
}

static inline bool decays(const ls_optimizer_args *a)
{
    for (int64_t r = 0; r < a->range_count; r++)
        if (a->ranges[r].decay != 0)
            return true;
    return false;
}

static inline ls_status staged_optimizer(ls_kernels *k, const ls_optimizer_args *args, ls_op **out)
{
    ls_optimizer_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_out(s, &a.weight, reals(a.count));
    stage(s, &a.gradient, reals(a.count), decays(&a));
    stage_out(s, &a.slot[0], reals(a.count));
    stage_out(s, &a.slot[1], reals(a.count));
    stage_in(s, &a.state, sizeof *a.state);
    return staged_close(s, inner->table->optimizer(inner, &a, &s->inner), out);
}

static inline ls_status staged_add(ls_kernels *k, const ls_add_args *args, ls_op **out)
{
    ls_add_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.a, reals(a.count));
    stage_in(s, &a.b, reals(a.count));
    stage_out(s, &a.y, reals(a.count));
    return staged_close(s, inner->table->add(inner, &a, &s->inner), out);
}

static inline ls_status staged_add_loss(ls_kernels *k, const ls_add_loss_args *args, ls_op **out)
{
    ls_add_loss_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.a, sizeof(double));
    stage_in(s, &a.b, sizeof(double));
    stage_out(s, &a.out, sizeof(double));
    return staged_close(s, inner->table->add_loss(inner, &a, &s->inner), out);
}

static inline ls_status staged_fill(ls_kernels *k, const ls_fill_args *args, ls_op **out)
{
    ls_fill_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_out(s, &a.y, reals(a.count));
    return staged_close(s, inner->table->fill(inner, &a, &s->inner), out);
}

static inline ls_status staged_finish_step(ls_kernels *k, const ls_finish_step_args *args,
                                           ls_op **out)
{
    ls_finish_step_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_out(s, &a.state, sizeof *a.state);
    stage_in(s, &a.loss, (size_t)(1 + a.more) * sizeof *a.loss);
    stage_out(s, &a.records, (size_t)a.capacity * sizeof *a.records);
    stage_out(s, &a.more_losses, (size_t)(a.capacity * a.more) * sizeof *a.more_losses);
    return staged_close(s, inner->table->finish_step(inner, &a, &s->inner), out);
}

static inline ls_status staged_stamp(ls_kernels *k, const ls_stamp_args *args, ls_op **out)
{
    ls_stamp_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_out(s, &a.time_ns, sizeof *a.time_ns);
    return staged_close(s, inner->table->stamp(inner, &a, &s->inner), out);
}

static inline ls_status staged_flip_bit(ls_kernels *k, const ls_flip_bit_args *args, ls_op **out)
{
    ls_flip_bit_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_out(s, &a.data, reals(a.count));
    stage_in(s, &a.state, sizeof *a.state);
    return staged_close(s, inner->table->flip_bit(inner, &a, &s->inner), out);
}

#include "common/kernel/tests/layer_staging.h"
#include "common/kernel/tests/residual_staging.h"

/* ---- The table ------------------------------------------------------------------------------- */

static const ls_kernel_table staging_table = {.name = "staging",
                                              .real_bytes = sizeof(float),
#define STAGING_ENTRY(entry, args) .entry = staged_##entry,
                                              LS_KERNEL_ENTRIES(STAGING_ENTRY)
#undef STAGING_ENTRY
};

/* Kernels on host memory whose operations `inner` does on `queue`; both, and the device of their
 * own that they are on, are closed with it. */
static inline ls_kernels *staging_open(ls_kernels *inner, ls_queue *queue)
{
    staging_kernels *kernels = calloc(1, sizeof *kernels);
    kernels->table = staging_table;
#define STAGING_JOINT(entry, args)                                                                 \
    if (!inner->table->entry)                                                                      \
        kernels->table.entry = NULL;
    LS_KERNEL_JOINT_ENTRIES(STAGING_JOINT)
#undef STAGING_JOINT
    kernels->base.table = &kernels->table;
    kernels->inner = inner;
    kernels->queue = queue;
    return &kernels->base;
}

static inline void staging_close(ls_kernels *base)
{
    staging_kernels *kernels = staging_of(base);
    ls_device *device = kernels->inner->device;
    kernels->inner->table->close(kernels->inner);
    ls_queue_close(kernels->queue);
    ls_device_close(device);
    free(kernels);
}

#endif
