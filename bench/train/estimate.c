/* SPDX-License-Identifier: MIT */
/*
 * Estimate; see estimate.h.
 *
 * The gate opens the case, its judge and the reference, puts its steps twice, and computes them on
 * one device twice. What the estimate leaves out:
 * copies and messages, links, delays, and how steps of other cases heat caches and memory.
 */
#include "bench/train/estimate.h"

#include "bench/train/session.h"
#include "bench/train/statistics.h"
#include "bench/train/team.h"
#include "common/base/clock.h"

static const double core_flops = 2e10; /* a second, of a core, where nothing can be measured */
static const double timed_ns = 1e8;    /* steps are trained for so long */
enum { FORWARDS = 3, LOOKS = 5, WARM_STEPS = 2, PROFILED_MOST = 100 };

static double seconds(uint64_t begin_ns)
{
    return (double)(ls_clock_ns() - begin_ns) * 1e-9;
}

/* Bytes by formula. */
static void add_memory(const ls_session *session, ls_estimate *out)
{
    ls_need_of(session, &out->need);
    for (size_t i = 0; i < out->need.count; i++) {
        const size_t bytes = ls_need_sum(&out->need.devices[i].formula);
        out->memory += bytes;
        out->memory_most = bytes > out->memory_most ? bytes : out->memory_most;
    }
}

/* Seconds that one device takes for forward and backward of a sample. */
static ls_status sample_time(const ls_workplace *place, ls_session *session, double *out)
{
    const ls_plan_of_case *plan = session->plan;
    const uint64_t tests = plan->data->test.samples;
    const uint64_t replicas = (uint64_t)ls_job_replicas(&plan->job);
    const uint64_t rows = ((uint64_t)plan->job.batch + replicas - 1) / replicas;
    ls_evaluation evaluation;
    if (!tests) {
        *out = ls_graph_flops(plan->model->graph) /
               (core_flops * ls_machine_cores_per_device(place->machine));
        return LS_OK;
    }
    const uint64_t most = tests < rows ? tests : rows;
    double times[LOOKS];
    for (int i = -1; i < LOOKS; i++) { /* the first is not counted */
        const uint64_t begin = ls_clock_ns();
        LS_TRY(ls_session_evaluate(session, most, &evaluation));
        times[i < 0 ? 0 : i] = FORWARDS * seconds(begin) / (double)rows;
    }
    ls_statistics statistics;
    ls_statistics_compute(times, LOOKS, &statistics);
    *out = statistics.median;
    return LS_OK;
}

/* How many samples are computed at once. */
static double width(const ls_workplace *place, const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    const double stages = ls_job_places(job), pieces = job->microbatches;
    double devices =
        ls_job_replicas(job) * (pieces > 0 ? stages * pieces / (stages + pieces - 1) : 1);
    const double cores = (double)ls_machine_describe(place->machine)->cores_allowed /
                         ls_machine_cores_per_device(place->machine);
    if (plan->oversubscribed && devices > cores)
        devices = cores > 1 ? cores : 1;
    return devices;
}

/* Seconds of a step, trained. */
static ls_status step_time(ls_session *session, double *out)
{
    const uint64_t most = session->job.records;
    LS_TRY(ls_session_steps(session, WARM_STEPS < most ? WARM_STEPS : most));
    uint64_t begin = ls_clock_ns(), count;
    LS_TRY(ls_session_steps(session, 1));
    count = (uint64_t)(timed_ns / (double)(ls_clock_ns() - begin + 1));
    count = count < 1 ? 1 : count < most ? count : most;
    bool stop = false;
    LS_TRY(ls_team_turn(session->job.comm, LS_OK, &count, &stop));
    begin = ls_clock_ns();
    LS_TRY(ls_session_steps(session, count));
    *out = seconds(begin) / (double)count;
    return LS_OK;
}

static void add_up(const ls_workplace *place, const ls_plan_of_case *plan, double open_s,
                   double sample_s, ls_estimate *out)
{
    const double alone_s = sample_s * (double)plan->job.batch;
    const double steps = (double)(plan->warmup + plan->timed),
                 asked = (double)plan->config->gate_steps;
    const double compared = asked < 0 || asked > steps ? steps : asked;
    const double test_s = sample_s / FORWARDS * (double)plan->data->test.samples;
    const bool verify = place->request->verify;
    out->judged = plan->strategy->equivalent && compared > 0;
    const double profiled = plan->timed < PROFILED_MOST ? (double)plan->timed : PROFILED_MOST;
    const double blocks = (double)place->request->blocks;
    out->around_s = out->judged ? 3 * open_s + 2 * compared * (out->step_s + alone_s) : 0;
    if (!verify)
        out->around_s += blocks * open_s + test_s + ((double)plan->warmup + profiled) * out->step_s;
    out->seconds = out->around_s + (verify ? 0 : (double)plan->timed * out->step_s);
}

static ls_status look(const ls_workplace *place, ls_session *session, bool steps, ls_estimate *out)
{
    const ls_plan_of_case *plan = session->plan;
    double sample_s = 0;
    add_memory(session, out);
    LS_TRY(ls_need_join(plan->job.comm, &out->need));
    LS_TRY(sample_time(place, session, &sample_s));
    out->step_s = sample_s * (double)plan->job.batch / width(place, plan);
    if (steps)
        LS_TRY(step_time(session, &out->step_s));
    add_up(place, plan, (double)session->setup_ns * 1e-9, sample_s, out);
    return LS_OK;
}

ls_status ls_estimate_case(const ls_workplace *place, const ls_plan_of_case *plan, bool steps,
                           ls_estimate *out)
{
    ls_session session;
    const uint64_t begin = ls_clock_ns();
    *out = (ls_estimate){0};
    LS_TRY(ls_session_open(place, plan, &session));
    ls_status status = look(place, &session, steps, out);
    ls_session_close(&session);
    out->looked_s = seconds(begin);
    return status;
}
