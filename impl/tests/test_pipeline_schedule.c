/* SPDX-License-Identifier: MIT */
/*
 * A pipeline's schedules: order of passes per stage and number of micro-batches that it holds, as
 * planned and as recorded in a step's program, equal the definition; step times equal the closed
 * forms. Tolerance: 1e-12 of a time.
 */
#include "common/base/tests/must.h"
#include "impl/pipeline/pipeline_times.h"

#include "common/device/cpu/cpu.h"
#include "impl/step/run/run.h"
#include "impl/strategies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 4, MICROBATCHES = 8, CHUNKS = 4, PASSES = 3 * (MICROBATCHES + STAGES) * CHUNKS };

/* A pass as a number: forward first, then backward, then weights; see number_of. */
typedef struct order {
    int passes[PASSES];
    int count;
} order;

static int number_of(ls_pass_kind kind, int chunk, int microbatch)
{
    return (int)kind * 1000 + chunk * 100 + microbatch;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static const ls_schedule_rule *const rules[] = {&ls_schedule_gpipe, &ls_schedule_1f1b,
                                                &ls_schedule_interleaved, &ls_schedule_zb_h1,
                                                &ls_schedule_zb_h2};
enum { GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1, ZB_H2, RULES };

/* Calls `check` for each schedule with up to so many stages, micro-batches and chunks. */
static void each_schedule(void (*check)(const ls_schedule *s, int rule))
{
    for (int rule = 0; rule < RULES; rule++)
        for (int p = 1; p <= STAGES; p++)
            for (int m = 1; m <= MICROBATCHES; m++)
                for (int v = 2; v <= CHUNKS; v++) {
                    const ls_schedule s = {p, m, rules[rule], rule == INTERLEAVED ? v : 1};
                    if (rule == INTERLEAVED ? m % p == 0 : v == 2)
                        check(&s, rule);
                }
}

/* ---- The definition ------------------------------------------------------------------------- */

static void put(order *o, ls_pass_kind kind, int chunk, int microbatch)
{
    o->passes[o->count++] = number_of(kind, chunk, microbatch);
}

/* GPipe: all forward, all backward. 1F1B and zb-h1: p - 1 - i forward passes, then in turn; zb-h2:
 * 2(p - i) - 2. Megatron's interleaving: groups of p micro-batches through one chunk after the
 * other. Behind the data pass of micro-batch j the weight pass of j - i, or j - 2i. */
static order defined_order(const ls_schedule *s, int rule, int i)
{
    order o = {.count = 0};
    const int p = s->stages, m = s->microbatches, v = s->chunks, all = m * v;
    const int ahead[RULES] = {m, p - 1 - i, 2 * (p - i - 1) + (v - 1) * p, p - 1 - i,
                              2 * (p - i) - 2};
    const int lag = rule == ZB_H1 ? i : 2 * i;
    int forward = 0, weights = 0;
    for (int back = 0; back < all; back++) {
        for (int until = least(ahead[rule] + back + 1, all); forward < until; forward++)
            put(&o, LS_PASS_FORWARD, forward / p % v, forward / (p * v) * p + forward % p);
        put(&o, LS_PASS_BACKWARD, v - 1 - back / p % v, back / (p * v) * p + back % p);
        if (rule >= ZB_H1 && back >= lag)
            put(&o, LS_PASS_WEIGHTS, 0, weights++);
    }
    while (rule >= ZB_H1 && weights < m)
        put(&o, LS_PASS_WEIGHTS, 0, weights++);
    return o;
}

/* The contract's closed forms. */
static int in_flight(const ls_schedule *s, int rule, int i)
{
    const int p = s->stages, m = s->microbatches, v = s->chunks;
    const int most[RULES] = {m, p - i, 2 * (p - i - 1) + (v - 1) * p + 1, p - i, 2 * (p - i) - 1};
    return least(m * v, most[rule]);
}

static int weights_waiting(const ls_schedule *s, int rule, int i)
{
    return rule == ZB_H1   ? least(s->microbatches, i + 1)
           : rule == ZB_H2 ? least(s->microbatches, 2 * i + 1)
                           : 0;
}

/* ---- As planned ----------------------------------------------------------------------------- */

static void check_order(const ls_schedule *s, int rule, int stage, const order *got)
{
    const order want = defined_order(s, rule, stage);
    assert_int_equal(got->count, want.count);
    for (int i = 0; i < want.count; i++)
        assert_int_equal(got->passes[i], want.passes[i]);
}

static void check_planned(const ls_schedule *s, int rule)
{
    ls_pass *passes;
    size_t count;
    order orders[STAGES] = {0};
    must(ls_schedule_order(s, &passes, &count));
    for (size_t i = 0; i < count; i++) {
        order *o = &orders[passes[i].stage];
        put(o, passes[i].kind, passes[i].chunk, passes[i].microbatch);
    }
    free(passes);
    for (int i = 0; i < s->stages; i++) {
        ls_schedule_most most;
        check_order(s, rule, i, &orders[i]);
        must(ls_schedule_count(s, i, 0, &most));
        assert_int_equal(most.in_flight, in_flight(s, rule, i));
        assert_int_equal(most.weights_waiting, weights_waiting(s, rule, i));
        if (rule == ZB_H1) /* on every stage */
            assert_int_equal(most.held, least(s->microbatches, s->stages));
        else if (rule == ZB_H2)
            assert_int_equal(most.held, least(s->microbatches, 2 * s->stages - 1));
        else if (rule != INTERLEAVED)
            assert_int_equal(most.held, in_flight(s, rule, i));
    }
}

static void test_planned(void **state)
{
    (void)state;
    each_schedule(check_planned);
}

/* A batch with fewer micro-batches than full groups has the same order without those it lacks. */
static void test_smaller(void **state)
{
    (void)state;
    for (int m = 1; m <= MICROBATCHES; m++) {
        const ls_schedule s = {3, m, &ls_schedule_interleaved, 2};
        ls_pass *passes;
        size_t count;
        must(ls_schedule_order(&s, &passes, &count));
        assert_int_equal(count, 2 * 2 * 3 * m);
        free(passes);
    }
}

/* Passes that have run, by part. */
typedef struct progress {
    int done[LS_PASS_KINDS][STAGES * CHUNKS];
    int held[STAGES * CHUNKS], most[STAGES * CHUNKS];
} progress;

/* In this order, each pass finds its inputs ready, and memory of its part. */
static void check_pass(const ls_schedule *s, progress *at, const ls_pass *pass)
{
    const int part = pass->chunk * s->stages + pass->stage, j = pass->microbatch;
    const bool last = part + 1 == s->stages * s->chunks;
    assert_int_equal(at->done[pass->kind][part]++, j);
    switch (pass->kind) {
    case LS_PASS_FORWARD:
        assert_true(part == 0 || at->done[LS_PASS_FORWARD][part - 1] > j);
        assert_true(++at->held[part] <= at->most[part]);
        break;
    case LS_PASS_BACKWARD:
        assert_true(at->done[LS_PASS_FORWARD][part] > j);
        assert_true(last || at->done[LS_PASS_BACKWARD][part + 1] > j);
        at->held[part] -= !s->rule->split;
        break;
    default:
        assert_true(at->done[LS_PASS_BACKWARD][part] > j);
        at->held[part]--;
    }
}

static void check_dependences(const ls_schedule *s, int rule)
{
    progress at = {0};
    ls_pass *passes;
    size_t count;
    (void)rule;
    must(ls_schedule_order(s, &passes, &count));
    for (int part = 0; part < s->stages * s->chunks; part++) {
        ls_schedule_most most;
        must(ls_schedule_count(s, part % s->stages, part / s->stages, &most));
        at.most[part] = most.held;
    }
    for (size_t i = 0; i < count; i++)
        check_pass(s, &at, &passes[i]);
    free(passes);
}

static void test_dependences(void **state)
{
    (void)state;
    each_schedule(check_dependences);
}

/* A schedule whose stages wait for each other is refused: the last stage wants the first backward
 * pass of chunk 1 before this chunk's forward pass. */
static void test_deadlock(void **state)
{
    (void)state;
    const ls_schedule_rule wrong = {.name = "wrong", .ahead = 1};
    const ls_schedule s = {2, 2, &wrong, 2};
    ls_pass *passes;
    size_t count;
    ls_status status = ls_schedule_order(&s, &passes, &count);
    assert_non_null(status);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
    assert_true(!passes && !count);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static ls_schedule_times span_of(const ls_schedule *s, const ls_stage_time *times)
{
    ls_schedule_times got;
    must(ls_schedule_span(s, times, &got));
    return got;
}

static void check_near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-12 * fmax(1, want));
}

/* The contract's closed forms of equal stages. */
static double defined_step(const ls_schedule *s, int rule, const ls_stage_time *t)
{
    const double p = s->stages, m = s->microbatches, F = t->forward, B = t->backward,
                 W = t->weights, T = F + B + W;
    const double idle[RULES] = {T, T, T / s->chunks, fmax(F, fmax(B, F + B - W)),
                                fmax(F, fmax(B - F, F + B - 2 * W))};
    return m * T + (p - 1) * idle[rule];
}

static void check_equal(const ls_schedule *s, int rule)
{
    static const ls_stage_time all[] = {{1, 1, 1, 0}, {2, 3, 1, 0}, {1, 2, 1.5, 0}, {3, 2, 2, 0}};
    const int least_m = rule == ZB_H1 ? s->stages : rule == ZB_H2 ? 2 * s->stages - 1 : 1;
    for (size_t k = 0; k < sizeof all / sizeof *all && s->microbatches >= least_m; k++) {
        ls_stage_time one = all[k], times[STAGES];
        if (rule < ZB_H1)
            one.weights = 0;
        for (int i = 0; i < s->stages; i++)
            times[i] = one;
        const ls_schedule_times got = span_of(s, times);
        check_near(got.step, defined_step(s, rule, &one));
        if (k == 0 && rule == ZB_H2)
            check_near(got.idle, 0);
        for (int i = 0; i < s->stages; i++)
            times[i].rest = 0.5;
        check_near(span_of(s, times).step, defined_step(s, rule, &one) + 0.5);
    }
}

static void test_equal(void **state)
{
    (void)state;
    each_schedule(check_equal);
}

static void check_share(const ls_schedule *s, int rule)
{
    const double p = s->stages, m = s->microbatches;
    const double units[RULES] = {m, m, s->chunks * m, 3 * m, 3 * m};
    check_near(ls_schedule_equal(s), (p - 1) / (units[rule] + p - 1));
}

static void test_share(void **state)
{
    (void)state;
    each_schedule(check_share);
}

static void test_span(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROBATCHES; m++) {
            ls_stage_time unequal[STAGES];
            double sum = 0, most[2] = {0, 0};
            for (int s = 0; s < p; s++) {
                unequal[s] = (ls_stage_time){1 + 3 * s % 4, 1 + 5 * s % 3, 0, 0};
                sum += unequal[s].forward + unequal[s].backward;
                most[0] = fmax(most[0], unequal[s].forward);
                most[1] = fmax(most[1], unequal[s].backward);
            }
            check_near(span_of(&(ls_schedule){p, m, &ls_schedule_gpipe, 1}, unequal).step,
                       sum + (m - 1) * (most[0] + most[1]));
        }
    /* 1F1B by hand. Stage 0: F0 0-2, F1 2-4, B0 5-6, F2 6-8, B1 8-9, B2 11-12. Stage 1: F0 2-4, B0
     * 4-5, F1 5-7, B1 7-8, F2 8-10, B2 10-11: 9 of 9. */
    const ls_stage_time slow_forward[] = {{2, 1, 0, 0}, {2, 1, 0, 4}};
    const ls_schedule_times got = span_of(&(ls_schedule){2, 3, &ls_schedule_1f1b, 1}, slow_forward);
    check_near(got.step, 11 + 4);
    check_near(got.longest, 12);
    check_near(got.idle, 0.25);
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
    must(ls_declared_set(&f->job.options, &ls_option_pipeline_schedule, s->rule->name));
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
            put(&o, backward ? LS_PASS_BACKWARD : LS_PASS_FORWARD, 0, number);
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
            for (int rule = 0; rule <= ONE_F_ONE_B; rule++) {
                const ls_schedule s = {p, m, rules[rule], 1};
                fixture f;
                ls_run *run;
                open_all(&f, &s);
                must(ls_strategy_open(&ls_strategy_pipeline, &f.job, &run));
                for (int stage = 0; stage < p; stage++) {
                    const order got = recorded_order(ls_step_run_of(run), stage, m);
                    const ls_graph *graph = ls_step_run_of(run)->plan.parts.parts[stage].graph;
                    const size_t held =
                        ls_device_ledger(f.devices[stage]).in_use[LS_MEMORY_ACTIVATIONS];
                    check_order(&s, rule, stage, &got);
                    assert_int_equal(held, (size_t)in_flight(&s, rule, stage) *
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
        cmocka_unit_test(test_planned),     cmocka_unit_test(test_smaller),
        cmocka_unit_test(test_dependences), cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_equal),       cmocka_unit_test(test_share),
        cmocka_unit_test(test_span),        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
