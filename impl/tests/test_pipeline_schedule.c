/* SPDX-License-Identifier: MIT */
/*
 * A pipeline's schedules: order of passes per stage and number of micro-batches that it holds, as
 * planned and as recorded in a step's program, equal the definition; step times equal the closed
 * forms. Tolerance: 1e-12 of a time.
 */
#include "common/base/tests/must.h"
#include "impl/pipeline_schedule.h"

#include "common/device/cpu/cpu.h"
#include "impl/step/run.h"
#include "impl/strategies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 4, MICROBATCHES = 8, PASSES = 2 * MICROBATCHES };

/* A stage's passes: the number of a micro-batch; a backward pass is -1 - number. */
typedef struct order {
    int passes[PASSES];
    int count;
} order;

/* ---- The definition ------------------------------------------------------------------------- */

/* PipeDream-flush: p - 1 - s forward passes, then forward and backward alternately, then the
 * remaining backward passes. GPipe: all forward, all backward. */
static order defined_order(const ls_schedule *s, int stage)
{
    order o = {.count = 0};
    const int m = s->microbatches;
    int ahead = s->one_f_one_b ? s->stages - 1 - stage : m, back = 0;
    ahead = ahead < m ? ahead : m;
    for (int i = 0; i < ahead; i++)
        o.passes[o.count++] = i;
    for (int i = ahead; i < m; i++) {
        o.passes[o.count++] = i;
        o.passes[o.count++] = -1 - back++;
    }
    while (back < m)
        o.passes[o.count++] = -1 - back++;
    return o;
}

static int live_peak(const order *o)
{
    int live = 0, peak = 0;
    for (int i = 0; i < o->count; i++) {
        live += o->passes[i] >= 0 ? 1 : -1;
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void check_order(const ls_schedule *s, int stage, const order *got)
{
    const order want = defined_order(s, stage);
    const int bound = s->one_f_one_b ? s->stages - stage : s->microbatches;
    const int most = bound < s->microbatches ? bound : s->microbatches;
    assert_int_equal(got->count, want.count);
    for (int i = 0; i < want.count; i++)
        assert_int_equal(got->passes[i], want.passes[i]);
    assert_int_equal(live_peak(got), most);
    assert_int_equal(ls_schedule_in_flight(s, stage), most);
}

/* ---- As planned ----------------------------------------------------------------------------- */

static void note_passes(const ls_schedule *s, order *orders)
{
    ls_pass pass;
    for (int tick = 0; tick < ls_schedule_ticks(s); tick++)
        for (int stage = s->stages; stage-- > 0;)
            if (ls_schedule_at(s, tick, stage, &pass)) {
                order *o = &orders[pass.stage];
                o->passes[o->count++] = pass.backward ? -1 - pass.microbatch : pass.microbatch;
            }
}

static void test_planned(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROBATCHES; m++)
            for (int kind = 0; kind < 2; kind++) {
                const ls_schedule s = {p, m, kind == 1};
                order orders[STAGES] = {0};
                note_passes(&s, orders);
                for (int stage = 0; stage < p; stage++)
                    check_order(&s, stage, &orders[stage]);
            }
}

/* Progress of a stage: its forward and its backward passes. */
typedef struct progress {
    int done[2][STAGES];
} progress;

/* In this order, each pass finds its inputs ready, and room for its outputs. */
static void check_pass(const ls_schedule *s, const progress *at, const ls_pass *pass)
{
    const int stage = pass->stage, m = pass->microbatch;
    const bool last = stage + 1 == s->stages;
    assert_int_equal(at->done[pass->backward][stage], m);
    if (pass->backward) {
        assert_true(at->done[0][stage] > m);
        assert_true(last || at->done[1][stage + 1] > m);
        return;
    }
    assert_true(stage == 0 || at->done[0][stage - 1] > m);
    assert_true(last || m - at->done[1][stage + 1] < ls_schedule_in_flight(s, stage + 1));
}

static void test_dependences(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROBATCHES; m++)
            for (int kind = 0; kind < 2; kind++) {
                const ls_schedule s = {p, m, kind == 1};
                progress at = {0};
                ls_pass pass;
                for (int tick = 0; tick < ls_schedule_ticks(&s); tick++)
                    for (int stage = p; stage-- > 0;)
                        if (ls_schedule_at(&s, tick, stage, &pass)) {
                            check_pass(&s, &at, &pass);
                            at.done[pass.backward][stage]++;
                        }
            }
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void check_span(const ls_schedule *s, const ls_stage_time *times, double want)
{
    double got;
    must(ls_schedule_span(s, times, &got));
    assert_true(fabs(got - want) <= 1e-12 * want);
}

static void test_span(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROBATCHES; m++) {
            ls_stage_time equal[STAGES], unequal[STAGES];
            double sum = 0, most[2] = {0, 0};
            for (int s = 0; s < p; s++) {
                equal[s] = (ls_stage_time){1, 2, 0.5};
                unequal[s] = (ls_stage_time){1 + 3 * s % 4, 1 + 5 * s % 3, 0};
                sum += unequal[s].forward + unequal[s].backward;
                most[0] = fmax(most[0], unequal[s].forward);
                most[1] = fmax(most[1], unequal[s].backward);
            }
            for (int kind = 0; kind < 2; kind++)
                check_span(&(ls_schedule){p, m, kind == 1}, equal, 3.0 * (m + p - 1) + 0.5);
            check_span(&(ls_schedule){p, m, false}, unequal, sum + (m - 1) * (most[0] + most[1]));
        }
    /* 1F1B by hand. Stage 0: F0 0-2, F1 2-4, for whose output stage 1 has room at 5; B0 5-6; F2
     * 6-8, room at 8; B1 8-9, B2 11-12. Stage 1: F0 2-4, B0 4-5, F1 5-7, B1 7-8, F2 8-10, B2 10-11.
     */
    const ls_stage_time slow_forward[] = {{2, 1, 0}, {2, 1, 4}};
    check_span(&(ls_schedule){2, 3, true}, slow_forward, 11 + 4);
}

/* ---- As recorded ---------------------------------------------------------------------------- */

typedef struct fixture {
    ls_machine *machine;
    ls_device *devices[STAGES];
    ls_model *model;
    ls_data *data;
    int place[2 * STAGES + 1];
    ls_job job;
} fixture;

/* An input, STAGES - 1 dense layers with a ReLU each, another dense layer, and the loss: each stage
 * has one dense layer and what follows it. */
static void open_all(fixture *f, const ls_schedule *s)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_machine_options options = {.cpu_devices = s->stages};
    memset(f, 0, sizeof *f);
    must(ls_machine_open(&options, &f->machine));
    for (int d = 0; d < s->stages; d++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = d, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->devices[d]));
    }
    must(ls_model_open("mlp:6-5-5-5-3", &f->model));
    must(ls_data_open("synthetic:64", &f->model->need, &f->data));
    assert_int_equal(f->model->graph->count, sizeof f->place / sizeof *f->place);
    int dense = -1;
    for (int n = 0; n < f->model->graph->count; n++) {
        dense += strcmp(f->model->graph->nodes[n].layer->name, "dense") == 0;
        f->place[n] = dense < 0 ? 0 : dense < s->stages ? dense : s->stages - 1;
    }
    f->job = (ls_job){.model = f->model,
                      .data = f->data,
                      .devices = f->devices,
                      .device_count = (size_t)s->stages,
                      .division.place = f->place,
                      .mesh.rest = LS_STAGE,
                      .division.microbatches = s->microbatches,
                      .batch = 4 * MICROBATCHES,
                      .seed = 1,
                      .sampling.shuffle = true,
                      .faults.flip_replica = -1,
                      .update.schedule = {.initial = 0.1},
                      .kernels.capture = true,
                      .records = 4};
    must(ls_declared_set(&f->job.options, &ls_option_pipeline_schedule,
                         s->one_f_one_b ? "1f1b" : "gpipe"));
    must(ls_optimizer_parse("sgd", &f->job.update.optimizer));
}

static void close_all(fixture *f)
{
    for (int d = 0; d < STAGES; d++)
        ls_device_close(f->devices[d]);
    ls_data_close(f->data);
    ls_model_close(f->model);
    ls_machine_close(f->machine);
}

/* The operations of a stage's queue in the program. */
static const cpu_list *list_of(const ls_step_run *run, int stage)
{
    const cpu_program *program = (const cpu_program *)run->lowered.captured[0][LS_FULL];
    const cpu_queue *queue = (const cpu_queue *)run->queues[stage].queue;
    for (size_t i = 0; i < program->list_count; i++)
        if (program->lists[i].queue == queue)
            return &program->lists[i];
    fail_msg("stage %d has no list", stage);
    return NULL;
}

/* The first operation of a net's forward pass, or the last of its backward pass. */
static const ls_op *end_of(const ls_net *net, int nodes, bool backward)
{
    for (int n = 0; n < nodes; n++) {
        const ls_op_list *ops = ls_net_node_ops(net, n, backward);
        if (ops->count)
            return ops->items[backward ? ops->count - 1 : 0];
    }
    fail_msg("a net without operations");
    return NULL;
}

/* A stage's passes in the program. Micro-batches that share memory share a net: a pass of it
 * belongs to the first of them without one. */
static order recorded_order(const ls_step_run *run, int stage, int microbatches)
{
    const ls_slice *slice = run->resources.members[stage].slice[LS_FULL];
    const cpu_list *list = list_of(run, stage);
    const int nodes = run->plan.parts.parts[stage].graph->count;
    order o = {.count = 0};
    bool seen[2][MICROBATCHES] = {{false}};
    for (size_t i = 0; i < list->count; i++) {
        if (list->nodes[i].kind != CPU_RUN)
            continue;
        for (int k = 0; k < 2 * microbatches; k++) {
            const bool backward = k >= microbatches;
            const int number = backward ? k - microbatches : k;
            const ls_net *net = ls_slice_piece_net(slice, number);
            if (seen[backward][number] || list->nodes[i].op != end_of(net, nodes, backward))
                continue;
            seen[backward][number] = true;
            o.passes[o.count++] = backward ? -1 - number : number;
            break;
        }
    }
    return o;
}

/* A stage's activations are those of the micro-batches that it holds. */
static void test_recorded(void **state)
{
    (void)state;
    for (int p = 2; p <= STAGES; p++)
        for (int m = 1; m <= MICROBATCHES; m *= 2)
            for (int kind = 0; kind < 2; kind++) {
                const ls_schedule s = {p, m, kind == 1};
                fixture f;
                ls_run *run;
                open_all(&f, &s);
                must(ls_strategy_open(&ls_strategy_pipeline, &f.job, &run));
                for (int stage = 0; stage < p; stage++) {
                    const order got = recorded_order(ls_step_run_of(run), stage, m);
                    const ls_graph *graph = ls_step_run_of(run)->plan.parts.parts[stage].graph;
                    const size_t held =
                        ls_device_ledger(f.devices[stage]).in_use[LS_MEMORY_ACTIVATIONS];
                    check_order(&s, stage, &got);
                    assert_int_equal(held, (size_t)live_peak(&got) *
                                               ls_net_activation_bytes(graph, sizeof(float),
                                                                       4 * MICROBATCHES / m));
                }
                run->functions->close(run);
                close_all(&f);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned),
        cmocka_unit_test(test_dependences),
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
