/* SPDX-License-Identifier: MIT */
/*
 * What a step costs is in its tasks: summed over the tasks of each strategy, the elements of
 * messages are those of the closed form of traffic, floating-point operations are those of
 * the model, and each end of a message names its partner. Without training;
 * no tolerance.
 */
#include "common/nn/divide/places.h"
#include "impl/step/run/run.h"
#include "impl/strategies.h"
#include "impl/tests/devices_fixture.h"
#include "impl/tests/set_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { DEVICES = 4, NODES = 16, BATCH = 8, CLASSES = 2 };

static int setup(void **state)
{
    static fixture f;
    open_fixture(&f, DEVICES, "mlp:6-5-4-3-2", "synthetic:16");
    f.job.batch = BATCH;
    f.job.records = 4;
    *state = &f;
    return 0;
}

/* ---- Sums over a program's tasks ------------------------------------------------------------- */

typedef struct costs {
    double flops;            /* of passes */
    uint64_t sent, received; /* bytes of messages between devices */
} costs;

static bool is_pass(const ls_task *task)
{
    return !strcmp(task->verb, "forward") || !strcmp(task->verb, "backward");
}

/* Of a message: from one device to another. An all-reduce's ends are. */
static bool is_apart(const ls_step_plan *plan, const ls_task *task)
{
    const int own = plan->lanes.items[task->lane].member, peer = task->end.peer;
    return peer < 0 || plan->members[own].device != plan->members[peer].device;
}

static void add_task(const ls_step_plan *plan, const ls_task *task, costs *sum)
{
    const ls_task_end *end = &task->end;
    if (is_pass(task)) {
        assert_true(task->flops > 0 && task->bytes > 0);
        sum->flops += task->flops;
    }
    if (task->copy.to) {
        assert_true(task->bytes == 2.0 * (double)task->copy.bytes);
        assert_true(task->copy.from_member != task->copy.to_member);
        sum->sent += task->copy.crosses ? task->copy.bytes : 0;
        sum->received += task->copy.crosses ? task->copy.bytes : 0;
    }
    if (end->channel < 0 || end->announces || !is_apart(plan, task))
        return;
    assert_true(end->channel == LS_MESSAGES ? end->peer >= 0 : end->peer < 0);
    sum->sent += end->sent * sizeof(float);
    sum->received += end->received * sizeof(float);
}

static costs costs_of(const ls_step_run *run, int kind)
{
    const ls_step_program *p = &run->program[kind];
    costs sum = {0};
    for (size_t t = 0; t < p->task_count; t++)
        add_task(&run->plan, &p->tasks[t], &sum);
    return sum;
}

/* ---- Strategies ------------------------------------------------------------------------------ */

static const struct strategy_case {
    const char *name;
    int devices;
    const char *option[3][2];
    const char *allreduce; /* NULL: ring */
    bool exact, by_arrival;
} cases[] = {
    {.name = "single", .devices = 1},
    {.name = "independent", .devices = 4},
    {.name = "towers", .devices = 4},
    {.name = "towers", .devices = 3, .option = {{"towers-staged", "yes"}}},
    {.name = "mirrored", .devices = 4},
    {.name = "mirrored", .devices = 3, .allreduce = "tree"},
    {.name = "mirrored", .devices = 4, .allreduce = "direct"},
    {.name = "mirrored", .devices = 4, .allreduce = "halving-doubling"},
    {.name = "mirrored", .devices = 4, .allreduce = "canonical", .exact = true},
    {.name = "zero", .devices = 4},
    {.name = "local-sgd", .devices = 4, .option = {{"local-sgd-every", "1"}}},
    {.name = "gossip", .devices = 4},
    {.name = "model-parallel", .devices = 3},
    {.name = "pipeline", .devices = 3},
    {.name = "hybrid", .devices = 4},
    {.name = "hybrid", .devices = 4, .option = {{"hybrid-inner", "pipeline"}}},
    {.name = "hybrid", .devices = 4, .option = {{"hybrid-inner", "zero"}, {"zero-stage", "3"}}},
    {.name = "ps", .devices = 3},
    {.name = "ps", .devices = 3, .option = {{"ps-mode", "async"}}, .by_arrival = true},
};

static ls_step_run *open_case(const fixture *f, const struct strategy_case *c, int *place,
                              ls_job *job)
{
    const ls_strategy *strategy;
    ls_run *run;
    *job = f->job;
    job->device_count = (size_t)c->devices;
    job->exact.on = c->exact;
    job->exact.shards = BATCH;
    job->exchange.bucket_bytes = 64; /* several buckets */
    must(ls_strategy_find(c->name, &strategy));
    for (int i = 0; c->option[i][0]; i++)
        set_option(job, strategy, c->option[i][0], c->option[i][1]);
    assert_true(job->model->graph->count <= NODES);
    if (c->allreduce)
        must(ls_allreduce_find(c->allreduce, &job->exchange.allreduce));
    if (ls_strategy_holds(strategy))
        job->variable_device = f->device[0];
    if (ls_strategy_serves(strategy))
        job->variable_device = f->device[DEVICES - 1];
    ls_strategy_resolve(strategy, job, 1);
    if (job->mesh.rest == LS_STAGE) {
        const int places = strcmp(c->name, "hybrid") ? c->devices : 2;
        must(ls_places_balance(job->model->graph, places, place));
        job->division.place = place;
    }
    must(ls_strategy_open(strategy, job, &run));
    return ls_step_run_of(run);
}

/* The model's products; for each class of each sample five operations of the loss; and for each
 * element that goes to another place, ReLU's mask of its gradient, elsewhere part of the product.
 */
static double flops_of(const ls_step_run *run, const ls_graph *graph)
{
    const ls_graph_parts *parts = &run->plan.parts;
    double each = ls_graph_flops(graph) + 5 * CLASSES;
    for (size_t b = 0; b < parts->border_count; b++)
        each += (double)parts->borders[b].samples;
    return each * BATCH;
}

static void tasks_have_what_a_step_costs(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct strategy_case *c = &cases[i];
        int place[NODES];
        ls_job job;
        ls_step_run *run = open_case(f, c, place, &job);
        const int kind = job.update.period ? LS_LAST : LS_FULL; /* in which replicas average */
        const costs sum = costs_of(run, kind);
        const double model = flops_of(run, f->model->graph);
        const ls_traffic formula = ls_build_formula(&run->resources, kind);
        if (sum.sent + (c->by_arrival ? sum.received : 0) != formula.bytes_sent ||
            (!c->by_arrival && sum.received != sum.sent))
            fail_msg("%s, case %zu: its tasks send %lu bytes and receive %lu; the formula has %lu",
                     c->name, i, (unsigned long)sum.sent, (unsigned long)sum.received,
                     (unsigned long)formula.bytes_sent);
        if (!c->exact && sum.flops != model) /* exact mode adds shards, too */
            fail_msg("%s, case %zu: passes have %.0f operations, and the model has %.0f", c->name,
                     i, sum.flops, model);
        run->base.functions->close(&run->base);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tasks_have_what_a_step_costs)};
    return cmocka_run_group_tests(tests, setup, close_fixture);
}
