/* SPDX-License-Identifier: MIT */
/*
 * `lockstep run` and `lockstep verify`. All cases are resolved first, so that every refusal
 * precedes training. Then, group by group, each case passes the gate, is opened, warmed up, and
 * trained in blocks that take turns in a random order, so that drift of the machine favours no
 * case. When a group ends, its rows are committed to the results file, then printed; a program that
 * is killed loses one group. After a group, only the parts of its rows that the table compares stay
 * in memory.
 */
#include "bench/case/case_facts.h"
#include "bench/case/graph_file.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/commands/forecast.h"
#include "bench/commands/run_parts.h"
#include "bench/gate/gate.h"
#include "bench/output/standard_output.h"
#include "common/base/whole_file.h"
#include "bench/row/row.h"
#include "bench/train/interrupt.h"
#include "bench/train/world.h"
#include "common/data/safetensors.h"

#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/random/philox.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether the sweep ends: interrupted (all ranks see that at the same point), a device is lost, or
 * nobody keeps or reads its rows. */
static bool is_interrupted(const command_run *run)
{
    bool stop = ls_interrupted() || *run->over || ls_status_code(run->unsaved) == LS_CODE_UNREAD;
    ls_status_free(ls_world_turn(run->processes->comm, LS_OK, NULL, &stop));
    return stop;
}

/* ---- Cases ---------------------------------------------------------------------------------- */

/* A random order of the cases from `first` on, different for each block. */
static void shuffle_order(size_t *order, size_t first, size_t count, int64_t block)
{
    ls_random random = ls_random_stream((uint64_t)block, "block order");
    for (size_t i = 0; i < count; i++)
        order[i] = first + i;
    for (size_t i = count; i > 1; i--) {
        size_t j = ls_random_bits(random, i) % i, keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}

/* About how many seconds the case takes after its last block. */
static double evaluation_s(const command_run *run, const case_run *c)
{
    double seconds[LS_PHASES];
    const ls_costs costs = ls_estimate_count(&run->workplace, &c->plan, c->gate.step_s);
    ls_estimate_phases(&run->workplace, &c->plan, &costs, seconds);
    return seconds[LS_PHASE_EVALUATING];
}

/* Until when blocks may be added to the cases [first, end): within --max-time, and within their
 * share of the remaining budget, minus the time of their evaluation. */
static uint64_t turns_until(const command_run *run, size_t first, size_t end)
{
    const ls_request *request = run->request;
    const uint64_t now_ns = ls_clock_ns(), most_ns = now_ns + request->max_time_ns;
    if (!request->deadline_ns)
        return most_ns;
    const double left_ns = (double)request->deadline_ns - (double)now_ns;
    double share_ns = left_ns * (double)(end - first) / (double)(run->count - first);
    for (size_t i = first; i < end; i++)
        share_ns -= evaluation_s(run, &run->cases[i]) * 1e9;
    const uint64_t until_ns = now_ns + (share_ns > 0 ? (uint64_t)share_ns : 0);
    return until_ns < most_ns ? until_ns : most_ns;
}

/* Whether that was the case's last block. */
static bool is_last(command_run *run, case_run *c, int64_t block, uint64_t until_ns)
{
    const ls_request *request = run->request;
    bool more = block + 1 < request->blocks && !ls_trial_stopped(&c->trial);
    if (block + 1 >= request->blocks && request->precision > 0 && !c->error)
        ls_run_agree(run, c,
                     ls_timed_wants_more(&c->trial.timed, c->plan.job.ranks.comm,
                                         ls_trial_stopped(&c->trial), request->precision,
                                         ls_clock_ns() >= until_ns, &more));
    c->measured = c->error || !more;
    return c->measured;
}

/* Runs the blocks of cases [first, end). */
static void take_turns(command_run *run, size_t first, size_t end)
{
    const ls_request *request = run->request;
    size_t order[LS_GROUP_CASES];
    const uint64_t until_ns = turns_until(run, first, end);
    bool more = true;
    for (int64_t block = 0; more; block++) {
        shuffle_order(order, first, end - first, block);
        more = block + 1 < request->blocks;
        for (size_t i = 0; i < end - first; i++) {
            case_run *c = &run->cases[order[i]];
            if (!c->trained || c->error || ls_trial_stopped(&c->trial) || c->measured || *run->over)
                continue;
            ls_run_enter(run, c, LS_PHASE_TIMING);
            ls_run_agree(run, c, ls_trial_block(&c->trial, block, request->blocks));
            const bool last = is_last(run, c, block, until_ns);
            more |= !last;
            if (last) /* without a baseline, its row is complete now */
                ls_run_note_pace(c);
            if (c->error || (last && c->baseline == order[i]))
                ls_run_end(run, c);
        }
    }
    for (size_t i = first; i < end; i++) /* the other cases: now all baselines are known */
        if (run->cases[i].trained)
            ls_run_note_pace(&run->cases[i]);
    for (size_t i = first; i < end; i++) {
        case_run *c = &run->cases[i];
        const bool passed = c->gated && c->gate.pass && !c->gate.interrupted && !c->ended;
        /* a case that was running when a device was lost is given up */
        const bool done = c->trial.timed.done == (uint64_t)c->plan.timed;
        if (*run->over && c->trained && !c->error && !done)
            c->error =
                ls_fail(LS_CODE_MISSING, "run", "not finished",
                        "a device failed earlier in this process, so this case was given up; "
                        "correct that failure, then run this case again; the failure: %s",
                        run->over);
        if (c->trained || (passed && !*run->over)) /* the latter: interrupted before it trained */
            ls_run_end(run, c);
    }
}

/* After an interrupt: which cases are kept, and how much of them. */
static void tell_kept(const command_run *run)
{
    if (!ls_interrupted() || run->processes->rank > 0)
        return;
    ls_progress_pause(run->workplace.progress);
    ls_log_stderr(
        "run: interrupted; cases: %zu, finished: %zu, interrupted: %zu, without a result: "
        "%zu; %s%s",
        run->count, run->finished, run->parts, run->count - run->finished - run->parts,
        run->results ? "results are kept in " : "no results are kept (--results none)",
        run->results ? run->request->results : "");
}

static void train_group(command_run *run, size_t first, size_t end)
{
    for (size_t i = first; i < end && !is_interrupted(run); i++)
        run->cases[i].error ? ls_run_end(run, &run->cases[i]) : ls_run_gate(run, &run->cases[i]);
    for (size_t i = first; i < end && !is_interrupted(run) && !run->request->verify; i++)
        if (!run->cases[i].error && run->cases[i].gate.pass)
            ls_run_open(run, &run->cases[i]);
    take_turns(run, first, end);
    ls_run_commit(run, run->cases[first].group, true);
}

static void free_case(case_run *c)
{
    ls_status_free(c->error);
    ls_status_free(c->unsaved);
    c->error = c->unsaved = NULL;
    ls_gate_close(&c->gate);
    ls_plan_close(&c->plan);
}

static ls_status train_all(command_run *run)
{
    for (size_t first = 0, end; first < run->count && !is_interrupted(run); first = end) {
        end = first + 1;
        while (end < run->count && run->cases[end].group == run->cases[first].group)
            end++;
        train_group(run, first, end);
        for (size_t i = first; i < end && !ls_run_is_left(run); i++)
            free_case(&run->cases[i]);
    }
    /* cases that have no row, since a device's failure ended the sweep */
    size_t left = 0;
    for (size_t i = 0; i < run->count; i++)
        left += !run->cases[i].ended;
    if (*run->over && left && run->processes->rank == 0)
        ls_log_stderr("run: %zu of %zu cases are not run, since a device failed and this process "
                      "cannot use that device any more; start lockstep run again for these cases",
                      left, run->count);
    tell_kept(run);
    if (ls_interrupted())
        ls_run_raise_code(run, LS_CODE_INTERRUPTED);
    return run->unsaved;
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* The case with this configuration in the group that begins at `first`; `end` if there is none. */
static size_t find_case(const command_run *run, size_t first, size_t end, const ls_case *config)
{
    size_t at = first;
    while (at < end && !ls_case_same(&run->configs[at], config))
        at++;
    return at;
}

/* For each case of the group that begins at `first`, finds its baseline, a case of `single`: in the
 * group, otherwise in earlier groups. */
static void find_baselines(command_run *run, size_t first)
{
    for (size_t i = first; i < run->count; i++) {
        const ls_case single = ls_case_single(&run->configs[i]);
        size_t at = find_case(run, first, run->count, &single);
        const size_t before =
            find_case(run, 0, first, &single); /* not in turns with this case, but known */
        at = at < run->count || before == first ? at : before;
        if (at == run->count || (at == i && !run->request->baseline))
            continue;
        run->cases[i].baseline = run->cases[at].baseline = at;
    }
}

static void add_case(command_run *run, const ls_case *config, size_t group, bool asked)
{
    run->configs[run->count] = *config;
    run->cases[run->count] = (case_run){.asked = asked, .group = group, .baseline = SIZE_MAX};
    run->count++;
}

/* Lists a group: cases of the request from *next on and, with --baseline, the cases of `single`
 * that they need. */
static void list_group(command_run *run, size_t *next, size_t group)
{
    const ls_request *request = run->request;
    const size_t first = run->count;
    ls_case singles[LS_GROUP_CASES];
    size_t added = 0;
    while (*next < request->case_count) {
        const ls_case *one = &request->cases[*next], single = ls_case_single(one);
        bool adds = request->baseline && !ls_case_same(one, &single) &&
                    find_case(run, first, run->count, &single) == run->count;
        for (size_t i = 0; i < added; i++)
            adds = adds && !ls_case_same(&singles[i], &single);
        if (run->count - first + added + 1 + adds > LS_GROUP_CASES)
            break;
        if (adds)
            singles[added++] = single;
        add_case(run, one, group, true);
        ++*next;
    }
    for (size_t i = 0; i < added; i++)
        if (find_case(run, first, run->count, &singles[i]) == run->count)
            add_case(run, &singles[i], group, false);
    find_baselines(run, first);
}

/* ---- The command ---------------------------------------------------------------------------- */

/* All ranks must have read the same data. */
static ls_status compare_data(command_run *run)
{
    ls_comm *comm = run->processes->comm;
    for (size_t i = 0; i < run->count && comm; i++) {
        const ls_plan_of_case *plan = &run->cases[i].plan;
        LS_TRY(ls_world_same(comm, "model file", ls_graph_file_digest(plan->model), NULL));
        LS_TRY(ls_world_same(comm, "data set", plan->data->digest, NULL));
        if (plan->initial.read && !run->cases[i].error)
            LS_TRY(ls_world_same(comm, "set of initial parameters", plan->initial_hash, NULL));
    }
    return LS_OK;
}

/* Sets the table's columns; all cases together decide which options get one, before any row. */
static void set_columns(command_run *run)
{
    const ls_request *request = run->request;
    json_t *groups = json_array();
    if (request->verify)
        run->writer->columns = &ls_verify_columns;
    for (size_t i = 0; i < run->count; i++)
        json_array_append_new(groups, ls_row_case(&(ls_row_facts){.workplace = &run->workplace,
                                                                  .plan = &run->cases[i].plan}));
    ls_writer_expect(run->writer, groups, ls_request_swept(request));
    if (run->chosen.columns.count)
        run->writer->columns = &run->chosen.columns;
}

static ls_status refuse_same_file(const char *option, const char *path, const char *results)
{
    if (path && ls_same_file(path, results))
        return ls_fail(
            LS_CODE_USAGE, option, path,
            "this is the file of --results, whose rows would be overwritten; name another file");
    return LS_OK;
}

/* A folder with checkpoints belongs to another run, unless this run continues from it. */
static ls_status prepare_folder(const ls_request *request)
{
    ls_auto char *known = NULL;
    LS_TRY(ls_checkpoint_find(request->checkpoint, &known));
    if (!known || request->resume_from)
        return ls_checkpoints_make(request->checkpoint);
    return ls_fail(LS_CODE_USAGE, "option --checkpoint", request->checkpoint,
                   "this folder has a checkpoint already (%s); name another folder, or continue "
                   "from the checkpoint with --resume-from-checkpoint auto",
                   known);
}

/* Everything that this rank can refuse; rank 0 also checks the files that it will write. */
static ls_status resolve_all(command_run *run)
{
    const ls_request *request = run->request;
    const ls_format *format;
    size_t most_saved = 0; /* bytes of the largest set of parameters */
    LS_TRY(ls_format_find(request->format, &format));
    LS_TRY(ls_chosen_read(request->columns, &run->chosen));
    LS_TRY(ls_workplace_open(request, &run->workplace));
    run->workplace.progress = ls_progress_open(stderr, request->print_step ? 0 : request->progress);
    const size_t most = request->case_count * (request->baseline ? 2 : 1);
    LS_TRY(ls_allocate("cases", &run->configs, most, sizeof *run->configs));
    LS_TRY(ls_allocate("cases", &run->cases, most, sizeof *run->cases));
    for (size_t next = 0; next < request->case_count; run->groups++)
        list_group(run, &next, run->groups);
    ls_progress_cases(run->workplace.progress, run->count);
    for (size_t i = 0; i < run->count; i++) {
        LS_TRY(ls_plan_open(&run->workplace, &run->configs[i], &run->cases[i].plan));
        const size_t bytes = run->cases[i].plan.model->graph->variables.elements * sizeof(float);
        most_saved = bytes > most_saved ? bytes : most_saved;
        ls_run_expect(run, &run->cases[i], 0);
        ls_plan_log(&run->workplace, &run->cases[i].plan);
    }
    const bool first = run->processes->rank == 0;
    if (request->save && first)
        LS_TRY(ls_tensors_writable(request->save, most_saved));
    if (request->checkpoint && first)
        LS_TRY(prepare_folder(request));
    if (request->ps_record && first)
        LS_TRY(ls_file_writable("option --ps-record", request->ps_record, 0));
    if (request->trace)
        LS_TRY(ls_trace_check(request, first));
    if (request->results && first && !request->print_step && !request->trace) {
        ls_workplace_busy(&run->workplace, true); /* another program may hold the file's lock */
        ls_status status = ls_results_open(request->results, true, &run->results);
        ls_workplace_busy(&run->workplace, false);
        LS_TRY(status);
        LS_TRY(refuse_same_file("option --save", request->save, request->results));
        LS_TRY(refuse_same_file("option --ps-record", request->ps_record, request->results));
    }
    LS_TRY(ls_writer_open(format, ls_output(), &run->writer));
    run->writer->results = run->results ? request->results : NULL;
    set_columns(run);
    return LS_OK;
}

/* Refuses cases for which there is too little memory, before anything of their size is allocated:
 * each gets a row that says so, or ends a command that makes no rows. */
static ls_status check_memory(command_run *run)
{
    ls_auto ls_memory_case *memory = NULL;
    ls_memory_sum sum;
    LS_TRY(ls_allocate("cases", &memory, run->count, sizeof *memory));
    for (size_t i = 0; i < run->count; i++)
        memory[i] = (ls_memory_case){.plan = &run->cases[i].plan, .group = run->cases[i].group};
    ls_memory_check(&run->workplace, memory, run->count, &sum);
    for (size_t i = 0; i < run->count; i++) {
        run->cases[i].error = memory[i].error;
        ls_need_free(&memory[i].footprint.need);
    }
    return LS_OK;
}

static ls_status open_command(command_run *run)
{
    LS_TRY(ls_world_agree(run->processes->comm, resolve_all(run)));
    run->workplace.holds = !run->processes->comm; /* ranks draw what their devices hold */
    if (!run->request->print_step) {
        LS_TRY(check_memory(run));
        for (size_t i = 0; i < run->count; i++) /* a step that is only listed needs no values */
            if (!run->cases[i].error)
                LS_TRY(ls_world_agree(run->processes->comm,
                                      ls_plan_draw(&run->workplace, &run->cases[i].plan)));
    }
    LS_TRY(compare_data(run));
    if (run->request->checkpoint && run->processes->rank == 0)
        ls_checkpoints_clean(run->request->checkpoint);
    return LS_OK;
}

/* Closes all, except what threads of a lost device may use; returns whether there are such. */
static bool close_command(command_run *run)
{
    for (size_t i = 0; run->cases && i < run->count; i++)
        if (run->cases[i].trained)
            ls_trial_close(&run->cases[i].trial);
    ls_results_close(run->results);
    if (ls_run_is_left(run)) {
        ls_status_free(ls_processes_pulse(run->processes, NULL, NULL)); /* it reads the workplace */
        return true;
    }
    for (size_t i = 0; run->cases && i < run->count; i++)
        free_case(&run->cases[i]);
    free(run->cases);
    free(run->configs);
    ls_gate_kernels_close(&run->workplace);
    ls_workplace_close(&run->workplace);
    return false;
}

/* --print-step and `trace`, instead of training; `trace` has one case, and no baseline. */
static ls_status look_at_steps(command_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        case_run *c = &run->cases[i];
        if (ls_run_is_of_other_rank(run, c) || (run->request->trace && !c->asked))
            continue;
        if (c->error) {
            ls_status refused = c->error;
            c->error = LS_OK;
            return refused;
        }
        LS_TRY(run->request->trace ? ls_trace_case(&run->workplace, &c->plan)
                                   : ls_print_step(&run->workplace, &c->plan));
    }
    return LS_OK;
}

ls_status ls_command_run(const ls_request *request, int *exit_status)
{
    command_run run = {.request = request, .processes = request->processes};
    if (run.processes->comm) /* ranks end together */
        ls_interrupt_install();
    else
        ls_interrupt_end_at_once(
            "lockstep: run: interrupted before a case had a result; there is no "
            "row\n");
    ls_status refused = open_command(&run);
    if (!refused)
        ls_request_tell(request);
    const bool looks = request->print_step || request->trace;
    if (request->trace)
        ls_interrupt_install();
    ls_status lost = refused ? LS_OK : looks ? look_at_steps(&run) : train_all(&run);
    ls_progress_close(run.workplace.progress);
    run.workplace.progress = NULL;
    if (run.writer)
        lost = ls_status_first(lost, ls_writer_close(run.writer));
    const bool left = close_command(&run);
    if (refused) {
        ls_status_free(lost);
        return refused;
    }
    if (lost) { /* rows that could not be printed or saved: reported, and part of the status */
        if (ls_status_code(lost) != LS_CODE_UNREAD)
            ls_log_stderr("%s", ls_status_text(lost));
        ls_run_raise_code(&run, ls_status_code(lost));
        ls_status_free(lost);
    }
    *exit_status = (int)run.code | (*run.over || left ? LS_EXIT_AT_ONCE : 0);
    if (*run.lost)
        return ls_fail(LS_CODE_MISSING, NULL, NULL, "%s", run.lost);
    return LS_OK;
}
