/* SPDX-License-Identifier: MIT */
/* Options of GPUs' arithmetic and kernels: the setters that the option table points to. */
#ifndef LS_BENCH_CLI_OPTION_GPU_H
#define LS_BENCH_CLI_OPTION_GPU_H

#include "bench/cli/option.h"

ls_status ls_set_math(const ls_setting *setting);
ls_status ls_set_convolution(const ls_setting *setting);

#endif
