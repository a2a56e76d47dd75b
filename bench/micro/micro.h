/* SPDX-License-Identifier: MIT */
/* Micro: one operation at a time; what the files of `lockstep micro` share. */
#pragma once

#include "bench/cli/option_set.h"
#include "bench/output/format.h"
#include "bench/output/results_db.h"
#include "bench/train/timing.h"
#include "common/base/numbers.h"
#include "common/comm/processes.h"
#include "common/device/link.h"
#include "common/nn/layer.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"

enum { LS_MICRO_ROUNDS = 21, LS_MICRO_SIZES = 32 };

/** What a `micro` command works with. */
typedef struct ls_micro {
    const struct ls_micro_op *op;
    ls_machine *machine;
    ls_device_name *names;         /**< [ranks] */
    const ls_processes *processes; /**< each with as many of the ranks; all run a collective */
    int ranks;                     /**< of this process; 1 but for collectives */
    ls_device *device;             /**< the first rank's */
    const ls_device_info **known;  /**< [ranks] of names' devices, by who opens them */
    ls_bench bench;
    ls_model *model;
    int64_t batch;
    ls_optimizer optimizer;
    const char *data;                 /**< of --data; NULL: the model's */
    const ls_option_given *sizes;     /**< of --sizes, as given */
    const ls_option_given *allreduce; /**< of --allreduce, as given */
    const ls_comm_backend *comm;      /**< of a collective */
    const char *link_text;            /**< of --link; NULL: none */
    ls_link link;
    ls_network *network; /**< between the ranks' devices, opened by a collective; NULL: none */
    double roof;         /**< floating-point operations per second; 0: not asked for */
    ls_writer *writer;
    ls_results *results;          /**< that rows are kept in; NULL: none, or another rank's */
    const char *command;          /**< the command line */
    const char *label;            /**< of --label; NULL: none */
    bool failed;                  /**< a check, so far */
    struct ls_progress *progress; /**< of the parts below; NULL: none is shown */
} ls_micro;

/** One row. */
typedef struct ls_micro_figure {
    const char *op;
    const char *shape;   /**< "256x128x784"; NULL: none */
    size_t bytes, count; /**< 0: none */
    ls_statistics ns;    /**< of one operation; n = 0: a sum of medians */
    double flops;        /**< 0: not counted */
    double moved_bytes;  /**< read and written; 0: not counted */
    double roof_ns;      /**< of the roof of its own shape; 0: the device's rate of products */
    const char *roof;    /**< what that roof is; NULL */
    bool checked;
    uint64_t wrong;
    const char *kernel; /**< which was chosen; NULL: not told */
    double host_ns;     /**< the host's own time to have it run; 0: not told */
    double build_ns;    /**< of a program; 0: none */
    /* Of collectives. */
    int ranks;          /**< 0: 1 */
    const char *comm;   /**< communicator; NULL: not told */
    const char *redop;  /**< "sum", "none"; NULL: not told */
    double bus_factor;  /**< bus bandwidth over algorithm bandwidth */
    ls_traffic sent;    /**< of one operation, summed over ranks */
    bool uncounted;     /**< only a library knows what it sends */
    const char *reason; /**< why the row fails, where not for wrong elements; NULL */
} ls_micro_figure;

typedef struct ls_micro_op {
    const char *name;
    const char *help;
    ls_status (*run)(ls_micro *m);
    bool needs_roof;
    bool pairs;        /**< one device, or two */
    const char *redop; /**< of a collective, which takes several devices, and --ranks: "sum",
                            "none"; else NULL */
} ls_micro_op;

/** The sizes asked for, in bytes, or `smallest` by a factor of 4, and 64 MiB. */
ls_status ls_micro_sizes(const ls_micro *m, size_t smallest, size_t sizes[LS_MICRO_SIZES],
                         size_t *count);

/** What the operation will do, for the progress: so many parts; what each is called and about
 * takes; and that one of them begins. */
void ls_micro_expect(ls_micro *m, size_t parts);
void ls_micro_part(ls_micro *m, size_t part, const char *title, double seconds);
void ls_micro_part_flops(ls_micro *m, size_t part, const char *title, double flops);
void ls_micro_begin(ls_micro *m, size_t part);

/** The same, of a part for each size, of each all-reduce that is measured. */
void ls_micro_expect_sizes(ls_micro *m, const size_t *sizes, size_t count);

/** The same, of a part for each node of the model, by what its products take, and `more` parts. */
void ls_micro_expect_nodes(ls_micro *m, const char *name, size_t more);

/** Keeps and prints a row, which fails where elements are wrong; of a collective all processes call
 * it. */
ls_status ls_micro_row(ls_micro *m, const ls_micro_figure *figure);

/** Times and prints the products of one of the model's layers: sum_ns[0] becomes the medians of the
 *  forward pass, sum_ns[1] of the backward one; 0 where it has none. */
ls_status ls_micro_products(ls_micro *m, int node, double sum_ns[2]);

/** Times a copy of so many bytes within the device's memory. */
ls_status ls_micro_time_copy(ls_micro *m, size_t bytes, ls_statistics *ns);

/** Times and prints the passes of the model's layers: all of them, or (`products_only`) those that
 *  are products. *floor_ns: sum over the latter of the layer's or its products' time, the less. */
ls_status ls_micro_passes(ls_micro *m, bool products_only, double *floor_ns);

/** Times one pass of the optimizer over `count` parameters. */
ls_status ls_micro_time_optimizer(ls_micro *m, size_t count, ls_micro_figure *figure);

ls_status ls_micro_gemm(ls_micro *m);
ls_status ls_micro_copy(ls_micro *m);
ls_status ls_micro_launch(ls_micro *m);
ls_status ls_micro_optimizer(ls_micro *m);
ls_status ls_micro_floor(ls_micro *m);
ls_status ls_micro_layers(ls_micro *m);
ls_status ls_micro_collective(ls_micro *m);

/** Whole numbers from -2 to 2, whose sums are exact: element i of a buffer that has such. */
static inline float ls_micro_whole(size_t i, unsigned salt)
{
    return (float)((int)((i * 2654435761u + salt) >> 7 & 0xffff) % 5 - 2);
}
