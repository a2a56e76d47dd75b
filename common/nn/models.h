/* SPDX-License-Identifier: MIT */
/* The models, one file each; model.c lists them. */
#ifndef LS_COMMON_NN_MODELS_H
#define LS_COMMON_NN_MODELS_H

#include "common/nn/model.h"

extern const ls_model_kind ls_model_cnn;
extern const ls_model_kind ls_model_cifar10, ls_model_resnet;
extern const ls_model_kind ls_model_mlp;
extern const ls_model_kind ls_model_poly;
extern const ls_model_kind ls_model_twin_lstm;
extern const ls_model_kind ls_model_lstm_stack;
#ifdef LOCKSTEP_HOOKS
extern const ls_model_kind ls_model_tied;
#endif

#endif
