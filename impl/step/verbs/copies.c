/* SPDX-License-Identifier: MIT */
/* Verbs of copies between members of a process, and of sums in a member's memory; see step.h. */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Whether a copy can be made; if not, says why. */
static bool can_copy(ls_step *s, ls_span to, ls_span from)
{
    if (s->program->status || (!ls_step_replica(s, from.member) && !ls_step_replica(s, to.member)))
        return false;
    if (to.bytes != from.bytes || (to.bytes && (!to.memory || !from.memory)))
        ls_step_fail(
            s, ls_fail(LS_CODE_USAGE, "strategy", s->plan->strategy->name,
                       "the strategy's .build function copies a span of %zu bytes to one of "
                       "%zu; give two spans of the same size%s",
                       from.bytes, to.bytes, to.memory && from.memory ? "" : ", both with memory"));
    return !s->program->status;
}

void ls_step_copy(ls_step *s, const char *verb, int lane, ls_span to, ls_span from)
{
    if (!can_copy(s, to, from))
        return;
    const bool crosses = ls_cross_devices(s, to.member, from.member);
    s->program->empty_copies += crosses && !to.bytes;
    ls_task *task = to.bytes ? ls_task_begin(s->program, verb, lane, ls_no_range) : NULL;
    if (!task)
        return;
    task->copy = (ls_task_copy){.from_member = from.member,
                                .to_member = to.member,
                                .from = from.memory,
                                .to = to.memory,
                                .bytes = to.bytes,
                                .crosses = crosses};
    task->bytes = 2 * (double)to.bytes;
    ls_task_touch(s->program, from.memory, to.bytes, LS_READS);
    ls_task_touch(s->program, to.memory, to.bytes, LS_WRITES);
    ls_task_finish(s->program);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

void ls_step_add(ls_step *s, const char *verb, ls_span sum, ls_span more)
{
    ls_kernels *kernels = ls_step_replica(s, sum.member)->kernels;
    const ls_add_args args = {.count = (int64_t)(sum.bytes / kernels->table->real_bytes),
                              .a = sum.memory,
                              .b = more.memory,
                              .y = sum.memory};
    ls_op *op = NULL;
    const ls_status status = s->program->status ? LS_OK : kernels->table->add(kernels, &args, &op);
    if (!s->program->status)
        ls_task_of_op(s->program, verb, sum.member, ls_no_range, op, status);
}

void ls_combine(ls_step *s, const char *verb, ls_span to, const ls_combination *of)
{
    const ls_replica *r = ls_step_replica(s, to.member);
    if (!r || !to.bytes ||
        !ls_step_can(s,
                     of->x.bytes == to.bytes && of->x.member == to.member &&
                         (!of->y.memory || (of->y.bytes == to.bytes && of->y.member == to.member)),
                     "ls_combine",
                     "cannot combine spans of different sizes, or on different devices; give spans "
                     "of the same size on one device"))
        return;
    const ls_combine_args args = {.count = (int64_t)(to.bytes / r->kernels->table->real_bytes),
                                  .a = of->a,
                                  .x = of->x.memory,
                                  .b = of->b,
                                  .y = of->y.memory,
                                  .divisor = of->divisor != 0 ? of->divisor : 1,
                                  .out = to.memory};
    ls_op *op = NULL;
    const ls_status status = r->kernels->table->combine(r->kernels, &args, &op);
    ls_task_of_op(s->program, verb, to.member, ls_no_range, op, status);
}

static ls_status make_sums(const ls_replica *r, const ls_span *parts, const ls_addition *sums,
                           size_t count, void *out, ls_op_list *ops)
{
    for (size_t i = 0; i < count; i++) {
        const ls_span *left = &parts[sums[i].into];
        const ls_add_args args = {.count = (int64_t)(left->bytes / r->kernels->table->real_bytes),
                                  .a = left->memory,
                                  .b = parts[sums[i].from].memory,
                                  .y = i + 1 == count ? out : left->memory};
        ls_op *op;
        LS_TRY(r->kernels->table->add(r->kernels, &args, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

void ls_step_sum(ls_step *s, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out)
{
    ls_op_list ops = {0};
    ls_auto ls_addition *sums = NULL;
    size_t count = 0;
    if (s->program->status)
        return;
    ls_status status = ls_slice_tree(ls_step_job(s), s->batch, replicas, &sums, &count);
    if (!status)
        status = make_sums(ls_step_replica(s, member), parts, sums, count, out, &ops);
    if (count || status)
        ls_task_of(s->program, "add up", member, range, &ops, status);
}

/* ---- Gradients on the member that holds the variables ---------------------------------------- */

/* Makes a member's sum number `index` readable by the holder; `only`: there is no other sum. */
static ls_span bring(ls_step *s, int member, size_t index, bool only)
{
    ls_replica *holder = ls_step_replica(s, ls_holder(s));
    const ls_span sum = ls_gradient(s, member, index, ls_all(s));
    ls_span target = {ls_holder(s), holder->gradients, sum.bytes};
    if (!ls_cross_devices(s, member, target.member) && !only)
        return sum;
    if (!only)
        ls_step_fail(s, ls_replica_take(holder, "staging", LS_MEMORY_COMMUNICATION, sum.bytes,
                                        &target.memory));
    if (!s->program->status && target.memory != sum.memory)
        ls_step_copy(s, "send", member, target, sum);
    return target;
}

void ls_add_up(ls_step *s, const int *members, int count)
{
    const int holder = ls_holder(s);
    size_t parts = 0, at = 0;
    if (!ls_step_can(s, holder >= 0, "ls_add_up",
                     "cannot be called in this strategy, since no device holds the variables for "
                     "others; set .variables to LS_HELD"))
        return;
    for (int i = 0; i < count; i++)
        parts += ls_sums(s, i);
    ls_auto ls_span *spans = NULL;
    ls_step_fail(s, ls_allocate("step", &spans, parts, sizeof *spans));
    for (int i = 0; i < count && !s->program->status; i++)
        for (size_t k = 0; k < ls_sums(s, i) && !s->program->status; k++)
            spans[at++] = bring(s, members[i], k, parts == 1);
    ls_step_sum(s, holder, ls_no_range, spans, count, ls_step_replica(s, holder)->gradients);
}
