/* SPDX-License-Identifier: MIT */
/* The models, a file each in models/; models.c lists them. */
#pragma once

#include "common/nn/model.h"

extern const ls_model_family ls_model_cnn;
extern const ls_model_family ls_model_cifar10, ls_model_resnet;
extern const ls_model_family ls_model_mlp;
extern const ls_model_family ls_model_poly;
extern const ls_model_family ls_model_twin_lstm;
extern const ls_model_family ls_model_lstm_stack;
extern const ls_model_family ls_model_gpt;
extern const ls_model_family ls_model_graph;

/** Batch statistics of resnet and graphs: over all replicas (model_resnet.c). */
extern const ls_declared_option ls_option_sync_bn;
extern const ls_declared_option ls_option_dropout; /**< gpt, mlp */
extern const ls_declared_option ls_option_lengths; /**< gpt: 1 is ragged */
