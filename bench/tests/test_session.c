/* SPDX-License-Identifier: MIT */
/*
 * A session that loses a device is never closed: its threads keep everything that they use,
 * including the job, and run safely; so is one that a signal ends. A healthy session closes with
 * its threads, and can begin at any step. Its kernels' names are joined. No tolerance; an alarm
 * ends a hang.
 */
#include "bench/cli/options.h"
#include "bench/commands/forecast.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/trial/trial.h"
#include "common/base/clock.h"
#include "common/base/signal.h"
#include "common/base/tests/must.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 800 };

static int count_threads(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* An operation that runs as long as the test requires. */
typedef struct gate {
    ls_op op;
    ls_signal open;
} gate;

static ls_status run_gate(ls_op *op, ls_queue *queue)
{
    (void)queue;
    ls_signal_wait(&((gate *)op)->open, 1, 0);
    return LS_OK;
}

static void keep(ls_op *op)
{
    (void)op;
}

typedef struct fixture {
    ls_processes alone;
    ls_request *request;
    ls_workplace workplace;
    ls_plan_of_case plan;
} fixture;

/* Workers whose operations read the job in every step, and a server. */
static int setup(void **state)
{
    static char words[][24] = {
        "run",        "--model=poly",          "--strategy=ps",  "--ranks=3",
        "--steps=50", "--ps-backup-workers=1", "--timeout=0.3s", "--results=none"};
    char *arguments[sizeof words / sizeof *words];
    fixture *f = calloc(1, sizeof *f);
    alarm(SECONDS);
    f->alone = ls_processes_alone();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        arguments[i] = words[i];
    must(ls_request_parse((int)(sizeof words / sizeof *words), arguments, NULL, stderr,
                          &f->request));
    f->request->processes = &f->alone;
    must(ls_workplace_open(f->request, &f->workplace));
    must(ls_plan_open(&f->workplace, &f->request->cases[0], &f->plan));
    must(ls_plan_draw(&f->workplace, &f->plan));
    *state = f;
    return 0;
}

static void a_healthy_one_is_closed(void **state)
{
    fixture *f = *state;
    ls_session session;
    const int before = count_threads();
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    must(ls_session_steps(&session, 20));
    assert_true(count_threads() > before);
    ls_session_close(&session);
    assert_int_equal(count_threads(), before);
    assert_false(*f->workplace.left);
}

/* Of several blocks, each with devices of its own, any may have been moved. */
static void one_that_was_moved_says_so(void **state)
{
    fixture *f = *state;
    ls_session session;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip(); /* nowhere to go */
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    must(ls_session_steps(&session, 20));
    assert_false(ls_session_moved(&session));
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (strtol(entry->d_name, NULL, 10) > 0)
            sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof all, &all);
    closedir(threads);
    assert_true(ls_session_moved(&session));
    must(ls_session_reopen(&f->workplace, &session));
    assert_false(ls_device_moved(session.devices[0]));
    assert_true(ls_session_moved(&session));
    ls_session_close(&session);
}

/* A step begun in the middle of the data uses the samples there, and has its own record. */
static void a_step_is_begun_where_it_stands(void **state)
{
    enum { STEPS = 3 };
    fixture *f = *state;
    ls_session session;
    double loss[STEPS], again;
    const size_t elements = f->plan.model->graph->variables.elements;
    float *values[STEPS], *ends = calloc(elements + 1, sizeof *ends);
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){.judge = ls_session_single},
                         &session));
    for (int i = 0; i < STEPS; i++) {
        values[i] = calloc(elements + 1, sizeof *values[i]);
        assert_true(ends && values[i]);
        must(ls_session_begin_at(&session, (uint64_t)i * 7, &f->plan.initial));
        must(ls_session_one_step(&session, values[i], &loss[i]));
        assert_true(loss[i] > 0);
        for (int before = 0; before < i; before++)
            assert_true(loss[i] != loss[before]);
    }
    must(ls_session_begin_at(&session, 7, &f->plan.initial));
    must(ls_session_one_step(&session, ends, &again));
    assert_true(again == loss[1]);
    assert_memory_equal(ends, values[1], elements * sizeof *ends);
    ls_session_close(&session);
    for (int i = 0; i < STEPS; i++)
        free(values[i]);
    free(ends);
}

/* A worker's times fill each step, and of operations are together what the parts of all steps say;
 * a server has none. The first step counts from before all work and the last one until after it: a
 * backup worker that is late for the steps works in the last one, too. */
static void times_of_steps_fill_them(void **state)
{
    enum { STEPS = 4, DEVICES = 3 };
    fixture *f = *state;
    ls_session session;
    ls_step_times times;
    ls_time_profile each[STEPS][DEVICES], all[DEVICES];
    uint64_t ends[STEPS + 1];
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    const ls_run_functions *of = session.run->functions;
    assert_int_equal(session.device_count, DEVICES);
    must(ls_step_times_open(STEPS, &times));
    must(of->profile(session.run, STEPS));
    ends[0] = ls_clock_ns();
    must(ls_time_steps(&session, STEPS, true, &times));
    ends[STEPS] = ls_clock_ns();
    for (int k = 0; k < STEPS - 1; k++)
        ends[k + 1] = times.records[k].end_ns;
    must(of->times(session.run, DEVICES, ends, STEPS, each[0]));
    must(of->parts(session.run, DEVICES, ends[0], ends[STEPS], all));
    for (int d = 0; d < DEVICES; d++) {
        uint64_t worked = 0, works = all[d].ns[LS_TIME_COMPUTE] + all[d].ns[LS_TIME_BACKWARD];
        for (int k = 0; k < STEPS; k++) {
            uint64_t sum = 0;
            for (int use = 0; use < LS_TIME_USES; use++)
                sum += each[k][d].ns[use];
            worked += each[k][d].ns[LS_TIME_COMPUTE] + each[k][d].ns[LS_TIME_BACKWARD];
            assert_int_equal(sum, d ? ends[k + 1] - ends[k] : 0);
        }
        assert_int_equal(worked, works);
        assert_int_equal(works > 0, d > 0);
    }
    ls_step_times_close(&times);
    ls_session_close(&session);
}

/* Each block but the first reopens devices. With --until-precision there are at least 20; added
 * blocks are as long as the others or a tenth of a second, until --max-time is up. 50 steps. */
static void an_estimate_knows_the_blocks(void **state)
{
    static const struct {
        int64_t blocks;
        double precision;
        uint64_t max_time_s;
        double seconds;
    } cases[] = {{1, 0, 60, 0.05},      {5, 0, 60, 4.05},     {100, 0, 60, 49.05},
                 {20, 0.01, 60, 19.05}, {5, 0.01, 60, 20.55}, {5, 0.01, 10, 10}};
    fixture *f = *state;
    const ls_costs costs = {.open_s = 1, .step_s = 0.001};
    const int64_t blocks = f->request->blocks;
    double seconds[LS_PHASES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->request->blocks = cases[i].blocks;
        f->request->precision = cases[i].precision;
        f->request->max_time_ns = cases[i].max_time_s * 1000000000u;
        ls_estimate_phases(&f->workplace, &f->plan, &costs, seconds);
        assert_true(fabs(seconds[LS_PHASE_TIMING] - cases[i].seconds) < 1e-9);
    }
    f->request->blocks = blocks;
    f->request->precision = 0;
}

/* A plan's memory is counted; for GPUs, which may be missing, on CPU devices instead. */
static void what_gpus_need_is_counted(void **state)
{
    fixture *f = *state;
    ls_plan_of_case gpus = f->plan;
    ls_need here, there;
    gpus.devices = calloc(gpus.device_count, sizeof *gpus.devices);
    assert_non_null(gpus.devices);
    for (size_t i = 0; i < gpus.device_count; i++)
        gpus.devices[i] = (ls_device_name){.kind = LS_DEVICE_GPU, .index = (int)i, .logical = -1};
    must(ls_session_need(&f->workplace, &f->plan, NULL, &here));
    must(ls_session_need(&f->workplace, &gpus, NULL, &there));
    assert_int_equal(here.count, there.count);
    for (size_t i = 0; i < here.count; i++) {
        assert_true(ls_need_sum(&here.devices[i].formula) > 0);
        assert_memory_equal(&here.devices[i].formula, &there.devices[i].formula,
                            sizeof here.devices[i].formula);
        here.devices[i].limit = i ? SIZE_MAX : ls_need_sum(&here.devices[i].formula);
    }
    assert_null(ls_need_refuse(&here, &gpus, false)); /* each has room: others caused it */
    here.devices[0].limit--;
    ls_status refused = ls_need_refuse(&here, &gpus, false);
    assert_int_equal(ls_status_code(refused), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(refused), "but --memory all allows only "));
    assert_non_null(strstr(ls_status_text(refused), "; memory of the case by device: "));
    ls_status_free(refused);
    ls_need_free(&here);
    ls_need_free(&there);
    free(gpus.devices);
}

static void one_that_lost_a_device_is_left(void **state)
{
    fixture *f = *state;
    ls_session session;
    gate held = {.op = {.name = "gate", .run = run_gate, .destroy = keep}};
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    const int threads = count_threads();
    const ls_run *run = session.run;
    ls_queue *queue = ls_watch_queue(session.watch, session.devices[0]); /* the server's */
    must(ls_queue_enqueue(queue, &held.op));
    ls_status status = ls_session_steps(&session, 20);
    assert_true(ls_status_is_final(status));
    ls_status_free(status);
    ls_session_close(&session);
    assert_int_equal(count_threads(), threads);
    assert_true(*f->workplace.left);
    assert_int_equal(run->job->ps.backups, 1); /* the job that all of them use */
    ls_signal_post(&held.open, 1);
    for (bool idle = false; !idle; ls_clock_sleep(1000000)) /* until what was enqueued ends */
        must(ls_queue_idle(queue, &idle));
    assert_int_equal(count_threads(), threads);
}

static void so_is_one_whose_back_end_gave_it_up(void **state)
{
    fixture *f = *state;
    ls_session session;
    *f->workplace.left = false;
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    const int threads = count_threads();
    const ls_device *device = session.devices[1];
    ls_device_lose(session.devices[1]);
    ls_session_close(&session);
    assert_int_equal(count_threads(), threads);
    assert_true(*f->workplace.left && ls_device_is_lost(device));
}

/* A signal ends the host's wait in the middle of a step. The last test: later waits would end, too.
 */
static void so_is_one_whose_step_a_signal_ends(void **state)
{
    fixture *f = *state;
    ls_session session;
    gate held = {.op = {.name = "gate", .run = run_gate, .destroy = keep}};
    *f->workplace.left = false;
    must(ls_session_open(&f->workplace, &f->plan, (ls_opening){0}, &session));
    ls_session_heed(&f->workplace, &session);
    ls_queue *queue = ls_watch_queue(session.watch, session.devices[0]);
    must(ls_queue_enqueue(queue, &held.op));
    ls_interrupt_install();
    raise(SIGTERM);
    const uint64_t begin_ns = ls_clock_ns();
    ls_status status = ls_session_steps(&session, 1);
    assert_int_equal(ls_status_code(status), LS_CODE_INTERRUPTED);
    assert_true(ls_clock_ns() - begin_ns < f->plan.job.ranks.timeout_ns);
    ls_status_free(status);
    ls_session_close(&session);
    assert_true(*f->workplace.left);
    ls_signal_post(&held.open, 1);
    for (bool idle = false; !idle; ls_clock_sleep(1000000))
        must(ls_queue_idle(queue, &idle));
}

static void describe_some(const ls_run *run, ls_run_info *out)
{
    (void)run;
    *out = (ls_run_info){.kernels = "cuda", .kernel_library = "cuBLASLt 13.1.0"};
}

static void each_of_some(const ls_run *run, ls_op_visit visit, void *context)
{
    static const ls_op ops[] = {{.name = "gemm.tiles"},      {.name = "gemm.cublaslt+tiles"},
                                {.name = "conv.gemm_fused"}, {.name = "conv.gemm"},
                                {.name = "conv.gemm_fused"}, {.name = "stamp"}};
    (void)run;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        visit(context, &ops[i]);
}

/* Each once, also where its name is a part of another's. */
static void kernels_are_joined(void **state)
{
    static const ls_run_functions functions = {.describe = describe_some, .each_op = each_of_some};
    (void)state;
    json_t *kernels = ls_step_kernels(&(ls_run){.functions = &functions});
    char *text = json_dumps(kernels, JSON_COMPACT);
    assert_string_equal(text, "{\"table\":\"cuda\",\"library\":\"cuBLASLt 13.1.0\","
                              "\"gemm\":\"tiles+cublaslt\",\"conv\":\"gemm_fused+gemm\","
                              "\"stamp\":\"stamp\"}");
    free(text);
    json_decref(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_joined),
        cmocka_unit_test(a_healthy_one_is_closed),
        cmocka_unit_test(one_that_was_moved_says_so),
        cmocka_unit_test(a_step_is_begun_where_it_stands),
        cmocka_unit_test(times_of_steps_fill_them),
        cmocka_unit_test(an_estimate_knows_the_blocks),
        cmocka_unit_test(what_gpus_need_is_counted),
        cmocka_unit_test(one_that_lost_a_device_is_left),
        cmocka_unit_test(so_is_one_whose_back_end_gave_it_up),
        cmocka_unit_test(so_is_one_whose_step_a_signal_ends),
    };
    /* What a lost session uses can neither be freed nor waited for: the process exits at once. */
    _exit(cmocka_run_group_tests(tests, setup, NULL));
}
