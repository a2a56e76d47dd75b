/* SPDX-License-Identifier: MIT */
/* References: trajectories of `single`; see reference.h. */
#include "bench/gate/reference.h"

#include "bench/case/case_facts.h"
#include "bench/train/time_steps.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/nn/repeat.h"
#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>

/* Limit for all trajectories of a command. */
static const size_t most_bytes = (size_t)512 << 20;
enum { MEMORY_PART = 4 }; /* of the memory limit, where that is less */

struct ls_reference {
    ls_case key;
    size_t elements;
    uint64_t first;  /* number of the first step */
    uint64_t steps;  /* requested; all of them are kept, or only the last */
    uint64_t known;  /* steps computed */
    bool keeps;      /* keeps all steps */
    float *values;   /* [steps or 1, elements] */
    double *loss;    /* [steps] losses */
    float *gradient; /* [elements] of step 0 */
    float *whole;    /* [elements] of step 0, batch in one piece; NULL means `gradient` */
    double whole_loss;
    float *tail; /* [elements] after an epoch's last batch; NULL if among the steps */
    double tail_loss;
    ls_evaluation evaluation; /* after all steps */
    uint64_t
        *state[LS_ARRAYS]; /* [variables] hashes then; NULL means no such array, or parameters */
    ls_session session;    /* zero-filled once it is closed */
    ls_reference *next;
};

ls_case ls_reference_case(const ls_case *c)
{
    ls_case single = *c;
    size_t first = strcspn(c->devices, "+");
    ls_declared_clear(&single.own, c->strategy->options);
    single.strategy = &ls_strategy_single;
    memset(single.devices, 0, sizeof single.devices);
    if (c->devices[strspn(c->devices, "0123456789")])
        memcpy(single.devices, c->devices, first);
    else
        memcpy(single.devices, "1", sizeof "1"); /* a number selects the best kind, as elsewhere */
    memset(single.allreduce, 0, sizeof single.allreduce);
    memcpy(single.allreduce, "auto", sizeof "auto");
    memset(single.link_text, 0, sizeof single.link_text);
    memset(&single.link, 0, sizeof single.link);
    single.bucket_bytes = -1;
    single.accumulation = 1;
    single.drops = LS_REPEAT_NONE;
    single.ranks = 1;
    if (strcmp(c->comm, "mpi") != 0) { /* one device needs no communicator */
        memset(single.comm, 0, sizeof single.comm);
        memcpy(single.comm, "thread", sizeof "thread");
    }
    memset(&single.fault, 0, sizeof single.fault);
    memset(single.elastic, 0, sizeof single.elastic);
    single.shrinks = 0;
    return single;
}

static void close_reference(ls_reference *r)
{
    ls_session_close(&r->session);
    free(r->values);
    free(r->loss);
    free(r->gradient);
    free(r->whole);
    free(r->tail);
    for (int a = 0; a < LS_ARRAYS; a++)
        free(r->state[a]);
    free(r);
}

/* Bytes that `steps` steps of `elements` elements need; SIZE_MAX if that overflows. */
static size_t kept_bytes(size_t elements, uint64_t steps)
{
    size_t bytes;
    return __builtin_mul_overflow(elements * sizeof(float), steps, &bytes) ? SIZE_MAX : bytes;
}

/* Repeats exact mode's first step with the batch in one piece. */
static ls_status step_whole(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            ls_reference *r)
{
    ls_plan_of_case fast = *plan;
    ls_closing(ls_session_close) ls_session session = {0};
    fast.job.exact.on = false;
    LS_TRY(ls_allocate("reference", &r->whole, r->elements, sizeof *r->whole));
    LS_TRY(ls_session_open(workplace, &fast, (ls_opening){.judge = ls_session_single}, &session));
    LS_TRY(ls_session_one_step(&session, r->whole, &r->whole_loss));
    return session.run->functions->gradient(session.run, r->whole);
}

static ls_status begin(const ls_workplace *workplace, const ls_plan_of_case *plan, size_t left,
                       ls_reference *r)
{
    size_t bytes = kept_bytes(r->elements, r->steps);
    r->keeps = bytes <= left;
    r->values = malloc(r->keeps ? bytes + 1 : r->elements * sizeof(float) + 1);
    r->loss = calloc(r->steps + 1, sizeof *r->loss);
    r->gradient = calloc(r->elements + 1, sizeof *r->gradient);
    if (!r->values || !r->loss || !r->gradient)
        return ls_fail_memory("reference", bytes);
    if (plan->job.exact.on && r->steps)
        LS_TRY(step_whole(workplace, plan, r));
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){.judge = ls_session_single}, &r->session));
    /* an epoch's last batch alone if the steps do not reach it */
    uint64_t last;
    if (!r->steps || !ls_job_lacks_tail(&plan->job, r->first, r->steps, &last))
        return LS_OK;
    LS_TRY(ls_allocate("reference", &r->tail, r->elements, sizeof *r->tail));
    LS_TRY(ls_session_begin_at(&r->session, last, &plan->initial));
    LS_TRY(ls_session_one_step(&r->session, r->tail, &r->tail_loss));
    return ls_session_begin_at(&r->session, r->first, &plan->initial);
}

size_t ls_reference_most(const ls_workplace *workplace)
{
    const size_t part = ls_machine_describe(workplace->machine)->memory_limit / MEMORY_PART;
    return part < most_bytes ? part : most_bytes;
}

size_t ls_reference_bytes(const ls_workplace *workplace, size_t elements, uint64_t steps)
{
    const size_t bytes = kept_bytes(elements, steps);
    return bytes <= ls_reference_most(workplace) ? bytes : elements * sizeof(float);
}

/* Drops a reference that has fewer steps than are needed now. */
static void drop(ls_workplace *workplace, ls_reference *r)
{
    ls_reference **at = &workplace->references;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    close_reference(r);
}

ls_status ls_reference_get(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                           ls_reference **out)
{
    /* without the options that do not change its trajectory */
    ls_case key = ls_reference_case(plan->config);
    key.batch = plan->job.batch;
    key.scaling = LS_SCALING_STRONG;
    key.epochs = key.epochs > 0;
    key.steps = key.warmup = key.gate_steps = key.eval_samples = 0;
    key.target_kind = LS_TARGET_NONE;
    key.target = 0;
    key.lr_decay = (int64_t)plan->job.update.schedule.decay; /* may follow from the steps */
    key.lr_wsd_decay = (int64_t)plan->job.update.schedule.down;
    size_t left = ls_reference_most(workplace);
    for (ls_reference *r = workplace->references, *next; r; r = next) {
        next = r->next;
        bool same = ls_case_same(&r->key, &key);
        if (same && r->steps == steps) {
            *out = r;
            return LS_OK;
        }
        if (same && r->steps < steps)
            drop(workplace, r);
        else
            left -= kept_bytes(r->elements, r->steps);
    }
    ls_reference *r;
    LS_TRY(ls_allocate("reference", &r, 1, sizeof *r));
    r->key = key;
    r->elements = plan->model->graph->variables.elements;
    r->first = plan->job.start;
    r->steps = steps;
    ls_status status = begin(workplace, plan, left, r);
    if (status) {
        close_reference(r);
        return status;
    }
    r->next = workplace->references;
    workplace->references = r;
    *out = r;
    return LS_OK;
}

static float *row_of(const ls_reference *r, uint64_t step)
{
    return r->values + (r->keeps ? step * r->elements : 0);
}

uint64_t ls_reference_hash(const float *values, size_t count)
{
    return ls_first_not_finite(values, count) < count ? 0
                                                      : ls_hash64(values, count * sizeof *values);
}

/* Keeps a hash of each array of the state besides the parameters. */
static ls_status hash_state(ls_reference *r)
{
    ls_run *run = r->session.run;
    const ls_variables *variables = &run->job->model->graph->variables;
    ls_auto float *values = NULL;
    LS_TRY(ls_allocate("reference", &values, r->elements, sizeof *values));
    for (int a = LS_SLOT_0; a < LS_ARRAYS; a++) {
        if (!ls_state_name(run->job, (ls_values)a))
            continue;
        LS_TRY(ls_allocate("reference", &r->state[a], variables->count, sizeof *r->state[a]));
        LS_TRY(run->functions->state(run, (ls_values)a, ls_job_elements(run->job), values));
        for (size_t i = 0; i < variables->count; i++)
            r->state[a][i] =
                ls_reference_hash(values + variables->items[i].offset, variables->items[i].count);
    }
    return LS_OK;
}

static ls_status compute(ls_reference *r)
{
    ls_run *run = r->session.run;
    LS_TRY(ls_session_one_step(&r->session, row_of(r, r->known), &r->loss[r->known]));
    if (r->known == 0)
        LS_TRY(run->functions->gradient(run, r->gradient));
    if (++r->known < r->steps)
        return LS_OK;
    LS_TRY(hash_state(r));
    if (ls_plan_tests(r->session.plan))
        LS_TRY(ls_session_evaluate(&r->session, ls_reference_tested(r->session.plan), true,
                                   &r->evaluation));
    ls_session_close(&r->session); /* complete: frees its devices */
    return LS_OK;
}

ls_status ls_reference_step(ls_reference *r, uint64_t step, const float **values, double *loss)
{
    step -= r->first;
    if (step >= r->steps) {
        *values = r->tail;
        *loss = r->tail_loss;
        return LS_OK;
    }
    if (step >= r->known)
        LS_TRY(compute(r));
    *values = row_of(r, step);
    *loss = r->loss[step];
    return LS_OK;
}

const float *ls_reference_gradient(const ls_reference *r)
{
    return r->gradient;
}

const float *ls_reference_whole(const ls_reference *r, double *loss)
{
    *loss = r->whole ? r->whole_loss : r->loss[0];
    return r->whole ? r->whole : r->gradient;
}

const uint64_t *ls_reference_state(const ls_reference *r, ls_values array)
{
    return r->state[array];
}

uint64_t ls_reference_tested(const ls_plan_of_case *plan)
{
    const uint64_t batch = (uint64_t)plan->job.batch;
    const uint64_t least = ls_plan_has_tokens(plan) ? 16 : 256;
    return batch > least ? batch : least;
}

const ls_evaluation *ls_reference_evaluation(const ls_reference *r)
{
    return &r->evaluation;
}

/* After an interrupt the reference may be incomplete. */
void ls_reference_done(ls_workplace *workplace, ls_reference *r)
{
    if (r->keeps && r->known == r->steps)
        ls_session_close(&r->session); /* without a step it is still open, with this plan's model */
    else
        drop(workplace, r);
}

void ls_references_close(ls_workplace *workplace)
{
    while (workplace->references)
        drop(workplace, workplace->references);
}
