/* SPDX-License-Identifier: MIT */
/* A plan refuses a spread whose copies are not consecutive members (ls_step_plan_copy); its table
 * of moves. */
#include "impl/step/plan/plan.h"
#include "impl/strategies.h"
#include "impl/tests/devices_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { DEVICES = 4 };

static int setup(void **state)
{
    static fixture f;
    open_fixture(&f, DEVICES, "mlp:6-5-3", "synthetic:12000");
    f.job.batch = 8;
    f.job.mesh.size[LS_GROUP] = 2; /* of two replicas each */
    *state = &f;
    return 0;
}

static void outer_axis_whole(void **state)
{
    ls_step_plan plan;
    ls_job job = ((fixture *)*state)->job;
    job.state.on[LS_MEMBER] = LS_SHARE;
    must(ls_step_plan_open(&ls_strategy_zero, &job, &plan));
    const ls_range copy = ls_step_plan_copy(&plan, &plan.state, 3);
    assert_int_equal(copy.first, 2);
    assert_int_equal(copy.count, 2);
    ls_step_plan_close(&plan);
}

static void inner_axis_whole(void **state)
{
    ls_step_plan plan;
    ls_job job = ((fixture *)*state)->job;
    job.state.on[LS_GROUP] = LS_SHARE;
    ls_status status = ls_step_plan_open(&ls_strategy_zero, &job, &plan);
    assert_non_null(status);
    assert_non_null(strstr(ls_status_text(status), "optimizer state"));
    ls_status_free(status);
    ls_step_plan_close(&plan);
}

/* Every pair of how members have a buffer and how they need it. */
static void moves_follow_from_spreads(void **state)
{
    static const char kinds[] = {
        [LS_WHOLE] = 'w', [LS_SHARE] = 's', [LS_PLACED] = 'p', [LS_PARTIAL] = '+'};
    char text[128] = "";
    size_t used = 0;
    (void)state;
    for (int has = LS_WHOLE; has <= LS_PARTIAL; has++)
        for (int needs = LS_WHOLE; needs <= LS_PARTIAL; needs++) {
            const int move = ls_step_plan_move((ls_kind)has, (ls_kind)needs);
            if (move != LS_NO_SUM)
                used += (size_t)snprintf(text + used, sizeof text - used, "%c%c %s, ", kinds[has],
                                         kinds[needs],
                                         move == LS_HALVES           ? "all-reduce"
                                         : move == LS_REDUCE_SCATTER ? "reduce-scatter"
                                                                     : "all-gather");
        }
    assert_string_equal(text, "sw all-gather, +w all-reduce, +s reduce-scatter, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outer_axis_whole),
                                       cmocka_unit_test(inner_axis_whole),
                                       cmocka_unit_test(moves_follow_from_spreads)};
    return cmocka_run_group_tests(tests, setup, close_fixture);
}
