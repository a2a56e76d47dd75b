/* SPDX-License-Identifier: MIT */
/* Facts of a case; see case_facts.h; and of a resolved case, see case_plan.h. */
#include "bench/case/case_facts.h"

#include "bench/case/case_plan.h"
#include "bench/case/graph_file.h"
#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/nn/models.h"
#include "common/nn/repeat.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

const char *const ls_scaling_words[] = {
    [LS_SCALING_STRONG] = "strong", [LS_SCALING_WEAK] = "weak", NULL};
const char *const ls_reduce_words[] = {
    [LS_REDUCE_FAST] = "fast", [LS_REDUCE_EXACT] = "exact", NULL};
const char *const ls_math_words[] = {[LS_MATH_FLOAT32] = "float32", [LS_MATH_TF32] = "tf32", NULL};
const char *const ls_precision_words[] = {
    [LS_PRECISION_FLOAT32] = "float32", [LS_PRECISION_BF16] = "bf16", NULL};
const char *const ls_convolution_words[] = {[LS_CONVOLUTION_AUTO] = "auto",
                                            [LS_CONVOLUTION_CUDNN] = "cudnn",
                                            [LS_CONVOLUTION_OWN] = "own",
                                            NULL};

void ls_case_note_model(ls_case *one, const ls_model *model)
{
    const ls_model_family *family = model->family;
    memset(&one->file, 0, sizeof one->file);
    if (!ls_graph_file_text(model))
        return;
    snprintf(one->file.data, sizeof one->file.data, "%s", family->default_data);
    one->file.normalises = family->options != NULL;
    one->file.convolves = family->convolves;
}

static const ls_model_family *model_family(const ls_case *one)
{
    return ls_registry_find(&ls_model_families, one->model, strcspn(one->model, ":"));
}

/* Options of the model, and of the data (named, or the model's default). */
static void option_lists(const ls_case *one, const ls_declared_option *const *lists[2])
{
    const ls_model_family *family = model_family(one);
    const bool own = ls_graph_file_is(one->model);
    const char *usual = own ? one->file.data : family ? family->default_data : "";
    const char *data = *one->data ? one->data : usual;
    const ls_data_source *source = ls_registry_find(&ls_data_sources, data, strcspn(data, ":"));
    lists[0] = family && (!own || one->file.normalises) ? family->options : NULL;
    lists[1] = source ? source->options : NULL;
}

bool ls_case_has(const ls_case *one, const ls_declared_option *option)
{
    const ls_declared_option *const *lists[2];
    option_lists(one, lists);
    return ls_strategy_has(one->strategy, &one->own, one->ranks, option) ||
           ls_declared_has(lists[0], option) || ls_declared_has(lists[1], option);
}

size_t ls_case_own(const ls_case *one, const ls_declared_option *out[LS_DECLARED_HAD])
{
    size_t count = 0;
    const ls_declared_option *const *lists[3] = {one->strategy->options};
    option_lists(one, lists + 1);
    for (int i = 0; i < 3; i++)
        for (const ls_declared_option *const *o = lists[i]; o && *o; o++)
            if (ls_case_has(one, *o) && count < LS_DECLARED_HAD)
                out[count++] = *o;
    return count;
}

double ls_case_dropout(const ls_case *one)
{
    return ls_case_has(one, &ls_option_dropout) ? ls_declared_real(&one->own, &ls_option_dropout)
                                                : 0;
}

static const ls_declared_option *const of_pieces[] = {&ls_option_accumulation_exchange,
                                                      &ls_option_zero_accumulation, NULL};

bool ls_case_ignores(const ls_case *one, const ls_declared_option *option)
{
    return one->accumulation == 1 && ls_declared_has(of_pieces, option) &&
           ls_declared_has(one->strategy->options, option);
}

void ls_case_settle(ls_case *one)
{
    const ls_model_family *family = model_family(one);
    if (one->accumulation == 1)
        ls_declared_clear(&one->own, of_pieces);
    if (strcmp(one->lr_schedule, "constant") == 0 && !(family && family->rate_epochs))
        memset(one->lr_schedule, 0, sizeof one->lr_schedule); /* the model's own */
    if (!family)
        return;
    if (strcmp(one->optimizer, family->default_optimizer) == 0)
        memset(one->optimizer, 0, sizeof one->optimizer);
    if (strcmp(one->data, family->default_data) == 0)
        memset(one->data, 0, sizeof one->data);
    if (one->learning_rate == family->default_rate)
        one->learning_rate = 0;
}

bool ls_case_lr_decays(const ls_case *one)
{
    return *one->lr_schedule && strcmp(one->lr_schedule, "constant") != 0;
}

bool ls_case_lr_is_wsd(const ls_case *one)
{
    return strcmp(one->lr_schedule, "wsd") == 0;
}

bool ls_case_is_exact(const ls_case *one)
{
    return one->reduce == LS_REDUCE_EXACT;
}

bool ls_case_convolves(const ls_case *one)
{
    const ls_model_family *family = model_family(one);
    return ls_graph_file_is(one->model) ? one->file.convolves : family && family->convolves;
}

bool ls_case_has_buckets(const ls_case *one)
{
    ls_job job = {.options = one->own};
    ls_strategy_resolve(one->strategy, &job, one->ranks);
    return one->reduce == LS_REDUCE_FAST || job.state.on[LS_MEMBER] == LS_SHARE;
}

size_t ls_case_devices(const ls_case *one)
{
    int64_t number;
    if (ls_parse_integer(one->devices, 0, INT32_MAX, &number))
        return (size_t)number;
    size_t count = 1;
    for (const char *c = one->devices; *c; c++)
        count += *c == '+';
    return count;
}

bool ls_case_has_links(const ls_case *one)
{
    return one->strategy != &ls_strategy_single || one->ranks > 1 || ls_case_devices(one) > 1;
}

/* A timeout also applies to a single GPU, which is watched. */
bool ls_case_has_timeout(const ls_case *one)
{
    return ls_case_has_links(one) || strcasestr(one->devices, "gpu:");
}

bool ls_case_is_elastic(const ls_case *one)
{
    return *one->elastic || one->shrinks;
}

bool ls_case_by_arrival(const ls_case *one)
{
    ls_job job = {0};
    ls_case_job(one, &job);
    return ls_ps_by_arrival(&job.ps);
}

ls_case ls_case_single(const ls_case *c)
{
    ls_case single = *c;
    const size_t first = strcspn(c->devices, "+");
    ls_declared_clear(&single.own, c->strategy->options);
    single.strategy = &ls_strategy_single;
    if (c->devices[strspn(c->devices, "0123456789")])
        memset(single.devices + first, 0, sizeof single.devices - first);
    else /* a number selects the best kind, as elsewhere */
        strncpy(single.devices, "1", sizeof single.devices);
    strncpy(single.allreduce, "auto", sizeof single.allreduce);
    memset(single.link_text, 0, sizeof single.link_text);
    memset(&single.link, 0, sizeof single.link);
    single.bucket_bytes = -1;
    single.accumulation = 1;
    single.drops = LS_REPEAT_NONE;
    single.ranks = 1;
    if (strcmp(c->comm, "mpi") != 0) /* one device needs no communicator */
        strncpy(single.comm, "thread", sizeof single.comm);
    memset(&single.fault, 0, sizeof single.fault);
    memset(single.elastic, 0, sizeof single.elastic);
    single.shrinks = 0;
    return single;
}

/* What tells two values of an option apart: "0.70" is "0.7". */
static const char *text_of(const ls_declared_value *value)
{
    return value->option && value->option->type == LS_DECLARED_TEXT ? value->text : "";
}

/* Strategies and texts are compared by contents, not by address. */
bool ls_case_same(const ls_case *a, const ls_case *b)
{
    const size_t own = offsetof(ls_case, own), rest = own + sizeof a->own;
    bool same = memcmp(a, b, own) == 0 &&
                memcmp((const char *)a + rest, (const char *)b + rest, sizeof *a - rest) == 0;
    for (int i = 0; same && i < LS_DECLARED_MOST; i++) {
        const ls_declared_value *x = &a->own.items[i], *y = &b->own.items[i];
        same =
            x->option == y->option && x->number == y->number && strcmp(text_of(x), text_of(y)) == 0;
    }
    return same;
}

uint64_t ls_case_hash(const ls_case *one)
{
    ls_case copy;
    memcpy(&copy, one, sizeof copy); /* including padding */
    uint64_t hash = ls_hash64(one->strategy->name, strlen(one->strategy->name));
    copy.strategy = NULL;
    for (int i = 0; i < LS_DECLARED_MOST && one->own.items[i].option; i++) {
        const ls_declared_value *value = &one->own.items[i];
        hash = 31 * hash + ls_hash64(value->option->name, strlen(value->option->name));
        hash = 31 * hash + ls_hash64(text_of(value), strlen(text_of(value)));
        copy.own.items[i].option = NULL;
        copy.own.items[i].text = NULL;
    }
    return 31 * hash + ls_hash64(&copy, sizeof copy);
}

void ls_case_job(const ls_case *c, ls_job *job)
{
    job->options = c->own;
    job->seed = c->seed;
    job->sampling.shuffle = c->shuffle;
    job->sampling.ragged =
        ls_case_has(c, &ls_option_lengths) && ls_declared_number(&c->own, &ls_option_lengths);
    job->sampling.augment = ls_declared_number(&c->own, &ls_option_augment);
    job->exchange.sync_statistics = ls_declared_number(&c->own, &ls_option_sync_bn);
    job->exact.on = c->reduce == LS_REDUCE_EXACT;
    job->exact.shards = c->micro_shards;
    job->exact.splits = (int)c->micro_splits;
    job->update.clip = c->clip;
    job->accumulation.pieces = (int)c->accumulation;
    job->drops = (int)c->drops;
    job->kernels.math = c->math;
    job->kernels.precision = c->precision;
    job->kernels.convolution = c->convolution;
    job->kernels.capture = c->capture;
    job->faults.flip_replica = c->fault.kind == LS_FAULT_BITFLIP ? c->fault.target : -1;
    job->faults.flip_step = (uint64_t)c->fault.step;
    ls_strategy_resolve(c->strategy, job, c->ranks);
}

ls_outline ls_case_outline(const ls_case *c, const ls_job *job, size_t devices, int hosts)
{
    return (ls_outline){.job = job,
                        .devices = devices,
                        .ranks = c->ranks,
                        .allreduce = c->allreduce,
                        .comm = c->comm,
                        .linked = *c->link_text != 0,
                        .hosts = hosts};
}

/* ---- Resolved ------------------------------------------------------------------------------- */

bool ls_plan_has_variable_device(const ls_plan_of_case *plan)
{
    return ls_case_has(plan->config, &ls_option_variable_device);
}

bool ls_plan_mixes_kinds(const ls_plan_of_case *plan)
{
    return ls_plan_has_variable_device(plan) && plan->variable_device.kind != plan->devices->kind;
}

bool ls_plan_can_hang(const ls_plan_of_case *plan)
{
    bool cpus = plan->variable_device.kind == LS_DEVICE_CPU || !ls_plan_has_variable_device(plan);
    for (size_t i = 0; i < plan->device_count; i++)
        cpus &= plan->devices[i].kind == LS_DEVICE_CPU;
    return cpus && plan->all_devices > 1 && !plan->job.ranks.comm;
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

bool ls_plan_tests(const ls_plan_of_case *plan)
{
    return plan->model->need.classes && plan->data->test.samples;
}

bool ls_plan_has_tokens(const ls_plan_of_case *plan)
{
    return ls_graph_targets(plan->model->graph) > 1;
}

uint64_t ls_plan_evaluated(const ls_plan_of_case *plan, uint64_t steps)
{
    const ls_case *c = plan->config;
    const uint64_t all = plan->data->test.samples, asked = (uint64_t)c->eval_samples;
    const uint64_t trained = ls_job_samples(&plan->job, steps);
    const uint64_t least = ls_plan_has_tokens(plan) ? 64 : 1000;
    uint64_t samples = all;
    if (!ls_plan_tests(plan))
        samples = 0;
    else if (c->target_kind == LS_TARGET_ACCURACY)
        samples = all;
    else if (c->eval_samples != LS_EVAL_AUTO)
        samples = asked;
    else if (!plan->job.sampling.epochs)
        samples = trained > least ? trained : least;
    return samples < all ? samples : all;
}
