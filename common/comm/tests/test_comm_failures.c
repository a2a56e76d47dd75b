/* SPDX-License-Identifier: MIT */
/*
 * Communicators after errors, and host calls: a rank that fails in the middle of a program wakes
 * all others, each with one message; mismatched operations fail instead of hanging; messages and
 * agreement. alarm() ends a hang.
 */
#include "common/comm/tests/comm_talks.h"
#include "common/device/backend.h"

#include <stdio.h>
#include <unistd.h>

enum { COUNT = 1000, FAIL_AT = 5, REPLAYS = 200, LONGEST_S = 800 };

/* ---- A rank fails -------------------------------------------------------------------------- */

typedef struct failing {
    int ranks, culprit;
    uint64_t seed;
} failing;

static void fail_in_mid_program(fixture *f, const ls_allreduce *a, const failing *t)
{
    ls_comm *comms[MOST_RANKS];
    ls_op_list ops[MOST_RANKS] = {{0}};
    ls_status statuses[MOST_RANKS];
    float *data[MOST_RANKS];
    char expected[64];
    snprintf(expected, sizeof expected, "this rank was abandoned by rank %d", t->culprit);
    must(ls_comm_open(NULL, NULL, f->device, t->ranks, comms));
    for (int r = 0; r < t->ranks; r++) {
        data[r] = calloc(COUNT, sizeof(float));
        const ls_allreduce_args args = {data[r], COUNT, .scratch = scratch_of(comms[r])};
        must(a->build(comms[r], &args, &ops[r]));
        if (r == t->culprit)
            put_op(&ops[r], run_failing, NULL, NULL, 0)->fail_at = FAIL_AT;
        must(a->build(comms[r], &args, &ops[r]));
        if (t->seed)
            delay_all(&ops[r], t->seed, (uint64_t)r);
    }
    replay_all(f, ops, t->ranks, REPLAYS, statuses);
    for (int r = 0; r < t->ranks; r++)
        if (r == t->culprit)
            must_refuse(statuses[r], LS_CODE_CHECK, "planted");
        else
            must_refuse(statuses[r], LS_CODE_MISSING, expected);
    replay_all(f, ops, t->ranks, 1, statuses); /* it remains abandoned */
    for (int r = 0; r < t->ranks; r++)
        must_refuse(statuses[r], LS_CODE_MISSING, expected);
    close_all(comms, ops, t->ranks);
    for (int r = 0; r < t->ranks; r++)
        free(data[r]);
}

static void a_failed_rank_lets_all_go(void **state)
{
    static const int ranks[] = {2, 3, 5, 8, 16};
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks && a->oracle; k++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                fail_in_mid_program(*state, a, &(failing){ranks[k], 0, seed});
                fail_in_mid_program(*state, a, &(failing){ranks[k], ranks[k] - 1, seed});
            }
}

/* While others' transfers are in flight. */
static void so_it_is_over_links(void **state)
{
    const ls_allreduce *a;
    plug_all(*state, &(ls_link){.latency_ns = 300000, .bytes_per_s = 1e8});
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        if (a->oracle && !a->check)
            fail_in_mid_program(*state, a, &(failing){3, 1, 0});
    unplug_all(*state);
}

/* At least one rank detects the mismatch, and no rank hangs or continues. */
static void mismatched_counts_fail(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"direct", "flat", "tree"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        const ls_allreduce *a;
        ls_comm *comms[3];
        ls_op_list ops[3] = {{0}};
        ls_status statuses[3];
        float data[3][COUNT] = {{0}};
        bool told = false;
        must(ls_allreduce_find(names[i / 2], &a));
        must(ls_comm_open(NULL, NULL, f->device, 3, comms));
        for (int r = 0; r < 3; r++) { /* one rank is off by one, also around LS_DIRECT_FEW */
            size_t count = (i % 2 ? (size_t)LS_DIRECT_FEW : COUNT - 1) + (r == 2);
            must(
                a->build(comms[r], &(ls_allreduce_args){.data = data[r], .count = count}, &ops[r]));
            must(
                a->build(comms[r], &(ls_allreduce_args){.data = data[r], .count = count}, &ops[r]));
        }
        replay_all(f, ops, 3, 3, statuses);
        for (int r = 0; r < 3; r++) {
            assert_non_null(statuses[r]);
            told |= strstr(ls_status_text(statuses[r]), "matching operations") != NULL;
            ls_status_free(statuses[r]);
        }
        assert_true(told);
        close_all(comms, ops, 3);
    }
}

/* The receiver detects it in its last operation: the sender must not keep waiting. */
static void a_mismatched_exchange_lets_go(void **state)
{
    fixture *f = *state;
    ls_comm *comms[2];
    ls_op_list ops[2] = {{0}};
    ls_op *op;
    ls_status statuses[2];
    float data[2][4] = {{0}};
    const ls_exchange send = {.to = 1, .send = data[0], .send_count = 4, .from = -1};
    const ls_exchange receive = {.to = -1, .from = 0, .receive = data[1], .receive_count = 3};
    must(ls_comm_open(NULL, NULL, f->device, 2, comms));
    must(ls_comm_exchange(comms[0], &send, &op));
    must(ls_op_list_add(&ops[0], op));
    must(ls_comm_exchange(comms[1], &receive, &op));
    must(ls_op_list_add(&ops[1], op));
    replay_all(f, ops, 2, 1, statuses);
    must_refuse(statuses[0], LS_CODE_MISSING, "abandoned by rank 1");
    must_refuse(statuses[1], LS_CODE_USAGE,
                "has 3 elements, but the matching operation of rank 0 has 4;");
    close_all(comms, ops, 2);
}

static void ranks_that_are_not_there_are_refused(void **state)
{
    fixture *f = *state;
    ls_comm *comm;
    ls_op *op;
    int data;
    must(ls_comm_open(NULL, NULL, f->device, 1, &comm));
    const ls_exchange exchange = {.to = 1, .from = -1, .send_count = 1};
    must_refuse(ls_comm_exchange(comm, &exchange, &op), LS_CODE_USAGE, "no rank 1");
    must_refuse(comm->backend->send(comm, -1, 0, &data, 4), LS_CODE_USAGE, "no rank -1");
    must_refuse(comm->backend->receive(comm, 7, 0, &data, 4), LS_CODE_USAGE, "no rank 7");
    ls_comm_close(comm);
    ls_comm_close(NULL);
}

/* ---- Host calls ---------------------------------------------------------------------------- */

enum { TALKERS = 4 };

static void hosts_talk(void **state)
{
    talk_all(*state, NULL, 1, talk_in_order);
    talk_all(*state, NULL, TALKERS, talk_in_order);
    talk_all(*state, NULL, TALKERS, talk_to_anyone);
    talk_all(*state, NULL, TALKERS, talk_in_agreement);
    talk_all(*state, NULL, TALKERS, talk_and_give_up);
}

/* An emulated GPU: the processor cannot read its memory. */
static void gpus_are_refused(void **state)
{
    fixture *f = *state;
    ls_device gpu = {.info = {.name.kind = LS_DEVICE_GPU, .text = "gpu:0/1"}};
    ls_device *const devices[] = {f->device[0], &gpu};
    ls_comm *comms[2];
    must_refuse(ls_comm_open(NULL, NULL, devices, 2, comms), LS_CODE_MISSING,
                "comm: thread: gpu:0/1: --comm thread exchanges between CPU devices only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_rank_lets_all_go),
        cmocka_unit_test(so_it_is_over_links),
        cmocka_unit_test(mismatched_counts_fail),
        cmocka_unit_test(a_mismatched_exchange_lets_go),
        cmocka_unit_test(ranks_that_are_not_there_are_refused),
        cmocka_unit_test(hosts_talk),
        cmocka_unit_test(gpus_are_refused),
    };
    alarm(LONGEST_S);
    return cmocka_run_group_tests(tests, setup_devices, teardown);
}
