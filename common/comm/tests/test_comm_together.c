/* SPDX-License-Identifier: MIT */
/*
 * Ranks whose operations are enqueued by one call (ls_comm_enqueue), after errors: operations that
 * do not match are refused when enqueued, with nothing left waiting; a failure in the middle of a
 * program reaches every rank; an uncaptured step gives the same each time. alarm() ends a hang.
 * Leaves out bits and counts (test_comm).
 */
#include "common/comm/tests/comm_fixture.h"
#include "common/device/backend.h"

#include <unistd.h>

enum { RANKS = 3, COUNT = 1000, FAIL_AT = 5, REPLAYS = 200, STEPS = 50, LONGEST_S = 800 };

typedef struct group {
    ls_comm *comms[RANKS];
    ls_op_list ops[RANKS];
    ls_comm_list lists[RANKS];
    float data[RANKS][COUNT];
} group;

static void open_group(fixture *f, group *g)
{
    *g = (group){0};
    must(ls_comm_open(f->backend, NULL, f->device, RANKS, g->comms));
    for (int r = 0; r < RANKS; r++)
        g->lists[r] = (ls_comm_list){&g->ops[r], f->queue[r]};
}

static void build(group *g, int rank, const char *name, size_t count)
{
    const ls_allreduce *a;
    must(ls_allreduce_find(name, &a));
    must(a->build(g->comms[rank], &(ls_allreduce_args){.data = g->data[rank], .count = count},
                  &g->ops[rank]));
}

static void close_group(fixture *f, group *g)
{
    for (int r = 0; r < RANKS; r++)
        must(ls_queue_sync(f->queue[r])); /* nothing waits for what was never enqueued */
    close_all(g->comms, g->ops, RANKS);
}

static void lists_that_do_not_match_are_refused(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"direct", "flat", "ring"};
    for (int i = 0; i < 3; i++) {
        group g;
        open_group(f, &g);
        for (int r = 0; r < RANKS; r++) /* also around LS_DIRECT_FEW */
            build(&g, r, names[i], i ? COUNT - (r == 2) : (size_t)LS_DIRECT_FEW + (r == 2));
        must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS), LS_CODE_USAGE, "matching operations");
        close_group(f, &g);
        open_group(f, &g);
        for (int r = 0; r < RANKS - 1; r++) /* the last rank has no operation */
            build(&g, r, names[i], COUNT);
        must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS), LS_CODE_USAGE,
                    "waits for a matching operation that no rank enqueues");
        close_group(f, &g);
    }
}

/* The size of a rank's scratch is fixed when it is first enqueued. */
static void later_operations_are_refused(void **state)
{
    fixture *f = *state;
    group g;
    ls_op *op;
    open_group(f, &g);
    const ls_exchange more = {
        .to = -1, .from = 1, .receive = g.data[0], .receive_count = COUNT, .add = true};
    for (int r = 0; r < RANKS; r++)
        build(&g, r, "flat", 10);
    must(ls_comm_enqueue(g.comms, g.lists, RANKS));
    must(ls_comm_enqueue(g.comms, g.lists, RANKS)); /* the same ones match again */
    must_refuse(ls_comm_exchange(g.comms[0], &more, &op), LS_CODE_USAGE, "more scratch");
    assert_int_equal(g.comms[0]->backend->memory(g.comms[0]), 10 * sizeof(float));
    must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS - 1), LS_CODE_USAGE, "lists of 2 ranks");
    const ls_op_list swapped = {.items = (ls_op *[]){g.ops[1].items[1], g.ops[1].items[0]},
                                .count = 2};
    g.lists[1].ops = &swapped;
    must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS), LS_CODE_USAGE,
                "waits for a matching operation that no rank enqueues");
    close_group(f, &g);
}

static void an_operation_alone_fails(void **state)
{
    fixture *f = *state;
    group g;
    open_group(f, &g);
    build(&g, 0, "ring", COUNT);
    must(ls_queue_enqueue(f->queue[0], g.ops[0].items[0]));
    must_refuse(ls_queue_sync(f->queue[0]), LS_CODE_USAGE, "ls_comm_enqueue");
    close_group(f, &g);
}

static void a_failure_reaches_every_rank(void **state)
{
    fixture *f = *state;
    for (int culprit = 0; culprit < RANKS; culprit++) {
        group g;
        open_group(f, &g);
        for (int r = 0; r < RANKS; r++) {
            build(&g, r, "ring", COUNT);
            if (r == culprit)
                put_op(&g.ops[r], run_failing, NULL, NULL, 0)->fail_at = FAIL_AT;
            build(&g, r, "ring", COUNT);
        }
        ls_program *program = capture_together(f, g.comms, g.ops, RANKS);
        must(ls_program_launch(program, REPLAYS));
        for (int r = 0; r < RANKS; r++) {
            ls_status status = ls_queue_sync(f->queue[r]);
            assert_true(ls_status_is_consequence(status) == (r != culprit));
            must_refuse(status, r == culprit ? LS_CODE_CHECK : LS_CODE_MISSING,
                        r == culprit ? "planted" : "waits for another queue that has failed");
        }
        ls_program_close(program);
        close_group(f, &g);
    }
}

/* Step by step, without a program: events are recorded again while earlier waits are pending. */
static void steps_need_no_program(void **state)
{
    fixture *f = *state;
    group g;
    float *inputs[RANKS], *expected = random_floats("room", 0, COUNT);
    const ls_allreduce *ring;
    test_op *checks[RANKS];
    must(ls_allreduce_find("ring", &ring));
    open_group(f, &g);
    for (int r = 0; r < RANKS; r++) {
        inputs[r] = random_floats("inputs", r, COUNT);
        put_op(&g.ops[r], run_fill, g.data[r], inputs[r], COUNT);
        build(&g, r, "ring", COUNT);
    }
    must(allreduce_sum(ring, (const float *const *)inputs, RANKS, COUNT, expected, NULL));
    for (int r = 0; r < RANKS; r++) {
        checks[r] = put_op(&g.ops[r], run_check, g.data[r], expected, COUNT);
        delay_all(&g.ops[r], 7, (uint64_t)r);
    }
    for (int step = 0; step < STEPS; step++)
        must(ls_comm_enqueue(g.comms, g.lists, RANKS));
    for (int r = 0; r < RANKS; r++) {
        must(ls_queue_sync(f->queue[r]));
        assert_true(checks[r]->runs == STEPS && checks[r]->wrong == 0);
    }
    close_group(f, &g);
    for (int r = 0; r < RANKS; r++)
        free(inputs[r]);
    free(expected);
}

/* Emulated GPUs: only devices on one GPU share memory, and kinds do not mix. */
static void memory_is_shared_on_one_gpu(void **state)
{
    fixture *f = *state;
    const ls_device_name cpu = {.kind = LS_DEVICE_CPU}, part = {.kind = LS_DEVICE_GPU},
                         other = {.kind = LS_DEVICE_GPU, .index = 1};
    assert_true(ls_comm_shares((ls_device_name[]){part, part}, 2));
    assert_false(ls_comm_shares((ls_device_name[]){part, part, other}, 3));
    assert_false(ls_comm_shares((ls_device_name[]){part, cpu}, 2));
    ls_device gpu = {.info = {.name = part, .text = "gpu:0"}};
    ls_device *const mixed[] = {f->device[0], &gpu};
    ls_comm *comms[2];
    must_refuse(ls_comm_open(f->backend, NULL, mixed, 2, comms), LS_CODE_USAGE,
                "cannot exchange data with");
    assert_string_equal(ls_comm_backend_auto(NULL, LS_DEVICE_GPU)->name, "device");
    assert_string_equal(ls_comm_backend_auto(NULL, LS_DEVICE_CPU)->name, "thread");
}

int main(void)
{
    alarm(LONGEST_S);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_that_do_not_match_are_refused),
        cmocka_unit_test(an_operation_alone_fails),
        cmocka_unit_test(a_failure_reaches_every_rank),
        cmocka_unit_test(steps_need_no_program),
        cmocka_unit_test(memory_is_shared_on_one_gpu),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(later_operations_are_refused),
        cmocka_unit_test(steps_need_no_program),
    };
    return cmocka_run_group_tests(tests, setup_together, teardown) +
           cmocka_run_group_tests_name("apart", apart, setup_apart, teardown);
}
