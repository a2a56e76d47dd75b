/* SPDX-License-Identifier: MIT */
/*
 * A rank fails in what it does alone between two collective calls: all ranks are notified, none
 * hangs, and the next collective call works on all. Ranks are threads; each part of a step fails on
 * each rank in turn. No tolerance.
 */
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "bench/train/trial/trial.h"
#include "common/comm/tests/comm_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { RANKS = 3, LONGEST_S = 800 };

/* The part of a step that fails. */
typedef enum lone_part { NOTHING, STEP, SYNC, RECORDS, GATHER, EVALUATE, TEXT, PARTS } lone_part;

/* A strategy that does nothing, and fails where told to. */
typedef struct made_up {
    ls_run base;
    int rank;
    lone_part fails; /* the part that fails here */
} made_up;

static ls_status fail_if(const ls_run *run, lone_part part)
{
    const made_up *m = (const made_up *)run;
    return m->fails == part ? ls_fail(LS_CODE_MISSING, "test", "part", "number %d failed", part)
                            : LS_OK;
}

static ls_status mark(ls_run *run)
{
    (void)run;
    return LS_OK;
}

static ls_status step(ls_run *run, ls_batch_kind kind, uint64_t times)
{
    (void)kind;
    (void)times;
    return fail_if(run, STEP);
}

static ls_status sync_run(ls_run *run)
{
    return fail_if(run, SYNC);
}

static ls_status records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns)
{
    (void)first;
    *mark_ns = 0;
    memset(out, 0, count * sizeof *out);
    return fail_if(run, RECORDS);
}

static ls_status state(ls_run *run, ls_values array, ls_range block, float *out)
{
    (void)array;
    assert_int_equal(block.count, 1);
    *out = 1;
    return fail_if(run, GATHER);
}

static ls_status evaluate(ls_run *run, const ls_evaluating *how, ls_evaluation *out)
{
    uint64_t batches;
    bool stop = false;
    LS_TRY(how->turn(how->context, fail_if(run, EVALUATE), &batches, &stop));
    out->accuracy = 0.25;
    return LS_OK;
}

static const ls_strategy strategy = {.name = "made up"};

static const ls_run_functions made_up_run = {.mark = mark,
                                             .step = step,
                                             .sync = sync_run,
                                             .records = records,
                                             .state = state,
                                             .evaluate = evaluate};

/* A rank and its result. */
typedef struct rank {
    pthread_t thread;
    ls_comm *comm;
    made_up run;
    ls_status status; /* of the round with the failure */
    ls_status after;  /* of the next collective call */
    ls_evaluation found;
    char *texts; /* of all ranks, one after another */
} rank;

static ls_status bring_texts(rank *r)
{
    const bool fails = r->run.fails == TEXT;
    char mine[16];
    snprintf(mine, sizeof mine, "rank %d", r->comm->rank);
    return ls_comm_gather(r->comm, fails ? ls_fail(LS_CODE_MISSING, "test", "text", "none") : LS_OK,
                          fails ? NULL : mine, fails ? 0 : strlen(mine) + 1, &r->texts, NULL);
}

/* All collective calls of a session, until one fails. */
static ls_status take_round(rank *r)
{
    const ls_plan_of_case plan = {.strategy = &strategy};
    const ls_data data = {.train = {.samples = 8}};
    ls_variable weight = {.name = "w", .count = 1};
    ls_graph graph = {.variables = {.items = &weight, .count = 1, .elements = 1}};
    const ls_model model = {.graph = &graph};
    ls_session session = {.plan = &plan, .run = &r->run.base};
    ls_step_record record;
    uint64_t mark_ns;
    float value;
    session.job = (ls_job){.ranks.comm = r->comm,
                           .model = &model,
                           .data = &data,
                           .device_count = 1,
                           .batch = 1,
                           .records = 1};
    r->found.accuracy = -1;
    LS_TRY(ls_session_steps(&session, 1));
    LS_TRY(ls_session_records(&session, 1, &record, &mark_ns));
    LS_TRY(ls_session_gather(&session, LS_VALUES, &value));
    LS_TRY(ls_session_evaluate(&session, UINT64_MAX, false, &r->found));
    return bring_texts(r);
}

static void *rank_thread(void *argument)
{
    rank *r = argument;
    r->status = take_round(r);
    r->run.fails = NOTHING;
    r->after = ls_world_same(r->comm, "number", 7, NULL);
    return NULL;
}

static void forget(rank *r)
{
    ls_status_free(r->status);
    ls_status_free(r->after);
    free(r->texts);
    r->texts = NULL;
}

/* The part fails on rank `who`; afterwards all ranks are still in step. */
static void run_ranks(ls_comm **comms, lone_part fails, int who, rank *ranks)
{
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.comm = comms[i],
                          .run = {.base = {&made_up_run, &strategy, NULL},
                                  .rank = i,
                                  .fails = i == who ? fails : NOTHING}};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_thread, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
}

static void who_fails_alone_is_heard_by_all(void **state)
{
    fixture *f = *state;
    ls_comm *comms[RANKS];
    rank ranks[RANKS];
    alarm(LONGEST_S); /* ends a rank that waits for ever */
    must(ls_comm_open(f->backend, NULL, f->device, RANKS, comms));
    for (int part = STEP; part < PARTS; part++)
        for (int who = 0; who < RANKS; who++) {
            run_ranks(comms, (lone_part)part, who, ranks);
            for (int i = 0; i < RANKS; i++) {
                if (!ranks[i].status || ranks[i].after)
                    fail_msg("part %d failed on rank %d: rank %d has %s, then %s", part, who, i,
                             ranks[i].status ? ls_status_text(ranks[i].status) : "success",
                             ranks[i].after ? ls_status_text(ranks[i].after) : "success");
                forget(&ranks[i]);
            }
        }
    for (int i = 0; i < RANKS; i++)
        ls_comm_close(comms[i]);
    alarm(0);
}

/* Without a failure: what was found and the texts of all reach every rank. */
static void who_succeeds_tells_the_others(void **state)
{
    fixture *f = *state;
    ls_comm *comms[RANKS];
    rank ranks[RANKS];
    alarm(LONGEST_S);
    must(ls_comm_open(f->backend, NULL, f->device, RANKS, comms));
    run_ranks(comms, TEXT, 2, ranks); /* leaves no message behind */
    for (int i = 0; i < RANKS; i++)
        forget(&ranks[i]);
    run_ranks(comms, NOTHING, 0, ranks);
    for (int i = 0; i < RANKS; i++) {
        must(ranks[i].status);
        assert_true(ranks[i].found.accuracy == 0.25);
    }
    assert_memory_equal(ranks[0].texts, "rank 0\0rank 1\0rank 2", sizeof "rank 0\0rank 1\0rank 2");
    for (int i = 0; i < RANKS; i++) {
        forget(&ranks[i]);
        ls_comm_close(comms[i]);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_fails_alone_is_heard_by_all),
                                       cmocka_unit_test(who_succeeds_tells_the_others)};
    return cmocka_run_group_tests(tests, setup_devices, teardown);
}
