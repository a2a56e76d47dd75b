/* SPDX-License-Identifier: MIT */
/*
 * Test pass: the test set, or its first samples, through the nets of replicas that have equal
 * variables. Each net takes its part of the samples. Right answers are counted as integers, so
 * their sum does not depend on who counts which.
 */
#pragma once

#include "impl/replica/replica.h"

/** A replica, or a part of one, and the net that it evaluates with. */
typedef struct ls_tested {
    ls_replica *replica;
    ls_net *net;
    bool counts; /**< it counts, if it has the model's output; else another part does */
    ls_net *const
        *chunks; /**< [chunk_count] the nets of all chunks, `net` the last; NULL means one */
    int chunk_count;
} ls_tested;

/** A replica, whole or in parts, and its part of the test samples. */
typedef struct ls_tester {
    ls_tested *parts; /**< [count] */
    int count;
    uint64_t at, end; /**< its samples that are left: [at, end) */
} ls_tester;

/** The testers of this process. */
typedef struct ls_test_pass {
    ls_tester *testers; /**< [count] */
    int count;
    uint64_t rounds;         /**< batches that each tester of any process has, at most */
    ls_replica *const *lent; /**< [lent_count] whose variables are replaced meanwhile */
    int lent_count;
    /** Copies a block of what takes their place. All processes call it. NULL: averages of lent[0],
     * if the job has any. */
    ls_status (*gather)(void *context, ls_range block, float *out);
    ls_comm *comm; /**< of the processes that gather; NULL: this one */
    /** Runs a batch through all testers' nets. NULL if there is one net, which runs alone. */
    ls_status (*predict)(void *context, const ls_evaluating *how);
    void (*abandon)(void *context); /**< tells waiting peers that this process failed; or NULL */
    void *context;
} ls_test_pass;

/** How many test samples are evaluated. */
uint64_t ls_test_samples(const ls_job *job, const ls_evaluating *how);

/** Gives tester number `index` of `count` its part of the first `samples` test samples: complete
 * batches of `rows`; the last one may be cut. */
void ls_test_share(uint64_t samples, uint64_t rows, int index, int count, ls_tester *tester);

/** ls_test_pass.rounds of `count` testers of all processes. */
uint64_t ls_test_rounds(uint64_t samples, uint64_t rows, int count);

/** See ls_run_functions.evaluate: of this process's testers alone. */
ls_status ls_test_pass_run(const ls_test_pass *pass, const ls_job *job, const ls_evaluating *how,
                           ls_evaluation *out);

/** Adds the counts of other samples, or of other positions of the same ones. */
void ls_evaluation_add(const ls_evaluation *part, ls_evaluation *sum);
