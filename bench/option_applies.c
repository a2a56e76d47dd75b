/* SPDX-License-Identifier: MIT */
/* Which cases an option concerns; see option_applies.h. */
#include "bench/option_applies.h"

#include "bench/option_ps.h"
#include "common/base/numbers.h"

#include <string.h>

bool ls_applies_hybrid(const ls_case *one)
{
    return strcmp(one->strategy, "hybrid") == 0;
}

int ls_case_split_replicas(const ls_case *one, bool divided)
{
    return !divided ? 0 : ls_applies_hybrid(one) ? one->hybrid_replicas : 1;
}

bool ls_applies_local_sgd(const ls_case *one)
{
    return strcmp(one->strategy, "local-sgd") == 0;
}

bool ls_applies_mirrored(const ls_case *one)
{
    return strcmp(one->strategy, "mirrored") == 0 || ls_applies_hybrid(one) ||
           ls_applies_local_sgd(one);
}

bool ls_applies_buckets(const ls_case *one)
{
    return ls_applies_mirrored(one) && one->reduce == LS_REDUCE_FAST;
}

bool ls_applies_towers(const ls_case *one)
{
    return strcmp(one->strategy, "towers") == 0;
}

bool ls_applies_variable_device(const ls_case *one)
{
    return ls_applies_towers(one) || (ls_applies_ps(one) && one->ranks == 1);
}

bool ls_applies_model_parallel(const ls_case *one)
{
    return strcmp(one->strategy, "model-parallel") == 0 ||
           (ls_applies_hybrid(one) && !one->hybrid_pipeline);
}

bool ls_applies_pipeline(const ls_case *one)
{
    return strcmp(one->strategy, "pipeline") == 0 ||
           (ls_applies_hybrid(one) && one->hybrid_pipeline);
}

bool ls_applies_link(const ls_case *one)
{
    int64_t number;
    return strcmp(one->strategy, "single") != 0 || one->ranks > 1 || strchr(one->devices, '+') ||
           ls_parse_integer(one->devices, 2, INT32_MAX, &number);
}

/* A GPU alone is watched, too. */
bool ls_applies_timeout(const ls_case *one)
{
    return ls_applies_link(one) || strcasestr(one->devices, "gpu:");
}

/* Whether a text of a model or a data set is of this kind, with whatever sizes or place. */
static bool is_of(const char *text, const char *kind)
{
    const size_t length = strlen(kind);
    return strncmp(text, kind, length) == 0 && (!text[length] || text[length] == ':');
}

/* The data set that has images to crop, named or the model's. */
bool ls_applies_augment(const ls_case *one)
{
    static const char name[] = "cifar10";
    if (!*one->data)
        return is_of(one->model, name) || is_of(one->model, "resnet");
    return is_of(one->data, name);
}

/* Models with a convolution that stands alone; that of `cnn` is one operation with its pool. */
bool ls_applies_convolution(const ls_case *one)
{
    return is_of(one->model, "cifar10") || is_of(one->model, "resnet");
}

bool ls_applies_sync_bn(const ls_case *one)
{
    return is_of(one->model, "resnet");
}

bool ls_applies_exact(const ls_case *one)
{
    return one->reduce == LS_REDUCE_EXACT;
}
