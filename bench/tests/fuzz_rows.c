/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target of what is made of rows: report, tables, exports, verdicts (row_outputs.h). So
 * that it links without what trains, it has registries of its own, and no devices.
 */
#include "bench/tests/row_outputs.h"
#include "common/data/data.h"
#include "impl/strategies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const ls_strategy ls_strategy_single = {.name = "single", .help = ""};
static const ls_strategy mirrored = {.name = "mirrored", .help = ""};
static const void *const strategies[] = {&ls_strategy_single, &mirrored, NULL};
static const void *const none[] = {NULL};
const ls_registry ls_strategies = {"strategy", strategies};
const ls_registry ls_model_families = {"model", none};
const ls_registry ls_data_sources = {"data", none};

const ls_device_info *ls_device_describe(const ls_device *device)
{
    (void)device; /* of bench/train/trial/noise.c, while something is timed */
    return NULL;
}

/* Of the verb `export`, which is not called. */
const char *ls_option_set_text(const ls_option_set *set, const char *name, const char *otherwise)
{
    (void)set;
    (void)name;
    return otherwise;
}

bool ls_option_set_yes(const ls_option_set *set, const char *name)
{
    (void)set;
    return !name;
}

bool ls_option_set_has(const ls_option_set *set, const char *name)
{
    (void)set;
    (void)name;
    return false;
}

static char folder[] = "/tmp/lockstep-fuzz-XXXXXX";

static void remove_folder(void)
{
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (strchr(folder, 'X') && mkdtemp(folder))
        atexit(remove_folder);
    check_outputs(data, size, folder);
    return 0;
}
