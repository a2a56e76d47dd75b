/* SPDX-License-Identifier: MIT */
/* Registries: the core's tables as sections of `lockstep list` and as checks of options. */
#include "bench/list.h"
#include "bench/option_values.h"
#include "bench/options.h"
#include "bench/sync_bn.h"

#include "common/base/numbers.h"
#include "common/comm/comm.h"
#include "common/data/data.h"
#include "common/kernel/kernel.h"
#include "common/nn/layer.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"
#include "impl/places.h"
#include "impl/ps/ps_layout.h"
#include "impl/strategy.h"

#include <stdlib.h>
#include <string.h>

/* Sections: how many there are, and name and help of each. */

static size_t strategy_count(void)
{
    size_t count = 0;
    while (ls_strategies()[count])
        count++;
    return count;
}

static const char *strategy_name(size_t i)
{
    return ls_strategies()[i]->name;
}

static const char *strategy_help(size_t i)
{
    return ls_strategies()[i]->help;
}

static size_t model_count(void)
{
    size_t count = 0;
    while (ls_model_kinds()[count])
        count++;
    return count;
}

static const char *model_name(size_t i)
{
    return ls_model_kinds()[i]->name;
}

static const char *model_help(size_t i)
{
    return ls_model_kinds()[i]->help;
}

static size_t layer_count(void)
{
    size_t count = 0;
    while (ls_layers()[count])
        count++;
    return count;
}

static const char *layer_name(size_t i)
{
    return ls_layers()[i]->name;
}

static const char *layer_help(size_t i)
{
    return ls_layers()[i]->help;
}

static size_t data_count(void)
{
    size_t count = 0;
    while (ls_data_sources()[count])
        count++;
    return count;
}

static const char *data_name(size_t i)
{
    return ls_data_sources()[i]->name;
}

static const char *data_help(size_t i)
{
    return ls_data_sources()[i]->help;
}

static size_t optimizer_count(void)
{
    size_t count = 0;
    while (ls_optimizer_rules()[count])
        count++;
    return count;
}

static const char *optimizer_name(size_t i)
{
    return ls_optimizer_rules()[i]->name;
}

static const char *optimizer_help(size_t i)
{
    return ls_optimizer_rules()[i]->help;
}

static size_t kernel_count(void)
{
    size_t count = 0;
    while (ls_kernel_tables()[count])
        count++;
    return count;
}

static const char *kernel_name(size_t i)
{
    return ls_kernel_tables()[i]->name;
}

static const char *kernel_help(size_t i)
{
    return ls_kernel_tables()[i]->help;
}

static size_t allreduce_count(void)
{
    size_t count = 0;
    while (ls_allreduces()[count])
        count++;
    return count;
}

static const char *allreduce_name(size_t i)
{
    return ls_allreduces()[i]->name;
}

static const char *allreduce_help(size_t i)
{
    return ls_allreduces()[i]->help;
}

static size_t comm_count(void)
{
    size_t count = 0;
    while (ls_comm_backends()[count])
        count++;
    return count;
}

static const char *comm_name(size_t i)
{
    return ls_comm_backends()[i]->name;
}

static const char *comm_help(size_t i)
{
    return ls_comm_backends()[i]->help;
}

static const ls_list_section sections[] = {
    {"strategies", strategy_count, strategy_name, strategy_help},
    {"models", model_count, model_name, model_help},
    {"layers", layer_count, layer_name, layer_help},
    {"data", data_count, data_name, data_help},
    {"allreduce", allreduce_count, allreduce_name, allreduce_help},
    {"optimizers", optimizer_count, optimizer_name, optimizer_help},
    {"communicators", comm_count, comm_name, comm_help},
    {"kernels", kernel_count, kernel_name, kernel_help},
};
enum { STRATEGIES, MODELS, LAYERS, DATA, ALLREDUCE, OPTIMIZERS };

const ls_list_section *ls_list_sections(size_t *count)
{
    *count = sizeof sections / sizeof *sections;
    return sections;
}

/* ---- Checks of option values ---------------------------------------------------------------- */

static ls_status check_model(const char *text)
{
    ls_model *model;
    LS_TRY(ls_model_open(text, &model));
    ls_model_close(model);
    return LS_OK;
}

static ls_status check_optimizer(const char *text)
{
    ls_optimizer optimizer;
    return ls_optimizer_parse(text, &optimizer);
}

/* Devices in the text of --devices: a number, or names joined by '+'. */
static size_t count_devices(const char *text)
{
    int64_t number;
    if (ls_parse_integer(text, 0, INT32_MAX, &number))
        return (size_t)number;
    size_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == '+';
    return count;
}

/* Whether the model can be cut for so many devices; a plan that is named is looked at later. */
static ls_status check_division(const ls_case *one, const ls_model *model, int64_t places)
{
    const ls_graph *graph = model->graph;
    if (*one->place)
        return LS_OK;
    int *place = calloc((size_t)graph->count, sizeof *place);
    if (!place)
        return ls_fail_memory("placement", (size_t)graph->count * sizeof *place);
    ls_status status = ls_places_balance(graph, places, place);
    if (!status)
        status = ls_places_check(graph, place, (int)places, ls_applies_pipeline(one));
    free(place);
    return status;
}

static ls_status check_model_case(const ls_case *one, const ls_strategy *strategy,
                                  const ls_model *model, int hosts)
{
    ls_outline outline = {.devices = count_devices(one->devices),
                          .ranks = one->ranks,
                          .batch = one->batch > 0 ? one->batch : model->kind->default_batch,
                          .exact = one->reduce == LS_REDUCE_EXACT,
                          .micro_shards = one->micro_shards,
                          .allreduce = one->allreduce,
                          .microbatches = ls_applies_pipeline(one) ? one->microbatches : 0,
                          .replicas = ls_case_split_replicas(one, ls_strategy_divides(strategy)),
                          .ps_servers = one->ps_servers,
                          .ps_colocate = one->ps_colocate,
                          .ps_alone = one->ps_mode != LS_PS_SYNC,
                          .ps_backups = one->ps_backup_workers,
                          .comm = one->comm,
                          .linked = *one->link_text != 0,
                          .hosts = hosts};
    int64_t devices;
    const ls_ps_options ps = {
        .ranks = one->ranks, .servers = one->ps_servers, .colocate = one->ps_colocate};
    if (__builtin_mul_overflow((int64_t)outline.devices, (int64_t)outline.ranks, &devices))
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "times the ranks overflows; fewer devices work");
    if (ls_strategy_serves(strategy) && devices <= INT32_MAX)
        outline.replicas = ls_ps_workers(&ps, (int)devices);
    const int64_t replicas = outline.replicas;
    if (one->scaling == LS_SCALING_WEAK &&
        __builtin_mul_overflow(outline.batch, replicas > 0 ? replicas : devices, &outline.batch))
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "times the devices overflows; a smaller one works");
    LS_TRY(ls_strategy_check(strategy, &outline));
    LS_TRY(ls_sync_bn_check(one, strategy, model, replicas > 0 ? replicas : devices, devices));
    return ls_strategy_divides(strategy) ? check_division(one, model, devices / replicas) : LS_OK;
}

static ls_status check_case(const ls_case *one, const ls_request *request)
{
    const ls_strategy *strategy;
    ls_model *model;
    LS_TRY(ls_strategy_find(one->strategy, &strategy));
    LS_TRY(ls_model_open(one->model, &model));
    const int hosts = request->processes ? request->processes->hosts : 1;
    ls_status status = check_model_case(one, strategy, model, hosts);
    ls_model_close(model);
    return status;
}

static const ls_option_names names = {
    .models = {&sections[MODELS], check_model},
    .data = {&sections[DATA], NULL},
    .strategies = {&sections[STRATEGIES], NULL},
    .optimizers = {&sections[OPTIMIZERS], check_optimizer},
    .allreduces = {&sections[ALLREDUCE], NULL},
    .check_case = check_case,
};

const ls_option_names *ls_option_names_registered(void)
{
    return &names;
}
