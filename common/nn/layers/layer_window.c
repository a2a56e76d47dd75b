/* SPDX-License-Identifier: MIT */
/* Windows on images; see layer_window.h. SAME as TensorFlow defines it (tf.nn, "Notes on padding").
 */
#include "common/nn/layers/layer_window.h"

#include "common/nn/layers.h"

/* Positions along one axis, and the padding before the first. */
static int64_t positions(int64_t in, int64_t window, const ls_layer_window *like, int64_t *before)
{
    const int64_t stride = like->stride ? like->stride : 1;
    *before = 0;
    if (!like->same)
        return in < window ? 0 : (in - window) / stride + 1;
    const int64_t out = (in + stride - 1) / stride;
    const int64_t padding = (out - 1) * stride + window - in;
    *before = padding > 0 ? padding / 2 : 0;
    return out;
}

ls_status ls_layer_windows(const char *layer, const ls_shape *image, const ls_layer_window *like,
                           ls_window *out)
{
    enum { LONGEST = 1 << 20 };
    if (image->rank != 3)
        return ls_layer_refuse_input(layer, "an image, [height, width, channels]");
    if (like->height < 1 || like->width < 1 || like->stride < 0 || like->height > LONGEST ||
        like->width > LONGEST || like->stride > LONGEST)
        return ls_fail(LS_CODE_USAGE, "graph", layer,
                       "this layer needs a window of 1 to %d pixels in height and in width, and a "
                       "stride of at most %d; correct `window:` or `stride:`",
                       LONGEST, LONGEST);
    const int64_t stride = like->stride ? like->stride : 1;
    ls_window w = {.in_height = image->size[0],
                   .in_width = image->size[1],
                   .height = like->height,
                   .width = like->width,
                   .stride_y = stride,
                   .stride_x = stride};
    w.out_height = positions(w.in_height, w.height, like, &w.top);
    w.out_width = positions(w.in_width, w.width, like, &w.left);
    if (w.out_height < 1 || w.out_width < 1)
        return ls_fail(LS_CODE_USAGE, "graph", layer,
                       "the window of %lld x %lld is larger than the layer's input of %lld x %lld; "
                       "give a smaller window",
                       (long long)w.height, (long long)w.width, (long long)w.in_height,
                       (long long)w.in_width);
    *out = w;
    return LS_OK;
}
