/* SPDX-License-Identifier: MIT */
/*
 * The CUDA table: its opening, and the operations that are one launch of a kernel of our own: the
 * arguments, which are copied, and the function that launches it with them. Not yet run on a GPU.
 */
#include "common/kernel/cuda/cuda_kernels.h"

#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_table.h"
#include "common/kernel/kernel_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch_op {
    ls_op op;
    cuda_launch *launch;
    ls_device *device;
    double *scratch; /* device memory; NULL: none */
    union {
#define ARGUMENTS(entry, args) args entry;
        LS_KERNEL_ENTRIES(ARGUMENTS)
#undef ARGUMENTS
        cuda_softmax_args softmax;
        cuda_indices_args indices;
    } arguments;
} launch_op;

static ls_status run(ls_op *op, ls_queue *queue)
{
    const launch_op *l = (const launch_op *)op;
    const cuda_place at = {ls_queue_native(queue), ls_cuda_queue_fault(queue)};
    return ls_cuda_check(ls_device_describe(l->device)->text, op->name,
                         l->launch(&l->arguments, &at));
}

static void destroy(ls_op *op)
{
    launch_op *l = (launch_op *)op;
    ls_device_release(l->device, l->scratch);
    free(l);
}

/* What to launch, and with what. */
typedef struct launching {
    const char *name;
    cuda_launch *launch;
    const void *arguments;
    size_t bytes;
} launching;

static ls_status make(const ls_kernels *kernels, const launching *what, ls_work work,
                      launch_op **out)
{
    launch_op *l = calloc(1, sizeof *l);
    if (!l)
        return ls_fail_memory(what->name, sizeof *l);
    l->op = (ls_op){.name = what->name,
                    .run = run,
                    .destroy = destroy,
                    .flops = work.flops,
                    .bytes = work.bytes};
    l->launch = what->launch;
    l->device = kernels->device;
    memcpy(&l->arguments, what->arguments, what->bytes);
    *out = l;
    return LS_OK;
}

static ls_status bind(const ls_kernels *kernels, const launching *what, ls_work work, ls_op **out)
{
    launch_op *l = NULL;
    LS_TRY(make(kernels, what, work, &l));
    *out = &l->op;
    return LS_OK;
}

/* ---- Entries ----------------------------------------------------------------------------------
 */

static ls_status relu_forward(ls_kernels *kernels, const ls_relu_forward_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_relu_forward(a, sizeof(float), &work));
    return bind(kernels, &(launching){"relu_forward.cuda", ls_cuda_relu_forward, a, sizeof *a},
                work, out);
}

static ls_status relu_backward(ls_kernels *kernels, const ls_relu_backward_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_relu_backward(a, sizeof(float), &work));
    return bind(kernels, &(launching){"relu_backward.cuda", ls_cuda_relu_backward, a, sizeof *a},
                work, out);
}

static ls_status polynomial(ls_kernels *kernels, const ls_polynomial_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_polynomial(a, sizeof(float), &work));
    return bind(kernels, &(launching){"polynomial.cuda", ls_cuda_polynomial, a, sizeof *a}, work,
                out);
}

static ls_status add(ls_kernels *kernels, const ls_add_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_add(a, sizeof(float), &work));
    return bind(kernels, &(launching){"add.cuda", ls_cuda_add, a, sizeof *a}, work, out);
}

static ls_status fill(ls_kernels *kernels, const ls_fill_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_fill(a, sizeof(float), &work));
    return bind(kernels, &(launching){"fill.cuda", ls_cuda_fill, a, sizeof *a}, work, out);
}

static ls_status optimizer(ls_kernels *kernels, const ls_optimizer_args *a, ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_cuda",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_cuda",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_cuda",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_cuda"};
    ls_work work;
    LS_TRY(ls_check_optimizer(a, sizeof(float), &work));
    return bind(kernels, &(launching){names[a->kind], ls_cuda_optimizer, a, sizeof *a}, work, out);
}

static ls_status batch_indices(ls_kernels *kernels, const ls_batch_indices_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_batch_indices(a, sizeof(float), &work));
    cuda_indices_args bound = {.of = *a, .random = ls_order_stream(&a->order)};
    ls_order_epoch_set(&a->order, 0, &bound.like);
    const launching what = {"batch_indices.cuda", ls_cuda_batch_indices, &bound, sizeof bound};
    return bind(kernels, &what, work, out);
}

static ls_status gather(ls_kernels *kernels, const ls_gather_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_gather(a, sizeof(float), &work));
    return bind(kernels, &(launching){"gather.cuda", ls_cuda_gather, a, sizeof *a}, work, out);
}

static ls_status count_correct(ls_kernels *kernels, const ls_count_correct_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_count_correct(a, sizeof(float), &work));
    return bind(kernels, &(launching){"count_correct.cuda", ls_cuda_count_correct, a, sizeof *a},
                work, out);
}

static ls_status squared_error(ls_kernels *kernels, const ls_squared_error_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_squared_error(a, sizeof(float), &work));
    return bind(kernels, &(launching){"squared_error.cuda", ls_cuda_squared_error, a, sizeof *a},
                work, out);
}

static ls_status take_scratch(launch_op *l, int64_t rows)
{
    void *memory;
    const size_t bytes = (size_t)rows * sizeof(double);
    LS_TRY(ls_device_allocate(l->device, LS_MEMORY_WORKSPACE, bytes, &memory));
    l->scratch = memory;
    l->arguments.softmax.row_loss = memory;
    l->op.workspace = bytes;
    return LS_OK;
}

static ls_status softmax_cross_entropy(ls_kernels *kernels, const ls_softmax_cross_entropy_args *a,
                                       ls_op **out)
{
    ls_work work;
    launch_op *l = NULL;
    LS_TRY(ls_check_softmax_cross_entropy(a, sizeof(float), &work));
    const cuda_softmax_args bound = {.of = *a};
    const launching what = {"softmax_cross_entropy.cuda", ls_cuda_softmax_cross_entropy, &bound,
                            sizeof bound};
    LS_TRY(make(kernels, &what, work, &l));
    ls_status status = a->loss ? take_scratch(l, a->rows) : LS_OK;
    if (status) {
        destroy(&l->op);
        return status;
    }
    *out = &l->op;
    return LS_OK;
}

static ls_status add_loss(ls_kernels *kernels, const ls_add_loss_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_add_loss(a, sizeof(float), &work));
    return bind(kernels, &(launching){"add_loss.cuda", ls_cuda_add_loss, a, sizeof *a}, work, out);
}

static ls_status finish_step(ls_kernels *kernels, const ls_finish_step_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_finish_step(a, sizeof(float), &work));
    return bind(kernels, &(launching){"finish_step.cuda", ls_cuda_finish_step, a, sizeof *a}, work,
                out);
}

static ls_status stamp(ls_kernels *kernels, const ls_stamp_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_stamp(a, sizeof(float), &work));
    return bind(kernels, &(launching){"stamp.cuda", ls_cuda_stamp, a, sizeof *a}, work, out);
}

static ls_status flip_bit(ls_kernels *kernels, const ls_flip_bit_args *a, ls_op **out)
{
    ls_work work;
    LS_TRY(ls_check_flip_bit(a, sizeof(float), &work));
    return bind(kernels, &(launching){"flip_bit.cuda", ls_cuda_flip_bit, a, sizeof *a}, work, out);
}

/* ---- The table --------------------------------------------------------------------------------
 */

static void close_table(ls_kernels *kernels)
{
    if (!kernels)
        return;
    ls_cuda_blas_close((cuda_kernels *)kernels);
    free(kernels);
}

/* What a step launches is loaded now, onto the device. */
static ls_status load_kernels(const ls_device *device)
{
    const char *where = ls_device_describe(device)->text;
    LS_TRY(ls_cuda_use(device));
    LS_TRY(ls_cuda_check(where, "load the kernels", ls_cuda_load_elementwise()));
    LS_TRY(ls_cuda_check(where, "load the kernels", ls_cuda_load_batch()));
    return ls_cuda_check(where, "load the kernels", ls_cuda_load_reduce());
}

static ls_status open_table(ls_device *device, ls_kernels **out)
{
    cuda_kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels)
        return ls_fail_memory("cuda kernels", sizeof *kernels);
    kernels->base = (ls_kernels){.table = &ls_cuda_kernels, .device = device};
    ls_status status = load_kernels(device);
    if (!status)
        status = ls_cuda_blas_open(kernels);
    if (status) {
        close_table(&kernels->base);
        return status;
    }
    *out = &kernels->base;
    return LS_OK;
}

static const char *library(const ls_kernels *kernels)
{
    return ((const cuda_kernels *)kernels)->library;
}

const ls_kernel_table ls_cuda_kernels = {
    .name = "cuda",
    .help = "cuBLASLt products and kernels of our own, float32, on GPUs; not yet run on one",
    .kind = LS_DEVICE_GPU,
    .real_bytes = sizeof(float),
    .open = open_table,
    .close = close_table,
    .library = library,
    .gemm = ls_cuda_gemm,
    .dense_forward = ls_cuda_dense_forward,
    .dense_backward_weights = ls_cuda_dense_backward_weights,
    .dense_backward_data = ls_cuda_dense_backward_data,
    .relu_forward = relu_forward,
    .relu_backward = relu_backward,
    .polynomial = polynomial,
    .softmax_cross_entropy = softmax_cross_entropy,
    .squared_error = squared_error,
    .count_correct = count_correct,
    .batch_indices = batch_indices,
    .gather = gather,
    .optimizer = optimizer,
    .add = add,
    .add_loss = add_loss,
    .fill = fill,
    .finish_step = finish_step,
    .stamp = stamp,
    .flip_bit = flip_bit,
};
