/* SPDX-License-Identifier: MIT */
/*
 * The vector loops of one instruction set, LS_VECTOR_ISA: portable, avx2, avx512 or neon. The
 * build compiles this file once for each; the headers below contain the loops.
 */
#include "common/kernel/cpu/conv/vector_conv_few.h"
#include "common/kernel/cpu/conv/vector_conv_max.h"
#include "common/kernel/cpu/conv/vector_winograd.h"
#include "common/kernel/cpu/elements/vector_elementwise.h"
#include "common/kernel/cpu/elements/vector_losses.h"
#include "common/kernel/cpu/images/vector_pools.h"
#include "common/kernel/cpu/images/vector_residual.h"
#include "common/kernel/cpu/product/vector_dense.h"
#include "common/kernel/cpu/product/vector_product.h"
#include "common/kernel/cpu/sequences/vector_sequences.h"
#include "common/kernel/cpu/transformer/vector_transformer.h"

#define LS_JOIN_(a, b)  a##b
#define LS_JOIN(a, b)   LS_JOIN_(a, b)
#define LS_TEXT_(a)     #a
#define LS_TEXT(a)      LS_TEXT_(a)
#define LS_VECTOR_TABLE LS_JOIN(ls_vector_loops_, LS_VECTOR_ISA)

extern const ls_vector_loops LS_VECTOR_TABLE;

const ls_vector_loops LS_VECTOR_TABLE = {
    .isa = LS_TEXT(LS_VECTOR_ISA),
    .fused = LS_FUSED,
    .relu = relu,
    .mask = mask,
    .add = add,
    .widen = widen,
    .narrow = narrow,
    .fill = fill,
    .scale = scale,
    .combine = combine,
    .bias = add_bias,
    .column_sums = column_sums,
    .polynomial = polynomial,
    .dense_forward = dense_forward,
    .dense_backward_weights = dense_backward_weights,
    .dense_backward_data = dense_backward_data,
    .gemm = gemm,
    .product = product,
    .bad_label = bad_label,
    .softmax = softmax,
    .softmax_part = softmax_part,
    .softmax_whole_loss = softmax_whole_loss,
    .softmax_whole = softmax_whole,
    .count_parts = count_parts,
    .squared_error = squared_error,
    .count_correct = count_correct,
    .indices = indices,
    .gather = gather,
    .optimizer = optimizer,
    .pack_filters = pack_filters,
    .conv_max = conv_max,
    .conv_max_backward = conv_max_backward,
    .conv_few_weights = conv_few_weights,
    .winograd_pack = winograd_pack,
    .winograd_weights = winograd_weights,
    .winograd_forward = winograd_forward,
    .pack_recurrent = pack_recurrent,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .logistic = logistic,
    .crop = crop_image,
    .max_pool = max_pool,
    .max_pool_back = max_pool_back,
    .lrn = lrn,
    .lrn_back = lrn_back,
    .transpose = transposed,
    .decay = decay,
    .decay_loss = decay_loss,
    .sum_squares = sum_squares,
    .bn_sums = bn_sums,
    .bn_forward = bn_forward,
    .bn_backward_sums = bn_backward_sums,
    .bn_backward = bn_backward,
    .mean_pool = mean_pool,
    .mean_pool_back = mean_pool_back,
    .bad_token = bad_token,
    .embedding = embedding,
    .embedding_back = embedding_back,
    .layer_norm = layer_norm,
    .layer_norm_back = layer_norm_back,
    .gelu = gelu,
    .gelu_back = gelu_back,
    .dropout = dropout,
    .attention = attention,
    .attention_back = attention_back,
    .moving_average = moving_average,
    .exponential = exponential,
    .logarithm = logarithm,
};
