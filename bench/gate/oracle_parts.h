/* SPDX-License-Identifier: MIT */
/* The oracle's parts. */
#pragma once

#include "bench/gate/oracle.h"
#include "common/comm/comm.h"
#include "common/nn/divide/graph_split.h"
#include "impl/carried.h"
#include "impl/replica/replicas.h"
#include "impl/test_pass.h"

/** A replica's places (oracle_places.c). */
typedef struct ls_oracle_places {
    ls_graph *all; /* of all places together */
    ls_graph_parts parts;
    ls_replica **replicas;      /* [parts.count] */
    ls_slice *const *evaluated; /* [parts.count] of the test pass */
} ls_oracle_places;

typedef struct ls_oracle {
    ls_run base;
    const ls_job *judged_job;
    int count;    /* n: number of parts */
    int replicas; /* of count / replicas parts each */
    ls_replica *replica;
    /* Part d places + j belongs to place j: */
    ls_oracle_places *places; /* NULL if positions are not divided */
    int computed;             /* the replica whose places have computed last; -1 if none */
    ls_graph_part split;      /* the model with layers in slices; graph NULL if none is */
    /* With summed batch statistics: one slice of n pieces, others NULL. */
    ls_slice **slices[LS_BATCHES]; /* [n]; the largest one owns the memory */
    ls_op_list update, apply;      /* `apply`: for a given gradient that includes weight decay */
    ls_op_list finish[LS_BATCHES];
    bool *has[LS_BATCHES];          /* [n] whether each slice has samples */
    ls_sum_order order[LS_BATCHES]; /* of the strategy's sum; unset if only a library knows it */
    float *part;                    /* [P] gradient of the current slice */
    float **sums;                   /* [sum_count] [P] the first becomes the gradient */
    int sum_count;                  /* partial sums that the orders need */
    double *losses;                 /* [n] loss of each slice */
    const float *given;             /* [P] or NULL */
    bool widely;                    /* the update uses the float64 sum */
    double *exact;                  /* [P] the float64 sum; NULL if not computed */
    float *wide;                    /* [P] that sum, rounded to float32 */
    uint64_t at;                    /* number of the next step */
    ls_step_record latest;
    /* Where replicas update alone (oracle_alone.c): */
    ls_carried *states;  /* [replicas]; NULL means they do not */
    float *values;       /* memory of the following */
    ls_replayed replays; /* parameters after the latest step, and the strategy's own buffers */
    float *mixed;        /* [replicas, P] means over peers; unset if there are none */
} ls_oracle;

/** Computes a slice's gradient and its part of the loss. Repeated in a step, it gives the same. */
ls_status ls_oracle_slice(ls_oracle *me, int batch_kind, int d);

/** Does steps [first, end) of an order, which use `part`, on a thread of the device, which flushes
 * denormals, as replicas' sums do. */
ls_status ls_oracle_add(const ls_oracle *me, const ls_order_step *first, const ls_order_step *end);

/** The loss of a step from those of its slices. */
double ls_oracle_loss(const ls_oracle *me, int batch_kind);

/** Has the strategy's order for `count` inputs. */
ls_status ls_oracle_order(ls_oracle *me, const bool *has, int count, int batch_kind);

/* ---- Replicas that update alone (oracle_alone.c) --------------------------------------------- */

ls_status ls_oracle_alone_open(ls_oracle *me);
void ls_oracle_alone_close(ls_oracle *me);
ls_status ls_oracle_alone_step(ls_oracle *me, int batch_kind);

/** The device takes a replica's state, or gives it back. */
ls_status ls_oracle_take(ls_oracle *me, int d);
ls_status ls_oracle_give_back(ls_oracle *me, int d);

/* ---- Places (oracle_places.c): of a replica whose places have parts of the positions
 * (graph_context.h), all on one device and one queue. Each node is computed place by place; what is
 * dealt to another place is copied. ---------------------------------------------------------- */

/** Opens a replica for each of `places` places on job->devices[0]; all share the parameters of the
 * first, which updates. Borrows the job. */
ls_status ls_oracle_places_open(int places, const ls_job *job, ls_oracle_places **out);
void ls_oracle_places_close(ls_oracle_places *me); /**< takes NULL; after their slices */

/** Computes the gradients and losses of slices [places], of one piece each or empty. */
ls_status ls_oracle_places_run(ls_oracle_places *me, ls_slice *const *slices);

/** Runs a test batch through the nets of `evaluated`: ls_test_pass.predict of the places. */
ls_status ls_oracle_places_predict(void *context, const ls_evaluating *how);
