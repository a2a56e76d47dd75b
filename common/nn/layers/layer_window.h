/* SPDX-License-Identifier: MIT */
/* Where the windows of a convolution or a pool lie. */
#pragma once

#include "common/nn/layer.h"

/**
 * The windows of `layer` on an image [height, width, channels]. LS_CODE_USAGE for another shape, a
 * window without a size, and an image smaller than a window that may not be padded.
 */
ls_status ls_layer_windows(const char *layer, const ls_shape *image, const ls_layer_window *like,
                           ls_window *out);
