/* SPDX-License-Identifier: MIT */
/* The registries, as options see them: valid names, and checks of whole values. */
#pragma once

#include "bench/case/case.h"
#include "bench/cli/list.h"

/** A registry, and how a whole value ("mlp:784-10") is checked once its name is known. */
typedef struct ls_option_registry {
    const ls_list_section *section;       /**< may be NULL: any name goes */
    ls_status (*check)(const char *text); /**< may be NULL; its refusal is relayed */
} ls_option_registry;

/** Checks of values that name an entry of a registry, and of whole cases. */
typedef struct ls_option_names {
    ls_option_registry models, data, strategies, optimizers, allreduces;
    /**
     * Whether the case's strategy can run it; all defaults are filled in. LS_CODE_USAGE drops the
     * case from a product, any other failure ends the command. May be NULL.
     */
    ls_status (*check_case)(const ls_case *one, const ls_request *request);
    /** How many devices of the best kind are here, for `--devices all`; may be NULL. */
    ls_status (*count_devices)(const ls_request *request, size_t *count);
    const ls_processes *processes; /**< that run the command; NULL: this one alone */
} ls_option_names;
