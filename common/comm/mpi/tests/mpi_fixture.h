/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the MPI back end: a communicator of some members of each process, with
 * their operations and the expected results, and running a group of tests, in the same order in all
 * processes. Statics; for inclusion by the tests of this folder.
 */
#pragma once

#include "common/base/tests/thorough.h"
#include "common/comm/processes.h"
#include "common/comm/tests/comm_talks.h"

#include <stdio.h>
#include <unistd.h>

enum { MOST_LOCALS = 3, REPLAYS = 6, MANY_REPLAYS = 300, SOME_REPLAYS = 60, LONGEST_S = 800 };

typedef struct mpi_fixture {
    fixture *devices; /* those of this process are its first */
    ls_processes processes;
} mpi_fixture;

/* A communicator of `locals` members of each process, and their operations. */
typedef struct workspace {
    const mpi_fixture *f;
    int locals, ranks, first; /* first: this process's first member */
    size_t count;
    ls_comm *comms[MOST_LOCALS];
    ls_op_list ops[MOST_LOCALS];
    test_op *checks[MOST_LOCALS];
    float *inputs[MOST_RANKS], *data[MOST_LOCALS], *expected;
} workspace;

static inline void open_workspace(const mpi_fixture *f, int locals, size_t count, workspace *w)
{
    *w = (workspace){.f = f, .locals = locals, .ranks = locals * f->processes.size, .count = count};
    must(ls_comm_open(NULL, f->processes.comm, f->devices->device, locals, w->comms));
    w->first = w->comms[0]->rank;
    assert_int_equal(w->first, f->processes.rank * locals);
    assert_int_equal(w->comms[0]->size, w->ranks);
    w->expected = malloc((count + 1) * sizeof(float));
    for (int r = 0; r < w->ranks; r++)
        w->inputs[r] = random_floats("inputs", r, count);
    for (int i = 0; i < locals; i++) {
        void *memory;
        must(ls_device_allocate(f->devices->device[i], LS_MEMORY_GRADIENTS,
                                (count + 1) * sizeof(float), &memory));
        w->data[i] = memory;
        w->data[i][count] = 42.0f;
        put_op(&w->ops[i], run_fill, w->data[i], w->inputs[w->first + i], count);
    }
}

static inline void close_workspace(workspace *w)
{
    close_all(w->comms, w->ops, w->locals);
    for (int i = 0; i < w->locals; i++) {
        assert_true(w->data[i][w->count] == 42.0f); /* nothing is written past the end */
        ls_device_release(w->f->devices->device[i], w->data[i]);
    }
    for (int r = 0; r < w->ranks; r++)
        free(w->inputs[r]);
    free(w->expected);
}

/* Traffic of all processes. */
static inline ls_traffic total_moved(const workspace *w)
{
    ls_traffic mine = total_traffic(w->comms, w->locals), all[MOST_RANKS], sum = {0};
    must(ls_comm_collect(w->f->processes.comm, &mine, sizeof mine, all));
    for (int p = 0; p < w->f->processes.size; p++) {
        sum.bytes_sent += all[p].bytes_sent;
        sum.messages_sent += all[p].messages_sent;
    }
    return sum;
}

static inline void replay_and_judge(workspace *w, const char *name, uint64_t replays,
                                    ls_traffic formula)
{
    uint64_t wrong = 0;
    replay_all(w->f->devices, w->ops, w->locals, replays, NULL);
    for (int i = 0; i < w->locals; i++) {
        assert_true(w->checks[i]->runs == replays);
        wrong += w->checks[i]->wrong;
    }
    ls_traffic moved = total_moved(w);
    if (wrong || moved.bytes_sent != replays * formula.bytes_sent ||
        moved.messages_sent != replays * formula.messages_sent)
        fail_msg("%s: %d ranks, %zu elements: %llu wrong; %llu bytes, %llu messages a replay, not "
                 "%llu, %llu",
                 name, w->ranks, w->count, (unsigned long long)wrong,
                 (unsigned long long)(moved.bytes_sent / replays),
                 (unsigned long long)(moved.messages_sent / replays),
                 (unsigned long long)formula.bytes_sent, (unsigned long long)formula.messages_sent);
}

static inline bool runs_here(const ls_allreduce *a)
{
    return a->oracle;
}

static inline void try_allreduce(const mpi_fixture *f, const ls_allreduce *a, const workspace *size,
                                 uint64_t replays, uint64_t seed)
{
    workspace w;
    open_workspace(f, size->locals, size->count, &w);
    must(allreduce_sum(a, (const float *const *)w.inputs, w.ranks, w.count, w.expected,
                       w.comms[0]->layout));
    for (int i = 0; i < w.locals; i++) {
        const ls_allreduce_args args = {
            .data = w.data[i], .count = w.count, .scratch = scratch_of(w.comms[i])};
        must(a->build(w.comms[i], &args, &w.ops[i]));
        w.checks[i] = put_op(&w.ops[i], run_check, w.data[i], w.expected, w.count);
        if (seed)
            delay_all(&w.ops[i], seed, (uint64_t)(w.first + i));
    }
    replay_and_judge(&w, a->name, replays,
                     a->formula(w.ranks, ls_elements(w.count), 0, w.comms[0]->layout));
    close_workspace(&w);
}

/* A hang is ended by alarm(). After a failure this process is out of step: the job ends. */
static inline int run_group(const struct CMUnitTest *tests, size_t count)
{
    mpi_fixture f;
    void *devices = NULL;
    int failed = 0;
    alarm(LONGEST_S);
    ls_status status = ls_processes_start(120000000000, abort, &f.processes);
    if (status) {
        fprintf(stderr, "%s\n", ls_status_text(status));
        return 1;
    }
    setup_devices(&devices);
    f.devices = devices;
    for (size_t i = 0; i < count && !failed; i++) {
        struct CMUnitTest one[] = {tests[i]};
        one[0].initial_state = &f;
        failed = cmocka_run_group_tests_name(tests[i].name, one, NULL, NULL);
        if (failed)
            ls_processes_end(&f.processes, false, 1);
    }
    teardown(&devices);
    ls_processes_end(&f.processes, true, 0); /* all are still there */
    return failed;
}
