/* SPDX-License-Identifier: MIT */
/*
 * Moving averages of parameters: after each step a += (1 - d)(w - a), d = min(0.9999, (1 + t) / (10
 * + t)), where t counts updates. Evaluation uses them and does not change the parameters, for any
 * strategy. Tolerance: 1e-6 for the average; all else is compared bitwise.
 */
#include "impl/step/run/run.h"
#include "impl/strategies.h"
#include "impl/tests/devices_fixture.h"
#include "impl/tests/set_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

enum { DEVICES = 2, STEPS = 5, SAMPLES = 2000, PARAMETERS = 6 * 5 + 5 + 5 * 3 + 3 };

static int setup(void **state)
{
    static fixture f;
    open_fixture(&f, DEVICES, "mlp:6-5-3", "synthetic:12000");
    assert_int_equal(f.model->graph->variables.elements, PARAMETERS);
    f.job.variable_device = f.device[1];
    f.job.batch = 10;
    f.job.sampling.shuffle = true;
    f.job.update.average = 0.9999;
    f.job.exchange.bucket_bytes = 64;
    f.job.ps = (ls_ps_options){.ranks = 1, .servers = 1};
    f.job.records = STEPS;
    *state = &f;
    return 0;
}

/* The averages of the whole model. */
static void averages_of(ls_run *run, float *out)
{
    must(ls_steps_gather(ls_step_run_of(run), LS_AVERAGES, ls_job_elements(run->job), out));
}

static const ls_evaluating how = {.samples = SAMPLES, .outputs = true};

/* Evaluates these parameters by `single`. */
static ls_evaluation evaluation_of(const ls_job *like, const float *parameters)
{
    ls_job job = *like;
    ls_run *run;
    ls_evaluation found;
    job.update.average = 0;
    job.device_count = 1;
    must(ls_strategy_open(&ls_strategy_single, &job, &run));
    must(ls_run_load(run, parameters));
    must(run->functions->evaluate(run, &how, &found));
    run->functions->close(run);
    return found;
}

static void check(fixture *f, const char *name, size_t devices, bool staged)
{
    const ls_strategy *strategy;
    ls_job job = f->job;
    ls_run *run;
    float w[PARAMETERS], after[PARAMETERS], average[PARAMETERS];
    double want[PARAMETERS];
    ls_evaluation found, same, other;
    job.device_count = devices;
    must(ls_strategy_find(name, &strategy));
    if (staged)
        set_option(&job, strategy, "towers-staged", "yes");
    must(ls_strategy_open(strategy, &job, &run));
    ls_variables_initialize(&f->model->graph->variables, 1, w);
    must(ls_run_load(run, w));
    for (int i = 0; i < PARAMETERS; i++)
        want[i] = (double)w[i];
    for (int t = 1; t <= STEPS; t++) {
        must(run->functions->step(run, LS_FULL, 1));
        must(run->functions->sync(run));
        must(ls_run_gather(run, w));
        for (int i = 0; i < PARAMETERS; i++)
            want[i] += (1 - (1.0 + t) / (10.0 + t)) * ((double)w[i] - want[i]);
        must(run->functions->evaluate(run, &how, &found)); /* between steps, as after each epoch */
    }
    averages_of(run, average);
    for (int i = 0; i < PARAMETERS; i++)
        if (fabs((double)average[i] - want[i]) > 1e-6 * fmax(1, fabs(want[i])))
            fail_msg("%s: average %d is %.9g, not %.9g", name, i, (double)average[i], want[i]);
    must(ls_run_gather(run, after));
    assert_memory_equal(after, w, sizeof w);
    same = evaluation_of(&job, average);
    other = evaluation_of(&job, w);
    assert_true(found.accuracy == same.accuracy);
    assert_true(found.accuracy != other.accuracy); /* otherwise the test shows nothing */
    if (devices == 1)                              /* equally many rows at a time */
        assert_true(found.outputs == same.outputs);
    assert_true(found.outputs != other.outputs);
    run->functions->close(run);
}

static void single(void **state)
{
    check(*state, "single", 1, false);
}

static void mirrored(void **state)
{
    check(*state, "mirrored", 2, false);
    check(*state, "zero", 2, false);
}

static void towers(void **state)
{
    check(*state, "towers", 2, false);
    check(*state, "towers", 2, true);
    check(*state, "towers", 1, true); /* variables on a device without a tower */
}

static void ps(void **state)
{
    check(*state, "ps", 1, false);
    check(*state, "ps", 2, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(single), cmocka_unit_test(mirrored),
                                       cmocka_unit_test(towers), cmocka_unit_test(ps)};
    return cmocka_run_group_tests(tests, setup, close_fixture);
}
