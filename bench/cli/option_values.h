/* SPDX-License-Identifier: MIT */
/*
 * Option values: the setters of the option table. Each parses one complete value, checks its range,
 * and writes a field; a refusal says what is valid.
 */
#pragma once

#include "bench/case/case_facts.h"
#include "bench/cli/option.h"

#include <jansson.h>

#define OPTION(name, placeholder, fallback, unit, help, commands, heading, setter, ...)            \
    ls_status ls_set_##setter(const ls_setting *setting);
#include "bench/cli/option_entries.def"

/** The setter of declared options. */
ls_status ls_set_declared(const ls_setting *setting);

/** Refuses sizes without a model, "784,2048,10". */
ls_status ls_check_models(const ls_setting *setting);

/** What a row's `case` says of an option that sweeps, as a command line has it: owned by the caller
 * (free); NULL if there is nothing. Devices that are `kind`:0, `kind`:1 and so on, of each rank,
 * are a number.
 */
char *ls_option_of_row(const ls_option *option, const json_t *row, const char *kind);

/** The field to set: the option's field in the case or the request. */
void *ls_setting_field(const ls_setting *setting);

/** Refuses a value that is not valid, and says which are. */
ls_status ls_setting_check(const ls_setting *setting, bool valid);

/** Relays a parser's failure, with the option's name. */
ls_status ls_setting_relay(const ls_setting *setting, ls_status status);
