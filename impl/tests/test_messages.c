/* SPDX-License-Identifier: MIT */
/*
 * Messages and copies between members mean the same wherever the members are: a message overwrites
 * or adds, by copies between members of one process and by a communicator's ends (servers). What
 * cannot be done is refused, not left out: between processes without ends, between spans of two
 * sizes, and by a verb for which the strategy's declarations leave nothing to do. Strategies made
 * up for this, without training. And who waits for a device that is lost is woken. No tolerance.
 */
#include "common/device/backend.h"
#include "impl/step/run/run.h"
#include "impl/arrival/arrival_step.h"
#include "impl/strategies.h"
#include "impl/tests/devices_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

enum { MEMBERS = 3, PARAMETERS = 6 * 3 + 3, LAST = MEMBERS - 1 };

static int setup(void **state)
{
    static fixture f;
    open_fixture(&f, MEMBERS, "mlp:6-3", "synthetic:12");
    assert_int_equal(f.model->graph->variables.elements, PARAMETERS);
    f.job.batch = 6;
    f.job.records = 4;
    *state = &f;
    return 0;
}

/* The first member's parameters go to each other member; the last one adds them, twice. */
static void build_messages(ls_step *s)
{
    const ls_span from = ls_parameters(s, 0, ls_all(s));
    ls_message(s, ls_parameters(s, 1, ls_all(s)), from, LS_REPLACE);
    ls_message(s, ls_parameters(s, LAST, ls_all(s)), from, LS_ADD);
    ls_message(s, ls_parameters(s, LAST, ls_all(s)), from, LS_ADD);
}

/* Both steps by one strategy: LS_WHOLE: members of one process, without a communicator;
 * LS_SERVED: ranks that are threads, the last member a server. */
static void check_messages(const fixture *f, ls_kind variables)
{
    const ls_strategy strategy = {
        .name = "made up", .spreads.parameters.on[LS_MEMBER] = variables, .build = build_messages};
    ls_job job = f->job;
    ls_run *run;
    float first[PARAMETERS], found[PARAMETERS];
    if (variables == LS_SERVED)
        job.ps = (ls_ps_options){.ranks = MEMBERS, .servers = 1};
    must(ls_strategy_open(&strategy, &job, &run));
    must(ls_steps_check(run)); /* no races */
    for (int i = 0; i < PARAMETERS; i++)
        first[i] = (float)(i + 1);
    must(ls_run_load(run, first));
    must(run->functions->step(run, LS_FULL, 2));
    must(run->functions->sync(run));
    for (int m = 0; m < MEMBERS; m++) {
        const ls_replica *r = ls_step_run_of(run)->resources.members[m].replica;
        const float times = m == LAST ? 5 : 1; /* 1 at first, and in each of two steps twice */
        must(ls_queue_read(r->queue, found, r->parameters, sizeof found));
        for (int i = 0; i < PARAMETERS; i++)
            if (found[i] != times * first[i])
                fail_msg("member %d: element %d is %g, not %g", m, i, (double)found[i],
                         (double)(times * first[i]));
    }
    run->functions->close(run);
}

static void members_of_a_process_add(void **state)
{
    check_messages(*state, LS_WHOLE);
}

static void ranks_that_are_threads_add(void **state)
{
    check_messages(*state, LS_SERVED);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refused(ls_status status, const char *words)
{
    assert_non_null(status);
    if (ls_status_code(status) != LS_CODE_USAGE || !strstr(ls_status_text(status), words))
        fail_msg("%s: \"%s\" was wanted", ls_status_text(status), words);
    ls_status_free(status);
}

static void build_sizes(ls_step *s)
{
    const ls_range few = {0, 3};
    ls_message(s, ls_parameters(s, 1, ls_all(s)), ls_parameters(s, 0, few), LS_REPLACE);
}

static void spans_of_two_sizes_are_refused(void **state)
{
    const fixture *f = *state;
    const ls_strategy strategy = {.name = "made up", .build = build_sizes};
    ls_run *run;
    refused(ls_strategy_open(&strategy, &f->job, &run), "copies a span of 12 bytes to one of 84");
}

static void build_add_up(ls_step *s)
{
    ls_add_up(s, (const int[]){0}, 1);
}

static void build_shadow(ls_step *s)
{
    ls_run_piece(s, ls_shadow(s, 0), 0, LS_PASS_BACKWARD);
}

static void build_buckets(ls_step *s)
{
    for (int b = 0; b < ls_bucket_count(s); b++)
        ls_give(s, b);
}

static void build_node(ls_step *s)
{
    ls_run_node(s, 0, 0, 1, LS_PASS_FORWARD);
}

static void build_stage(ls_step *s)
{
    ls_run_pass(s, 0, &(ls_pass){0, LS_PASS_BACKWARD, 0, 0});
}

static void build_arrived(ls_step *s)
{
    ls_add_arrived(s, 0, ls_all(s));
}

static void build_request(ls_step *s)
{
    ls_request(s, 0, 1, LS_PS_PULL);
}

static void build_serve(ls_step *s)
{
    ls_serve(s, 0);
}

/* A verb that a strategy's declarations leave nothing to do for fails, and says what it lacks. */
static void verbs_that_cannot_act_are_refused(void **state)
{
    const fixture *f = *state;
    const struct {
        void (*build)(ls_step *step);
        const char *words;
    } cases[] = {{build_add_up, "ls_add_up cannot be called"},
                 {build_shadow, "ls_shadow can be called only if"},
                 {build_buckets, "ls_bucket_count needs buckets"},
                 {ls_average, "ls_bucket_count needs buckets"},
                 {build_node, "ls_run_node cannot be called"},
                 {build_stage, "ls_run_pass cannot be called"},
                 {build_arrived, "ls_add_arrived cannot be called"},
                 {build_request, "ls_request cannot be called in this step, since no server"},
                 {build_serve, "ls_serve cannot be called in this step, since no server"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_strategy strategy = {.name = "made up", .build = cases[i].build};
        ls_run *run;
        refused(ls_strategy_open(&strategy, &f->job, &run), cases[i].words);
    }
}

static int itself(int replica, int count, int *out)
{
    out[0] = replica;
    return count > 0;
}

static void wrong_peers_are_refused(void **state)
{
    const fixture *f = *state;
    const ls_strategy strategy = {.name = "made up", .average.peers = itself, .build = ls_average};
    ls_run *run;
    refused(ls_strategy_open(&strategy, &f->job, &run), "gives replica 0 of 3 the peer 0");
}

static void build_between(ls_step *s)
{
    ls_message(s, ls_parameters(s, 1, ls_all(s)), ls_parameters(s, 0, ls_all(s)), LS_ADD);
}

/* A process of one device. */
typedef struct process {
    pthread_t thread;
    ls_job job;
    const ls_strategy *strategy;
    ls_run *run;
    ls_status status;
} process;

static void *process_thread(void *argument)
{
    process *p = argument;
    p->status = ls_strategy_open(p->strategy, &p->job, &p->run);
    return NULL;
}

static void check_between(fixture *f, void (*build)(ls_step *), const char *words)
{
    const ls_strategy strategy = {.name = "made up", .build = build};
    const ls_comm_backend *backend;
    ls_comm *comms[2];
    process processes[2];
    must(ls_comm_backend_find("thread", &backend));
    must(ls_comm_open(backend, NULL, f->device, 2, comms));
    for (int p = 0; p < 2; p++) {
        processes[p] = (process){.job = f->job, .strategy = &strategy};
        processes[p].job.ranks.comm = comms[p];
        processes[p].job.devices = &f->device[p];
        processes[p].job.device_count = 1;
        assert_int_equal(pthread_create(&processes[p].thread, NULL, process_thread, &processes[p]),
                         0);
    }
    for (int p = 0; p < 2; p++)
        pthread_join(processes[p].thread, NULL);
    for (int p = 0; p < 2; p++) {
        refused(processes[p].status, words);
        ls_comm_close(comms[p]);
    }
}

static void processes_without_ends_are_refused(void **state)
{
    check_between(*state, build_between, "ls_message reaches another process only");
}

/* ---- A lost device --------------------------------------------------------------------------- */

/* As on a GPU that is lost: what the queue still had to do is left out, and nothing says so to
 * those that wait for it. */
static ls_status lost(ls_queue *queue)
{
    (void)queue;
    return ls_fail(LS_CODE_MISSING, "device", "test", "is lost");
}

static void who_waits_for_a_lost_device_is_woken(void **state)
{
    const fixture *f = *state;
    ls_job job = f->job;
    ls_run *run;
    job.device_count = 2;
    job.exchange.bucket_bytes = SIZE_MAX;
    must(ls_strategy_open(&ls_strategy_mirrored, &job, &run));
    const ls_step_run *steps = ls_step_run_of(run);
    assert_int_equal(steps->components.count, 2); /* a program each */
    const ls_device_backend *whole = f->device[0]->backend;
    ls_device_backend broken = *whole;
    broken.queue_sync = lost;
    alarm(800); /* ends a test that waits for ever */
    must(ls_program_launch(steps->lowered.captured[1][LS_FULL], 1));
    f->device[0]->backend = &broken;
    ls_status status = run->functions->sync(run);
    f->device[0]->backend = whole;
    assert_non_null(status);
    assert_non_null(strstr(ls_status_text(status), "is lost")); /* the cause, not what follows */
    ls_status_free(status);
    run->functions->close(run);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_of_a_process_add),
                                       cmocka_unit_test(ranks_that_are_threads_add),
                                       cmocka_unit_test(spans_of_two_sizes_are_refused),
                                       cmocka_unit_test(verbs_that_cannot_act_are_refused),
                                       cmocka_unit_test(wrong_peers_are_refused),
                                       cmocka_unit_test(processes_without_ends_are_refused),
                                       cmocka_unit_test(who_waits_for_a_lost_device_is_woken)};
    return cmocka_run_group_tests(tests, setup, close_fixture);
}
