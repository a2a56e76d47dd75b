/* SPDX-License-Identifier: MIT */
/*
 * The values of a trial (trial.h), each from made-up steps, whose figures one computes by hand:
 * what is timed, learned, accounted, profiled, checked and reported. No training, no tolerance
 * except of sums.
 */
#include "bench/train/trial/trial.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 4, WARMUP = 1 };

static const ls_strategy alone = {.name = "made up"};
static const ls_data data = {.train = {.samples = 10}}; /* two full batches, and one of 2 samples */
static const ls_device_name cpu = {.kind = LS_DEVICE_CPU};

static ls_plan_of_case plan_of(const ls_case *config)
{
    return (ls_plan_of_case){
        .config = config,
        .strategy = &alone,
        .devices = (ls_device_name *)&cpu,
        .device_count = 1,
        .all_devices = 1,
        .warmup = WARMUP,
        .timed = 6,
        .job = {.data = &data, .batch = BATCH, .sampling.epochs = true, .records = 8}};
}

/* Steps [first, first + count) with these times; the loss of step s is 10 - s. */
typedef struct made_up_steps {
    double ms[8];
    ls_step_record records[8];
    ls_step_times times;
} made_up_steps;

static const ls_step_times *make(made_up_steps *m, uint64_t first, uint64_t count, const double *ms)
{
    uint64_t end_ns = 1000;
    m->times = (ls_step_times){.first = first,
                               .count = count,
                               .records = m->records,
                               .ms = m->ms,
                               .mark_ns = end_ns,
                               .host_ns = 7};
    for (uint64_t i = 0; i < count; i++) {
        m->ms[i] = ms[i];
        m->times.mean_ms += ms[i] / (double)count;
        m->records[i] = (ls_step_record){.end_ns = end_ns += (uint64_t)(ms[i] * 1e6),
                                         .loss = 10.0 - (double)(first + i)};
    }
    return &m->times;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* ---- Timed ----------------------------------------------------------------------------------- */

/* Two blocks of three steps, the second without its first step. Of the steps 1 to 6, steps 2 and 5
 * have 2 samples, all others 4. */
static void blocks_without_their_first_steps(void **state)
{
    (void)state;
    const ls_case config = {0};
    const ls_plan_of_case plan = plan_of(&config);
    const ls_request request = {.blocks = 2};
    ls_timed timed = ls_timed_begin(&plan, &request);
    made_up_steps m;
    ls_sample_ms each;
    ls_statistics s;
    double rate, ci95[2];
    assert_int_equal(timed.planned, 6);
    must(ls_timed_expect(&timed, 3));
    ls_timed_add(&timed, make(&m, 1, 2, (const double[]){5, 3}));
    ls_timed_add(&timed, make(&m, 3, 1, (const double[]){4}));
    ls_timed_end_block(&timed, 1, 0);
    must(ls_timed_expect(&timed, 3));
    ls_timed_add(&timed, make(&m, 4, 3, (const double[]){100, 2, 6}));
    assert_true(ls_timed_block_ms(&timed)[0] == 100);
    ls_timed_end_block(&timed, 4, 1);

    assert_int_equal(timed.blocks, 2);
    assert_int_equal(timed.calls, 3);
    assert_int_equal(timed.done, 6);
    assert_int_equal(timed.samples, 5);
    assert_int_equal(timed.ends[0], 3);
    assert_int_equal(timed.ends[1], 5);
    const double kept[] = {5, 3, 4, 2, 6};
    assert_memory_equal(timed.step_ms, kept, sizeof kept);
    assert_int_equal(timed.discarded, 1);
    assert_int_equal(timed.discarded_samples, 4);
    assert_true(near(ls_timed_mean_ms(&timed), 4));
    assert_int_equal(ls_timed_trained(&timed), 4 + 2 + 4 + 2 + 4);
    assert_true(near(ls_timed_step_samples(&timed), 16.0 / 5));
    assert_true(near(timed.work[0].done, 10) && near(timed.work[0].ms, 12));
    assert_true(near(timed.work[1].done, 16) && near(timed.work[1].ms, 20));
    must(ls_timed_statistics(&timed, &s, NULL));
    assert_true(s.median == 4 && s.mean == 4 && s.n == 5);
    must(ls_timed_sample_ms(&timed, &each));
    assert_true(each.median == 1 && near(each.mean, 20.0 / 16) && !each.even);
    must(ls_timed_rate(&timed, &rate, ci95));
    assert_true(near(rate, 16 / 20e-3));
    ls_timed_close(&timed);
}

/* Times that are means of several steps, or of workers that do not wait, are not looked at. */
static void steady_steps_are_looked_for_in_single_steps(void **state)
{
    (void)state;
    const ls_case config = {0};
    ls_plan_of_case plan = plan_of(&config);
    const ls_request request = {.blocks = 5, .precision = 0.01};
    ls_timed timed = ls_timed_begin(&plan, &request);
    size_t left_out;
    assert_int_equal(timed.planned, 6 * LS_STATISTICS_BLOCKS / 5);
    must(ls_timed_expect(&timed, 200));
    for (int i = 0; i < 200; i++)
        timed.step_ms[i] = i < 30 ? 9 + 0.01 * (i % 3) : 1 + 0.01 * (i % 3);
    timed.samples = 200;
    must(ls_timed_unsteady(&timed, 200, &left_out));
    assert_true(left_out >= 30 && left_out < 60);
    must(ls_timed_unsteady(&timed, 400, &left_out));
    assert_int_equal(left_out, 0);
    plan.job.ps.mode = LS_PS_ASYNC;
    must(ls_timed_unsteady(&timed, 200, &left_out));
    assert_int_equal(left_out, 0);
    ls_timed_close(&timed);
}

/* With a period, whole periods count, and no rate is the median step's. */
static void whole_periods_count(void **state)
{
    (void)state;
    const ls_case config = {0};
    ls_plan_of_case plan = plan_of(&config);
    const ls_request request = {.blocks = 5};
    plan.job.sampling.epochs = false;
    plan.job.update.period = 4;
    ls_timed timed = ls_timed_begin(&plan, &request);
    made_up_steps m;
    ls_sample_ms each;
    size_t left_out;
    must(ls_timed_expect(&timed, 16));
    ls_timed_add(&timed, make(&m, 1, 3, (const double[]){1, 9, 1}));
    must(ls_timed_unsteady(&timed, 3, &left_out)); /* shorter than a period */
    assert_int_equal(left_out, 0);
    ls_timed_end_block(&timed, 1, left_out);
    must(ls_timed_sample_ms(&timed, &each));
    assert_true(isnan(each.mean) && !each.even && !ls_timed_is_whole(&timed));
    ls_timed_add(&timed, make(&m, 4, 7, (const double[]){1, 1, 9, 1, 1, 1, 9}));
    must(ls_timed_unsteady(&timed, 7, &left_out));
    assert_int_equal(left_out, 3);
    ls_timed_end_block(&timed, 4, left_out);
    must(ls_timed_sample_ms(&timed, &each));
    assert_true(near(each.mean, (11 + 12) / 7.0 / BATCH) && !ls_timed_is_whole(&timed));
    assert_int_equal(ls_timed_counted(&timed), 7);
    ls_timed_close(&timed);
}

/* ---- Learned --------------------------------------------------------------------------------- */

static void a_loss_target_is_a_mean_of_ten_steps(void **state)
{
    (void)state;
    const ls_case config = {.target_kind = LS_TARGET_LOSS, .target = 5.5};
    ls_learned learned = ls_learned_begin();
    made_up_steps m;
    const double ms[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(isnan(learned.accuracy));
    ls_learned_add(&learned, &config, make(&m, 0, 8, ms), false);
    must(ls_learned_expect(&learned, 4));
    assert_false(
        learned.target_reached); /* the mean of steps 0 to 9 is 5.5, as soon as all are known */
    ls_learned_add(&learned, &config, make(&m, 8, 4, ms), true);
    assert_true(learned.target_reached);
    assert_int_equal(learned.steps_to_target, 10);
    assert_true(learned.ms_to_target == 10 && learned.ms == 12);
    assert_true(learned.loss_first == 10 && learned.loss_last == -1);
    assert_int_equal(learned.losses_kept, 4); /* of timed steps alone */
    assert_true(learned.losses[0] == 2 && learned.losses[3] == -1);
    ls_learned_close(&learned);
}

/* ---- Accounted and profiled ------------------------------------------------------------------ */

/* Two calls of 2 and 1 steps on two devices, the second of which only waits and gathers. */
static void note_calls(ls_accounts *accounts)
{
    static ls_account calls[] = {{2, 8}, {1, 4}};
    static ls_time_profile parts[4];
    parts[0].ns[LS_TIME_COMPUTE] = 6000000;
    parts[0].ns[LS_TIME_WAIT] = 2000000;
    parts[1].ns[LS_TIME_WAIT] = 8000000;
    parts[2].ns[LS_TIME_COMPUTE] = 4000000;
    parts[3].ns[LS_TIME_GATHER] = 3000000;
    accounts->calls = calls;
    accounts->parts = parts;
    accounts->count = 2;
}

static void forget_calls(ls_accounts *accounts)
{
    accounts->calls = NULL;
    accounts->parts = NULL;
    ls_account_close(accounts);
}

static void left_out_steps_are_not_accounted(void **state)
{
    (void)state;
    ls_accounts accounts;
    must(ls_account_open(&accounts, 2));
    note_calls(&accounts);
    ls_account_take(&accounts, (const double[]){6, 2, 4}, 1); /* 6 of 8 ms are left out */
    assert_int_equal(accounts.steps, 2);
    assert_true(near(accounts.ms, 2 + 4));
    assert_true(near(accounts.ns[LS_TIME_COMPUTE], 0.25 * 6e6 + 4e6));
    assert_true(near(accounts.ns[LS_TIME_WAIT], 0.25 * 2e6));
    assert_true(near(accounts.ns[LS_TIME_USES + LS_TIME_WAIT], 0.25 * 8e6));
    assert_true(near(accounts.ns[LS_TIME_USES + LS_TIME_GATHER], 3e6));
    note_calls(&accounts);
    accounts.count = 0; /* the first step alone was noted */
    ls_account_take(&accounts, NULL, 0);
    assert_int_equal(accounts.steps, 2);
    forget_calls(&accounts);
}

static void thousand_ops(const ls_run *run, ls_op_visit visit, void *context)
{
    (void)run;
    for (int i = 0; i < 1000; i++)
        visit(context, NULL);
}

/* 500 operations on each device cost 25 us to note, 1% of 2.5 ms. What was decided stays. */
static void steps_are_accounted_if_noting_costs_little(void **state)
{
    (void)state;
    const ls_case config = {0};
    const ls_device_name gpu = {.kind = LS_DEVICE_GPU};
    ls_plan_of_case plan = plan_of(&config);
    const ls_run_functions functions = {.each_op = thousand_ops};
    ls_run run = {.functions = &functions};
    const ls_session session = {.plan = &plan, .device_count = 2, .run = &run};
    ls_accounts accounts = {0};
    assert_true(ls_account_wanted(&accounts, &session, true, 0)); /* not known: in case */
    assert_false(ls_account_wanted(&accounts, &session, false, 0));
    assert_true(ls_account_wanted(&accounts, &session, true, 2.6));
    assert_true(ls_account_wanted(&accounts, &session, true, 2.4));
    accounts.which = LS_ACCOUNTS_UNKNOWN;
    assert_false(ls_account_wanted(&accounts, &session, true, 2.4));
    assert_false(ls_account_wanted(&accounts, &session, true, 2.6));
    accounts.which = LS_ACCOUNTS_UNKNOWN;
    assert_false(ls_account_wanted(&accounts, &session, false, 2.6));
    accounts.which = LS_ACCOUNTS_UNKNOWN;
    plan.devices = (ls_device_name *)&gpu;
    assert_false(ls_account_wanted(&accounts, &session, true, 0));
    assert_false(ls_account_wanted(&accounts, &session, true, 2.6));
}

/* Parts of the mean timed step, 5 ms, by accounts of 3 steps in 12 ms by their records, of which
 * the devices read 12 and 11. */
static void a_profile_is_parts_of_the_timed_mean(void **state)
{
    (void)state;
    const ls_case config = {0};
    const ls_plan_of_case plan = plan_of(&config);
    ls_session session = {.plan = &plan, .job = plan.job};
    const ls_timed timed = {.plan = &plan, .done = 3, .ms = 15};
    ls_accounts accounts;
    ls_profile profile = ls_profile_begin();
    assert_true(isnan(profile.bubble.measured) && isnan(profile.bubble.formula));
    must(ls_account_open(&accounts, 2));
    note_calls(&accounts);
    ls_account_take(&accounts, NULL, 0);
    must(ls_profile_take(&timed, 8, &session, &accounts, NULL, &profile));
    assert_int_equal(profile.accounted, 3);
    assert_true(near(profile.profiled_ms, (12.0 + 11) / 2 / 3));
    assert_true(near(profile.residual, (12.0 + 11) / 2 / 12 - 1));
    assert_true(near(profile.part_ms[LS_TIME_COMPUTE], 5 * 10.0 / 23));
    assert_true(near(profile.part_ms[LS_TIME_WAIT], 5 * 10.0 / 23));
    assert_true(near(profile.part_ms[LS_TIME_GATHER], 5 * 3.0 / 23));
    assert_true(near(profile.loads[0].busy_ms, 5 * 10.0 / 12));
    assert_true(near(profile.loads[0].wait_ms, 5 * 2.0 / 12));
    assert_true(near(profile.loads[1].gather_ms, 5 * 3.0 / 11));
    assert_true(near(profile.loads[1].wait_ms, 5 * 8.0 / 11));
    ls_profile_close(&profile);
    forget_calls(&accounts);
}

/* ---- Checked and reported -------------------------------------------------------------------- */

static void the_first_failure_stays(void **state)
{
    (void)state;
    ls_verdict verdict = {0};
    made_up_steps m;
    make(&m, 5, 3, (const double[]){1, 1, 1});
    ls_check_losses(&m.times, &verdict);
    assert_false(verdict.failed);
    m.records[1].loss = INFINITY;
    m.records[2].loss = NAN;
    ls_check_losses(&m.times, &verdict);
    ls_verdict_fail(&verdict, "another");
    assert_true(verdict.failed);
    assert_string_equal(verdict.reason,
                        "diverged: the loss is infinite at step 6; use a smaller --lr, or --clip");
}

static void values_that_are_not_finite_are_named(void **state)
{
    (void)state;
    ls_variable items[] = {{.name = "a", .offset = 0, .count = 2},
                           {.name = "b", .offset = 2, .count = 2}};
    const ls_variables variables = {.items = items, .count = 2, .elements = 4};
    char reason[LS_REASON_SIZE] = "";
    assert_false(ls_values_diverged(&variables, SIZE_MAX, 9, reason));
    assert_true(ls_values_diverged(&variables, 3, 9, reason));
    assert_string_equal(reason, "diverged: b element 1 is infinite or not a number after step 9; "
                                "use a smaller --lr, or --clip");
}

static void memory_is_reported_and_no_servers(void **state)
{
    (void)state;
    const ls_case config = {0};
    const ls_plan_of_case plan = plan_of(&config);
    const ls_session session = {.plan = &plan};
    ls_reported reported = {0};
    must(ls_report_warm(&session, &reported));
    must(ls_report_memory(&session, &reported));
    must(ls_report_servers(&session, NULL, &reported));
    assert_non_null(reported.ledgers);
    assert_true(reported.rss_peak > 1000000);
    assert_int_equal(reported.server_count, 0);
    ls_reported_close(&reported);
    assert_null(reported.ledgers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_without_their_first_steps),
        cmocka_unit_test(steady_steps_are_looked_for_in_single_steps),
        cmocka_unit_test(whole_periods_count),
        cmocka_unit_test(a_loss_target_is_a_mean_of_ten_steps),
        cmocka_unit_test(left_out_steps_are_not_accounted),
        cmocka_unit_test(steps_are_accounted_if_noting_costs_little),
        cmocka_unit_test(a_profile_is_parts_of_the_timed_mean),
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(values_that_are_not_finite_are_named),
        cmocka_unit_test(memory_is_reported_and_no_servers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
