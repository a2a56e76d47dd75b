/* SPDX-License-Identifier: MIT */
/*
 * All-reduce between logical GPUs: every algorithm with an oracle gives its bits on parts of one
 * GPU, captured as one program and step by step, and sends what its formula says. Skipped without a
 * GPU. No tolerance: bits. On CPU devices, test_comm does the same.
 */
#include "common/comm/tests/comm_fixture.h"

#include <stdio.h>

enum { PARTS = 4, TIMES = 3 };

static const size_t counts[] = {1, 7, 8, 9, 1000, 100003};

/* The state of an all-reduce; buffers of each rank in its device's memory. */
typedef struct reduction {
    ls_comm *comms[PARTS];
    ls_op_list ops[PARTS];
    ls_comm_list lists[PARTS];
    float *inputs[PARTS], *expected;
    float *source[PARTS], *data[PARTS];
    ls_event *begun, *left[PARTS];
    size_t count;
    int ranks;
} reduction;

static int setup_parts(void **state)
{
    return open_gpu_parts(state, PARTS);
}

static float *take(ls_device *device, size_t count)
{
    void *memory;
    must(ls_device_allocate(device, LS_MEMORY_WORKSPACE, count * sizeof(float), &memory));
    return memory;
}

static void open_reduction(fixture *f, const ls_allreduce *a, int ranks, size_t count, reduction *r)
{
    *r = (reduction){.count = count, .ranks = ranks, .expected = calloc(count, sizeof(float))};
    must(ls_comm_open(NULL, NULL, f->device, ranks, r->comms));
    must(ls_event_open(f->device[0], &r->begun));
    for (int i = 0; i < ranks; i++) {
        r->inputs[i] = random_floats("gpu", i, count);
        r->source[i] = take(f->device[i], count);
        r->data[i] = take(f->device[i], count);
        must(ls_queue_write(f->queue[i], r->source[i], r->inputs[i], count * sizeof(float)));
        must(a->build(r->comms[i], &(ls_allreduce_args){.data = r->data[i], .count = count},
                      &r->ops[i]));
        r->lists[i] = (ls_comm_list){&r->ops[i], f->queue[i]};
        must(ls_event_open(f->device[i], &r->left[i]));
    }
    must(allreduce_sum(a, (const float *const *)r->inputs, ranks, count, r->expected, NULL));
}

static void close_reduction(fixture *f, reduction *r)
{
    for (int i = 0; i < r->ranks; i++) {
        ls_event_close(r->left[i]);
        ls_device_release(f->device[i], r->source[i]);
        ls_device_release(f->device[i], r->data[i]);
        free(r->inputs[i]);
    }
    ls_event_close(r->begun);
    free(r->expected);
    close_all(r->comms, r->ops, r->ranks);
}

/* Enqueues each rank's inputs, the all-reduce, and the way back to the first queue. */
static void put_step(fixture *f, reduction *r)
{
    must(ls_queue_record(f->queue[0], r->begun));
    for (int i = 0; i < r->ranks; i++) {
        if (i)
            must(ls_queue_wait(f->queue[i], r->begun));
        must(ls_queue_copy(f->queue[i], r->data[i], f->device[i], r->source[i], f->device[i],
                           r->count * sizeof(float)));
    }
    must(ls_comm_enqueue(r->comms, r->lists, r->ranks));
    for (int i = 1; i < r->ranks; i++) {
        must(ls_queue_record(f->queue[i], r->left[i]));
        must(ls_queue_wait(f->queue[0], r->left[i]));
    }
}

static void judge(fixture *f, const ls_allreduce *a, const reduction *r, uint64_t counted)
{
    float *got = calloc(r->count, sizeof *got);
    for (int i = 0; i < r->ranks; i++) {
        must(ls_queue_read(f->queue[i], got, r->data[i], r->count * sizeof *got));
        if (memcmp(got, r->expected, r->count * sizeof *got) != 0)
            fail_msg("%s: %d ranks, %zu elements: rank %d has other bits", a->name, r->ranks,
                     r->count, i);
    }
    const ls_traffic sent = total_traffic(r->comms, r->ranks);
    const ls_traffic formula = a->formula(r->ranks, ls_elements(r->count), 0, NULL);
    assert_true(sent.bytes_sent == counted * formula.bytes_sent);
    assert_true(sent.messages_sent == counted * formula.messages_sent);
    free(got);
}

static void try_captured(fixture *f, const ls_allreduce *a, reduction *r)
{
    ls_program *program;
    must(ls_program_begin(f->queue[0]));
    put_step(f, r);
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, TIMES));
    judge(f, a, r, 1);
    ls_program_close(program);
}

static void logical_gpus_have_the_oracles_bits(void **state)
{
    fixture *f = *state;
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int ranks = 2; ranks <= PARTS && a->oracle && !a->scratch; ranks++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                reduction r;
                open_reduction(f, a, ranks, counts[c], &r);
                try_captured(f, a, &r);
                for (int step = 0; step < TIMES; step++)
                    put_step(f, &r);
                judge(f, a, &r, 1 + TIMES);
                close_reduction(f, &r);
            }
}

int main(void)
{
    if (no_gpu_here())
        return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(logical_gpus_have_the_oracles_bits)};
    return cmocka_run_group_tests(tests, setup_parts, teardown);
}
