/* SPDX-License-Identifier: MIT */
/*
 * Profiles: models that are only sizes and times, of layers that this program does not have.
 * `--model profile:FILE.yaml` names a file with
 *     name, source   text, optional
 *     batch          samples of a device for which the times hold
 *     element_bytes  bytes of a parameter and of its gradient, 1 to 4; optional: 4. Rows count
 *                    parameters of 4 bytes: half as many if there are 2
 *     layers         in forward order, each {name, params, forward, backward, activations}: number
 *                    of parameters, times with unit, bytes passed to the next layer
 * It becomes a chain of nodes of one variable each, whose operations cannot run. What such an
 * operation counts as FLOPs are its nanoseconds, in proportion to the samples.
 */
#pragma once

#include "common/device/device.h"
#include "common/nn/model.h"

/** Whether the text of --model names a profile. */
bool ls_profile_is(const char *text);

/** Whether this is a layer's operation of a profile. */
bool ls_profile_has(const ls_op *op);

/** The type that has as many bytes as an element of a profile's; float32 of other models. */
ls_memory_type ls_profile_type(const ls_model *model);

/** As ls_model_open_for, of profiles and graphs (graph_file.h), too. LS_CODE_MISSING where a file
 * cannot be read, and LS_CODE_USAGE where it is wrong, name file, line and column. */
ls_status ls_case_model_open(const char *text, const char *data, double dropout, ls_model **out);
