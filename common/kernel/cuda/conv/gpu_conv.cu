/* SPDX-License-Identifier: MIT */
/*
 * Kernels of convolutions besides the library's products: windows of an image as rows of a matrix,
 * and their gradients added back into the image. A window contains its pixels line by line, with a
 * pixel's channels together, as in the image: neighbouring threads copy contiguous runs, four
 * channels each if aligned to 16 bytes. Padding is zero. Backward, the thread of a pixel's channel
 * adds the windows that cover it, in the order of the taps.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    windows_kernel(ls_conv_shape shape, const float *x, float *windows, int64_t packs)
{
    typedef ls_gpu_pack<float, WIDE> pack;
    const ls_window &w = shape.window;
    const int64_t run = w.width * shape.channels; /* elements of a window's line */
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride()) {
        const int64_t element = i * WIDE, line = ls_gpu_divide(element, run);
        const int64_t at = element - line * run, tap = ls_gpu_divide(at, shape.channels);
        const int64_t position = ls_gpu_divide(line, w.height), ky = line - position * w.height;
        const ls_gpu_position out = ls_gpu_position_of<1>(position, w.out_height, w.out_width, 1);
        const int64_t y = out.y * w.stride_y - w.top + ky, kx = out.x * w.stride_x - w.left + tap;
        pack values = {};
        if (y >= 0 && y < w.in_height && kx >= 0 && kx < w.in_width)
            values = *(
                const pack *)(x + ((out.row * w.in_height + y) * w.in_width + kx) * shape.channels +
                              (at - tap * shape.channels));
        ((pack *)windows)[i] = values;
    }
}

/* The position on an axis whose window has `at` (of the padded image) as tap number `tap`; -1 if
 * there is none. */
__device__ static inline int64_t position_of(int64_t at, int64_t tap, int64_t stride,
                                             int64_t positions)
{
    if (at < tap)
        return -1;
    const int64_t position = ls_gpu_divide(at - tap, stride);
    return position * stride == at - tap && position < positions ? position : -1;
}

template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    windows_back_kernel(ls_conv_shape shape, const float *windows, float *dx, int64_t packs)
{
    typedef ls_gpu_pack<float, WIDE> pack;
    const ls_window &w = shape.window;
    const int64_t taps = w.height * w.width;
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride()) {
        const ls_gpu_position in =
            ls_gpu_position_of<WIDE>(i, w.in_height, w.in_width, shape.channels);
        pack sum = {};
        for (int64_t ky = 0; ky < w.height; ky++) {
            const int64_t y = position_of(in.y + w.top, ky, w.stride_y, w.out_height);
            for (int64_t kx = 0; y >= 0 && kx < w.width; kx++) {
                const int64_t x = position_of(in.x + w.left, kx, w.stride_x, w.out_width);
                if (x < 0)
                    continue;
                const int64_t window = (in.row * w.out_height + y) * w.out_width + x;
                const pack from =
                    *(const pack *)(windows + (window * taps + ky * w.width + kx) * shape.channels +
                                    in.channel);
#pragma unroll
                for (int k = 0; k < WIDE; k++)
                    sum.element[k] += from.element[k];
            }
        }
        ((pack *)dx)[i] = sum;
    }
}

int ls_gpu_windows(void *stream, const ls_conv_shape *shape, const float *x, float *windows)
{
    const ls_window *w = &shape->window;
    const int64_t count =
        shape->rows * w->out_height * w->out_width * w->height * w->width * shape->channels;
    if (ls_gpu_moves_fours(shape->channels, x, windows))
        return ls_gpu_launch_over(stream, count / 4, LS_GPU_THREADS, windows_kernel<4>, *shape, x,
                                  windows, count / 4);
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, windows_kernel<1>, *shape, x, windows,
                              count);
}

int ls_gpu_windows_back(void *stream, const ls_conv_shape *shape, const float *windows, float *dx)
{
    const ls_window *w = &shape->window;
    const int64_t count = shape->rows * w->in_height * w->in_width * shape->channels;
    if (ls_gpu_moves_fours(shape->channels, windows, dx))
        return ls_gpu_launch_over(stream, count / 4, LS_GPU_THREADS, windows_back_kernel<4>, *shape,
                                  windows, dx, count / 4);
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, windows_back_kernel<1>, *shape,
                              windows, dx, count);
}

int ls_gpu_load_conv(void)
{
    return ls_gpu_load(windows_kernel<4>, windows_kernel<1>, windows_back_kernel<4>,
                       windows_back_kernel<1>);
}
