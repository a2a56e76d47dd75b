/* SPDX-License-Identifier: MIT */
/* Checks the arguments of operations, and counts their work; see kernel_check.h. */
#include "common/base/grow.h"
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

ls_status ls_work_touch(ls_work *work, const void *memory, size_t bytes, bool writes)
{
    if (!memory)
        return LS_OK;
    LS_TRY(ls_grow("accesses", &work->accesses, work->access_count, sizeof(ls_access)));
    work->accesses[work->access_count++] = (ls_access){memory, bytes, writes};
    return LS_OK;
}

ls_status ls_work_done(ls_kernels *kernels, ls_work *work, ls_status made, ls_op **out)
{
    const ls_scratch *scratch = &kernels->scratch;
    ls_status status = made;
    for (size_t i = 0; i < scratch->count && !status; i++)
        if (scratch->blocks[i].taken)
            status = ls_work_touch(work, scratch->blocks[i].memory, scratch->blocks[i].taken, true);
    if (!status) {
        (*out)->flops = work->flops;
        (*out)->bytes = work->bytes;
        status = ls_op_touches(*out, work->accesses, work->access_count);
    }
    if (!made && status) {
        ls_op_free(*out);
        *out = NULL; /* callers free what they have */
    }
    free(work->accesses);
    return status;
}

ls_status ls_check_tensors(ls_work *work, size_t count, const ls_checked_tensor *tensors)
{
    for (size_t i = 0; i < count; i++) {
        const ls_checked_tensor *t = &tensors[i];
        size_t elements, bytes;
        if (t->rows < 0 || t->columns < 0)
            return ls_fail(LS_CODE_USAGE, work->op, t->name,
                           "the size of this matrix is %" PRId64 " x %" PRId64
                           "; give sizes of 0 or more",
                           t->rows, t->columns);
        if (!ls_size_multiply((size_t)t->rows, (size_t)t->columns, &elements) ||
            !ls_size_multiply(elements, t->element_bytes, &bytes) || bytes > PTRDIFF_MAX)
            return ls_fail(LS_CODE_USAGE, work->op, t->name,
                           "%" PRId64 " x %" PRId64 " elements are more than memory can hold; "
                           "give smaller sizes",
                           t->rows, t->columns);
        if (!t->data && elements && !(t->what & OPTIONAL))
            return ls_fail(LS_CODE_USAGE, work->op, t->name,
                           "this matrix has %" PRId64 " x %" PRId64
                           " elements, but its memory is NULL; give memory",
                           t->rows, t->columns);
        if (t->data)
            work->bytes += (double)bytes;
        if (!(t->what & APART))
            LS_TRY(ls_work_touch(work, t->data, bytes, t->what & WRITTEN));
    }
    return LS_OK;
}

ls_status ls_check_value(const ls_work *work, const char *name, double value)
{
    if (isfinite(value))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, name, "the value is %g; give a finite number", value);
}

ls_status ls_check_activation(const ls_work *work, ls_activation activation)
{
    if (activation == LS_ACTIVATION_NONE || activation == LS_ACTIVATION_RELU)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "activation",
                   "%d is not an activation; use LS_ACTIVATION_NONE or LS_ACTIVATION_RELU",
                   (int)activation);
}

ls_status ls_check_ranges(ls_work *work, const ls_update_range *ranges, int64_t range_count,
                          int64_t count, bool gaps)
{
    int64_t at = 0;
    if (range_count < 0 || (range_count && !ranges))
        return ls_fail(LS_CODE_USAGE, work->op, "ranges",
                       "the number of ranges, %" PRId64
                       ", is negative, or their array is NULL; give an array and its length",
                       range_count);
    for (int64_t r = 0; r < range_count; r++) {
        const ls_update_range *range = &ranges[r];
        if (range->count < 0 || range->first < at || (!gaps && range->first > at) ||
            range->first > count || range->count > count - range->first)
            return gaps
                       ? ls_fail(LS_CODE_USAGE, work->op, "ranges",
                                 "the range of %" PRId64 " elements that begins at element %" PRId64
                                 " overlaps an earlier range, or ends after the last element; give "
                                 "ranges in order within the %" PRId64 " elements",
                                 range->count, range->first, count)
                       : ls_fail(LS_CODE_USAGE, work->op, "ranges",
                                 "the range of %" PRId64 " elements that begins at element %" PRId64
                                 " overlaps an earlier range, leaves a gap, or ends after the last "
                                 "element; give ranges that cover all %" PRId64
                                 " elements in order",
                                 range->count, range->first, count);
        LS_TRY(ls_check_value(work, "decay", range->decay));
        LS_TRY(ls_check_value(work, "keep", range->keep));
        work->flops += range->decay != 0 ? 2 * (double)range->count : 0;
        at = range->first + range->count;
    }
    if (range_count && !gaps && at != count)
        return ls_fail(LS_CODE_USAGE, work->op, "ranges",
                       "the ranges end at element %" PRId64 " of %" PRId64
                       "; give ranges that cover all elements, in order",
                       at, count);
    work->array = ranges;
    work->array_bytes = (size_t)range_count * sizeof *ranges;
    return LS_OK;
}

ls_status ls_label_fail(const char *op, int64_t row, int32_t label, int64_t classes)
{
    char where[48];
    snprintf(where, sizeof where, "row %" PRId64, row);
    return ls_fail(LS_CODE_MISSING, op, where,
                   "label %" PRId32 " is not one of the %" PRId64
                   " classes; give labels from 0 to %" PRId64,
                   label, classes, classes - 1);
}

ls_status ls_token_fail(const char *op, int64_t row, double value, int64_t tokens)
{
    char where[48];
    snprintf(where, sizeof where, "row %" PRId64, row);
    return ls_fail(LS_CODE_MISSING, op, where,
                   "%g is not a token; give whole numbers from 0 to %" PRId64, value, tokens - 1);
}

ls_status ls_check_gemm(const ls_gemm_args *a, ls_work *work)
{
    work->flops += 2.0 * (double)a->m * (double)a->n * (double)a->k;
    return CHECK_TENSORS(READ(a, a->m, a->k), READ(b, a->k, a->n), WRITE(c, a->m, a->n));
}

ls_status ls_check_dense_forward(const ls_dense_forward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->rows, a->inputs), READ(weight, a->outputs, a->inputs),
                         READ_SOME(bias, a->outputs, 1), WRITE(y, a->rows, a->outputs)));
    work->flops += 2.0 * (double)a->rows * (double)a->inputs * (double)a->outputs;
    return ls_check_activation(work, a->activation);
}

ls_status ls_check_dense_backward_weights(const ls_dense_backward_weights_args *a, ls_work *work)
{
    work->flops += 2.0 * (double)a->rows * (double)a->inputs * (double)a->outputs;
    return CHECK_TENSORS(READ(x, a->rows, a->inputs), READ(dy, a->rows, a->outputs),
                         WRITE(dweight, a->outputs, a->inputs), WRITE_SOME(dbias, a->outputs, 1));
}

ls_status ls_check_dense_backward_data(const ls_dense_backward_data_args *a, ls_work *work)
{
    work->flops += 2.0 * (double)a->rows * (double)a->inputs * (double)a->outputs;
    return CHECK_TENSORS(READ(dy, a->rows, a->outputs), READ(weight, a->outputs, a->inputs),
                         READ_SOME(relu_output, a->rows, a->inputs), WRITE(dx, a->rows, a->inputs));
}

ls_status ls_check_dense_backward(const ls_dense_backward_args *a, ls_work *work)
{
    const ls_dense_backward_weights_args *w = &a->weights;
    LS_TRY(ls_check_dense_backward_weights(w, work));
    LS_TRY(ls_check_dense_backward_data(&a->data, work));
    if (w->rows != a->data.rows || w->inputs != a->data.inputs || w->outputs != a->data.outputs ||
        w->dy != a->data.dy)
        return ls_fail(LS_CODE_USAGE, work->op, "data",
                       "the two gradients (of the data and of the weights) have different dy or "
                       "sizes; give both the same dy and sizes");
    return LS_OK;
}

ls_status ls_check_relu_forward(const ls_relu_forward_args *a, ls_work *work)
{
    work->flops += (double)a->count;
    return CHECK_TENSORS(READ(x, a->count, 1), WRITE(y, a->count, 1));
}

ls_status ls_check_relu_backward(const ls_relu_backward_args *a, ls_work *work)
{
    work->flops += (double)a->count;
    return CHECK_TENSORS(READ(y, a->count, 1), READ(dy, a->count, 1), WRITE(dx, a->count, 1));
}

ls_status ls_check_polynomial(const ls_polynomial_args *a, ls_work *work)
{
    work->flops += (double)a->rows;
    return CHECK_TENSORS(READ(x, a->rows, 1), WRITE(y, a->rows, 3));
}

ls_status ls_check_softmax_cross_entropy(const ls_softmax_cross_entropy_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(logits, a->rows, a->classes), OF_TYPE(labels, a->rows, 1, 0),
                         WRITE_SOME(dlogits, a->rows, a->classes),
                         OF_TYPE(scale_at, 1, 1, OPTIONAL),
                         OF_TYPE(loss, 1, 1, OPTIONAL | WRITTEN)));
    LS_TRY(ls_check_value(work, "scale", a->scale));
    if (a->dlogits && a->dlogits == a->logits)
        return ls_fail(LS_CODE_USAGE, work->op, "dlogits",
                       "dlogits is the same memory as logits; give separate memory for dlogits");
    work->flops += 5.0 * (double)a->rows * (double)a->classes;
    return LS_OK;
}

ls_status ls_check_squared_error(const ls_squared_error_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(y, a->rows, a->outputs), READ(target, a->rows, a->outputs),
                         WRITE_SOME(dy, a->rows, a->outputs),
                         OF_TYPE(loss, 1, 1, OPTIONAL | WRITTEN)));
    work->flops += 4.0 * (double)a->rows * (double)a->outputs;
    return ls_check_value(work, "scale", a->scale);
}

ls_status ls_check_count_correct(const ls_count_correct_args *a, ls_work *work)
{
    if (a->targets < 1)
        return ls_fail(LS_CODE_USAGE, work->op, "targets",
                       "%" PRId64 " targets are given; give 1 or more", a->targets);
    return CHECK_TENSORS(READ(logits, a->rows, a->classes), OF_TYPE(labels, a->rows, 1, 0),
                         OF_TYPE(state, 1, 1, 0), OF_TYPE(correct, 1, 1, WRITTEN));
}

ls_status ls_check_batch_indices(const ls_batch_indices_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(OF_TYPE(indices, a->rows, 1, WRITTEN), OF_TYPE(state, 1, 1, 0)));
    if (a->order.samples > INT32_MAX || (a->rows && !a->order.samples))
        return ls_fail(LS_CODE_USAGE, work->op, "order",
                       "the order has %" PRIu64 " samples; give 1 to %" PRId32, a->order.samples,
                       INT32_MAX);
    return LS_OK;
}

ls_status ls_check_source(ls_work *work, const void *source, uint64_t samples, size_t sample_bytes)
{
    size_t bytes;
    if (!samples || !ls_size_multiply(samples, sample_bytes, &bytes))
        return ls_fail(LS_CODE_USAGE, work->op, "samples",
                       "%" PRIu64 " samples (of %zu bytes each) are too few, or do not fit in "
                       "memory; give the number of samples that the data set has",
                       samples, sample_bytes);
    return ls_work_touch(work, source, bytes, false);
}

ls_status ls_check_gather(const ls_gather_args *a, ls_work *work)
{
    if (a->type < LS_GATHER_BYTES_TO_UNIT || a->type > LS_GATHER_ONE_HOT)
        return ls_fail(LS_CODE_USAGE, work->op, "type",
                       "%d is not a type of gather; give a value of ls_gather_type", (int)a->type);
    bool one_hot = a->type == LS_GATHER_ONE_HOT;
    size_t from = one_hot || a->type == LS_GATHER_BYTES_TO_UNIT ? 1 : 4;
    size_t to = one_hot                      ? 256 * work->real_bytes
                : a->type == LS_GATHER_INT32 ? 4
                                             : work->real_bytes;
    LS_TRY(CHECK_TENSORS(TENSOR(source, a->rows, a->width, from, APART),
                         OF_TYPE(indices, a->rows, 1, 0),
                         TENSOR(out, a->rows, a->width, to, WRITTEN)));
    LS_TRY(ls_check_source(work, a->source, a->samples, (size_t)a->width * from));
    if (a->type == LS_GATHER_BYTES_TO_UNIT)
        work->flops += (double)a->rows * (double)a->width;
    return LS_OK;
}

ls_status ls_check_gather_batch(const ls_gather_batch_args *a, ls_work *work)
{
    LS_TRY(ls_check_batch_indices(&a->indices, work));
    if (a->count < 0 || a->count > LS_GATHERS)
        return ls_fail(LS_CODE_USAGE, work->op, "count", "%d arrays are given; give at most %d",
                       a->count, LS_GATHERS);
    for (int i = 0; i < a->count; i++) {
        LS_TRY(ls_check_gather(&a->gather[i], work));
        if (a->gather[i].rows != a->indices.rows || a->gather[i].indices != a->indices.indices)
            return ls_fail(LS_CODE_USAGE, work->op, "gather",
                           "array %d has another number of rows, or other indices, than the batch; "
                           "give each array the batch's rows and indices",
                           i);
    }
    return LS_OK;
}

/* Whether a range adds weight decay to the gradient. */
static bool decays(const ls_update_range *ranges, int64_t range_count)
{
    bool any = false;
    for (int64_t r = 0; ranges && r < range_count; r++)
        any = any || ranges[r].decay != 0;
    return any;
}

ls_status ls_check_square_sums(const ls_square_sums_args *a, ls_work *work)
{
    const bool any = decays(a->ranges, a->range_count);
    int64_t blocks = 0;
    LS_TRY(ls_check_ranges(work, a->ranges, a->range_count, a->count, false));
    for (int64_t r = 0; r < a->range_count; r++)
        blocks += ls_square_blocks(a->ranges[r].count);
    work->flops += 2 * (double)a->count;
    return CHECK_TENSORS(REAL(gradient, a->count, 1, any ? WRITTEN : 0),
                         REAL(weight, any ? a->count : 0, 1, OPTIONAL),
                         OF_TYPE(sums, blocks, 1, WRITTEN));
}

ls_status ls_check_clip_factor(const ls_clip_factor_args *a, ls_work *work)
{
    work->flops += (double)a->count;
    if (!(a->most > 0))
        return ls_fail(LS_CODE_USAGE, work->op, "most",
                       "the limit of the norm is %g; give a limit above 0", a->most);
    return CHECK_TENSORS(OF_TYPE(sums, a->count, 1, WRITTEN), OF_TYPE(clip, 1, 1, WRITTEN));
}

ls_status ls_check_optimizer(const ls_optimizer_args *a, ls_work *work)
{
    static const int slots_of[] = {[LS_OPTIMIZER_SGD] = 0,
                                   [LS_OPTIMIZER_MOMENTUM] = 1,
                                   [LS_OPTIMIZER_ADAM] = 2,
                                   [LS_OPTIMIZER_ADAMW] = 2,
                                   [LS_OPTIMIZER_RMSPROP] = 1};
    static const double flops_of[] = {[LS_OPTIMIZER_SGD] = 2,
                                      [LS_OPTIMIZER_MOMENTUM] = 4,
                                      [LS_OPTIMIZER_ADAM] = 13,
                                      [LS_OPTIMIZER_ADAMW] = 15,
                                      [LS_OPTIMIZER_RMSPROP] = 9};
    if (a->kind < LS_OPTIMIZER_SGD || a->kind > LS_OPTIMIZER_RMSPROP)
        return ls_fail(LS_CODE_USAGE, work->op, "kind",
                       "%d is not an optimizer; give a value of ls_optimizer_kind", (int)a->kind);
    int slots = slots_of[a->kind];
    const ls_checked_tensor tensors[] = {
        WRITE(weight, a->count, 1),
        REAL(gradient, a->count, 1, decays(a->ranges, a->range_count) ? WRITTEN : 0),
        OF_TYPE(state, 1, 1, 0),
        OF_TYPE(clip, 1, 1, OPTIONAL),
        WRITE(slot[0], a->count, 1),
        WRITE(slot[1], a->count, 1)};
    LS_TRY(ls_check_tensors(work, 4 + (size_t)slots, tensors));
    work->flops += flops_of[a->kind] * (double)a->count;
    /* Weights and slots are read and written, so they count twice. */
    work->bytes += (double)(1 + slots) * (double)a->count * (double)work->real_bytes;
    LS_TRY(ls_check_ranges(work, a->ranges, a->range_count, a->count, false));
    const double values[] = {a->mu, a->beta1, a->beta2, a->rho, a->epsilon, a->decay};
    static const char *const names[] = {"mu", "beta1", "beta2", "rho", "epsilon", "decay"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        LS_TRY(ls_check_value(work, names[i], values[i]));
    return LS_OK;
}

ls_status ls_check_add(const ls_add_args *a, ls_work *work)
{
    work->flops += a->b ? (double)a->count : 0;
    return CHECK_TENSORS(READ(a, a->count, 1), READ_SOME(b, a->count, 1), WRITE(y, a->count, 1));
}

ls_status ls_check_widen(const ls_widen_args *a, ls_work *work)
{
    return CHECK_TENSORS(OF_TYPE(x, a->count, 1, 0), WRITE(y, a->count, 1));
}

ls_status ls_check_narrow(const ls_narrow_args *a, ls_work *work)
{
    return CHECK_TENSORS(READ(x, a->count, 1), OF_TYPE(y, a->count, 1, WRITTEN));
}

ls_status ls_check_bf16_elements(const ls_bf16_elements_args *a, ls_work *work)
{
    static const double flops[] = {
        [LS_BF16_ADD] = 1, [LS_BF16_GELU] = 24, [LS_BF16_GELU_BACKWARD] = 32};
    work->flops += flops[a->function] * (double)a->count;
    return CHECK_TENSORS(OF_TYPE(a, a->count, 1, 0), OF_TYPE(b, a->count, 1, OPTIONAL),
                         OF_TYPE(y, a->count, 1, WRITTEN));
}

ls_status ls_check_bf16_product(const ls_bf16_product_args *a, ls_work *work)
{
    work->flops += 2.0 * (double)a->m * (double)a->n * (double)a->k;
    if (a->transpose_a) {
        if (a->bias || a->relu || a->mask)
            return ls_fail(LS_CODE_USAGE, work->op, "transpose_a",
                           "a product with transpose_a (for a gradient of weights) takes neither "
                           "bias nor ReLU; remove both");
        return CHECK_TENSORS(OF_TYPE(a, a->k, a->m, 0), OF_TYPE(b, a->k, a->n, 0),
                             WRITE(c, a->m, a->n));
    }
    if (a->k < 1)
        return ls_fail(LS_CODE_USAGE, work->op, "k",
                       "each sum would have %" PRId64 " terms; give 1 or more", a->k);
    return CHECK_TENSORS(OF_TYPE(a, a->m, a->k, 0), OF_TYPE(b, a->k, a->n, 0),
                         OF_TYPE(bias, a->n, 1, OPTIONAL), OF_TYPE(mask, a->m, a->n, OPTIONAL),
                         TENSOR(c, a->m, a->n, sizeof *a->a, WRITTEN));
}

ls_status ls_check_bf16_column_sums(const ls_bf16_column_sums_args *a, ls_work *work)
{
    work->flops += (double)a->rows * (double)a->columns;
    return CHECK_TENSORS(OF_TYPE(x, a->rows, a->columns, 0), WRITE(sums, a->columns, 1));
}

ls_status ls_check_add_loss(const ls_add_loss_args *a, ls_work *work)
{
    work->flops += 1;
    return CHECK_TENSORS(OF_TYPE(a, 1, 1, 0), OF_TYPE(b, 1, 1, 0), OF_TYPE(out, 1, 1, WRITTEN));
}

ls_status ls_check_fill(const ls_fill_args *a, ls_work *work)
{
    return CHECK_TENSORS(WRITE(y, a->count, 1));
}

ls_status ls_check_scale(const ls_scale_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(WRITE(y, a->count, 1)));
    work->bytes *= 2; /* read and written */
    LS_TRY(CHECK_TENSORS(OF_TYPE(clip, 1, 1, OPTIONAL)));
    work->flops += (double)a->count;
    return ls_check_value(work, "factor", a->factor);
}

ls_status ls_check_combine(const ls_combine_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->count, 1), READ_SOME(y, a->count, 1), WRITE(out, a->count, 1)));
    work->flops += (double)a->count * (a->y ? 4 : 2);
    LS_TRY(ls_check_value(work, "a", a->a));
    LS_TRY(ls_check_value(work, "b", a->b));
    LS_TRY(ls_check_value(work, "divisor", a->divisor));
    return (float)a->divisor != 0
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, work->op, "divisor",
                         "this operation would divide by 0; let the strategy give another divisor");
}

ls_status ls_check_finish_step(const ls_finish_step_args *a, ls_work *work)
{
    const int64_t capacity = (int64_t)a->capacity, more = (int64_t)a->more;
    if (capacity < 1 || more < 0 || more == INT64_MAX)
        return ls_fail(LS_CODE_USAGE, work->op, "capacity",
                       "%" PRIu64 " records with %" PRIu64
                       " additional losses each are not possible; ask for at least 1 record, and "
                       "for no more than fit in memory",
                       a->capacity, a->more);
    if (more && (!a->loss || !a->more_losses))
        return ls_fail(LS_CODE_USAGE, work->op, "more_losses",
                       "additional losses are to be recorded, but the pointer to the losses or to "
                       "their ring buffer is NULL; give memory for both");
    LS_TRY(CHECK_TENSORS(OF_TYPE(state, 1, 1, WRITTEN), OF_TYPE(records, capacity, 1, WRITTEN),
                         OF_TYPE(loss, 1 + more, 1, OPTIONAL),
                         OF_TYPE(more_losses, capacity, more, OPTIONAL | WRITTEN)));
    /* A run writes one record of the ring buffer. */
    work->bytes = (double)(sizeof *a->state + sizeof *a->records + (a->loss ? sizeof *a->loss : 0));
    LS_TRY(ls_check_value(work, "schedule.initial", a->schedule.initial));
    LS_TRY(ls_check_value(work, "schedule.least", a->schedule.least));
    return ls_check_value(work, "schedule.factor", a->schedule.factor);
}

ls_status ls_check_set_first(const ls_set_first_args *a, ls_work *work)
{
    return CHECK_TENSORS(OF_TYPE(state, 1, 1, 0), OF_TYPE(first, 1, 1, WRITTEN));
}

ls_status ls_check_set_targets(const ls_set_targets_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(OF_TYPE(state, 1, 1, 0), OF_TYPE(labels, a->rows, a->width, WRITTEN),
                         OF_TYPE(scale, 1, 1, WRITTEN)));
    if (a->whole >= 1 && a->begin >= 0 && a->begin + a->width <= a->whole)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "width",
                   "positions %" PRId64 " to %" PRId64 " are not all in the sequence of %" PRId64
                   " positions; give positions of the sequence",
                   a->begin, a->begin + a->width, a->whole);
}

ls_status ls_check_stamp(const ls_stamp_args *a, ls_work *work)
{
    return CHECK_TENSORS(OF_TYPE(time_ns, 1, 1, WRITTEN));
}

ls_status ls_check_flip_bit(const ls_flip_bit_args *a, ls_work *work)
{
    return CHECK_TENSORS(OF_TYPE(data, a->count, 1, WRITTEN), OF_TYPE(state, 1, 1, 0));
}
