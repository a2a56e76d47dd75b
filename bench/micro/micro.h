/* SPDX-License-Identifier: MIT */
/* Micro: measures one operation at a time. Shared by the files of `lockstep micro`. */
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
#include "common/nn/net.h"
#include "common/nn/optimizer.h"

enum { LS_MICRO_ROUNDS = 21, LS_MICRO_SIZES = 32 };

/** The state of a `micro` command. */
typedef struct ls_micro {
    const struct ls_micro_op *op;
    ls_machine *machine;
    ls_device_name *names;         /**< [ranks] */
    const ls_processes *processes; /**< each has as many of the ranks; collectives run on all */
    int ranks;                     /**< of this process; 1 except for collectives */
    ls_device *device;             /**< the first rank's */
    const ls_device_info **known;  /**< [ranks] of the open devices, set by whoever opens them */
    ls_bench bench;
    ls_model *model;
    int64_t batch;
    ls_optimizer optimizer;
    const char *data;                 /**< of --data; NULL means the model's */
    const ls_option_given *sizes;     /**< of --sizes, as given */
    const ls_option_given *allreduce; /**< of --allreduce, as given */
    const ls_comm_backend *comm;      /**< of a collective */
    const char *link_text;            /**< of --link; NULL if none */
    ls_link link;
    ls_network *network; /**< between the ranks' devices, opened by a collective; NULL if none */
    double roof;         /**< floating-point operations per second; 0 if not asked for */
    ls_writer *writer;
    ls_results *results;          /**< results file of the rows; NULL if none, or another rank's */
    const char *command;          /**< the command line */
    const char *label;            /**< of --label; NULL if none */
    bool failed;                  /**< a check has failed */
    bool silent;                  /**< rows are neither stored nor printed */
    double sent_ns[2];            /**< of the last rows of sendrecv: time of a message, */
    size_t sent_bytes[2];         /**< of so many bytes: the smallest and the largest */
    struct ls_progress *progress; /**< NULL if none is shown */
} ls_micro;

/** The figures of a row. */
typedef struct ls_micro_figure {
    const char *op;
    const char *shape;   /**< "256x128x784"; NULL if none */
    size_t bytes, count; /**< 0 if none */
    ls_statistics ns;    /**< time of one operation; n = 0: a sum of medians */
    double flops;        /**< 0 if not counted */
    double moved_bytes;  /**< read and written; 0 if not counted */
    double roof_ns;      /**< roof as a time; 0 if it is the device's rate */
    const char *roof;    /**< what that roof is; else NULL */
    bool checked;
    uint64_t wrong;
    const char *kernel; /**< chosen implementation; NULL if unknown */
    double host_ns;     /**< the host's time to launch it; 0 if unknown */
    double build_ns;    /**< time to build its program; 0 if none */
    /* Results of collectives. */
    int ranks;          /**< 0 means 1 */
    const char *comm;   /**< communicator; NULL if unknown */
    const char *redop;  /**< "sum", "none"; NULL if unknown */
    double bus_factor;  /**< bus bandwidth over algorithm bandwidth */
    ls_traffic sent;    /**< of one operation, summed over ranks */
    bool uncounted;     /**< only a library knows what it sends */
    const char *reason; /**< why the row fails, other than wrong elements; else NULL */
} ls_micro_figure;

typedef struct ls_micro_op {
    const char *name;
    const char *help;
    const char *options; /**< that apply to some operations only; a blank around each */
    ls_status (*run)(ls_micro *m);
    bool needs_roof;
    bool pairs;        /**< uses one device, or two */
    const char *redop; /**< of a collective on several devices: "sum", "none"; else NULL */
} ls_micro_op;

/** The sizes that --sizes gives, in bytes; by default from `smallest` on, times 4, to 64 MiB. */
ls_status ls_micro_sizes(const ls_micro *m, size_t smallest, size_t sizes[LS_MICRO_SIZES],
                         size_t *count);

/** Stores and prints a row; fails if elements are wrong. For a collective, all processes call
 * it. */
ls_status ls_micro_row(ls_micro *m, const ls_micro_figure *figure);

/** Times and prints the products of a node: sum_ns[0] is set to the sum of the medians of its
 * forward pass, sum_ns[1] of its backward pass; 0 if it has no products. */
ls_status ls_micro_products(ls_micro *m, int node, double sum_ns[2]);

/** Times a copy of `bytes` bytes within the device's memory. */
ls_status ls_micro_time_copy(ls_micro *m, size_t bytes, ls_statistics *ns);

/** Times one pass of the optimizer over `count` parameters. */
ls_status ls_micro_time_optimizer(ls_micro *m, size_t count, ls_micro_figure *figure);

ls_status ls_micro_gemm(ls_micro *m);
ls_status ls_micro_copy(ls_micro *m);
ls_status ls_micro_launch(ls_micro *m);
ls_status ls_micro_optimizer(ls_micro *m);
ls_status ls_micro_floor(ls_micro *m);
ls_status ls_micro_layers(ls_micro *m);
ls_status ls_micro_collective(ls_micro *m);

/** Element i of a test buffer: a whole number from -2 to 2, so that sums are exact. */
static inline float ls_micro_whole(size_t i, unsigned salt)
{
    return (float)((int)((i * 2654435761u + salt) >> 7 & 0xffff) % 5 - 2);
}

/* ---- Judging layers (micro_judge.c) --------------------------------------------------------- */

/** A net, and what it runs with. */
typedef struct ls_micro_net {
    ls_bench bench; /**< has the memory of the following */
    void *flat[2];  /**< parameters, gradients */
    void *loss;
    ls_net *net;
} ls_micro_net;

typedef struct ls_micro_judge {
    ls_micro_net fast;    /**< on the first rank's device */
    ls_net *timed;        /**< the same net, which notes nothing, in its memory */
    uint64_t (*wrong)[2]; /**< [nodes] wrong elements of a node's forward and backward pass */
} ls_micro_judge;

/**
 * Opens the model's net for m->batch rows and runs it once. Some of the samples, which the rows
 * repeat, also run with the reference table on the machine's first CPU device, each layer with what
 * the fast one before it has computed. Forward, an element of a layer's output (of a loss, of its
 * gradient, too) is wrong if it differs; backward, of gradients of its inputs and variables. Close
 * it also after a failure.
 */
ls_status ls_micro_judge_open(const ls_micro *m, ls_micro_judge *out);

/** Takes a zero-filled one. */
void ls_micro_judge_close(ls_micro_judge *judge);
