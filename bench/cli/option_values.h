/* SPDX-License-Identifier: MIT */
/*
 * Option values: the setters of the option table. Each parses one complete value, checks its range,
 * and writes a field; a refusal says what is valid.
 */
#pragma once

#include "bench/case/case_facts.h"
#include "bench/cli/option.h"

#include <jansson.h>

ls_status ls_set_int64(const ls_setting *setting);    /**< within [low, high], an int64_t */
ls_status ls_set_int(const ls_setting *setting);      /**< as above, an int */
ls_status ls_set_switch(const ls_setting *setting);   /**< "yes", "no": a bool */
ls_status ls_set_text(const ls_setting *setting);     /**< an owned char * */
ls_status ls_set_columns(const ls_setting *setting);  /**< as above, keys of a row */
ls_status ls_set_word(const ls_setting *setting);     /**< the number of a word, an int or enum */
ls_status ls_set_gpu_word(const ls_setting *setting); /**< as above; all except the first need
                                                           GPUs */
ls_status ls_set_real(const ls_setting *setting); /**< within [least, most], or none: a double */
ls_status ls_set_duration(const ls_setting *setting); /**< nanoseconds, a uint64_t */
ls_status ls_set_named(const ls_setting *setting); /**< a name of the registry, or auto: an array */
ls_status ls_set_declared(const ls_setting *setting); /**< of a declared option */

/** Refuses sizes without a model, "784,2048,10". */
ls_status ls_check_models(const ls_setting *setting);
ls_status ls_set_model(const ls_setting *setting);
ls_status ls_set_data(const ls_setting *setting);
ls_status ls_set_strategy(const ls_setting *setting);
ls_status ls_set_optimizer(const ls_setting *setting);
ls_status ls_set_devices(const ls_setting *setting);
ls_status ls_set_bucket(const ls_setting *setting);
ls_status ls_set_inject(const ls_setting *setting);
ls_status ls_set_elastic(const ls_setting *setting);
ls_status
ls_set_eval_samples(const ls_setting *setting); /**< "auto", "all", a number: an int64_t */
ls_status ls_set_epochs(const ls_setting *setting);
ls_status ls_set_recompute(const ls_setting *setting);
ls_status ls_set_target(const ls_setting *setting);
ls_status ls_set_memory(const ls_setting *setting);
ls_status ls_set_link(const ls_setting *setting);
ls_status ls_set_comm(const ls_setting *setting);
ls_status ls_set_ranks(const ls_setting *setting);
ls_status ls_set_precision(const ls_setting *setting);
ls_status ls_set_launcher(const ls_setting *setting);
ls_status ls_set_format(const ls_setting *setting);
ls_status ls_set_results(const ls_setting *setting);
ls_status ls_set_level(const ls_setting *setting); /**< "yes": the log's level becomes `low` */
ls_status
ls_set_nothing(const ls_setting *setting); /**< read elsewhere: --plan, and all of micro */

/** What a row's `case` says of an option that sweeps, as a command line has it: owned by the caller
 * (free); NULL if there is nothing. Devices that are `kind`:0, `kind`:1 and so on, of each rank,
 * are a number.
 */
char *ls_option_of_row(const ls_option *option, const json_t *row, const char *kind);

/** Whether the request's field is a text that it owns. */
bool ls_option_is_text(const ls_option *option);

/** The field to set: the option's field in the case or the request. */
void *ls_setting_field(const ls_setting *setting);

/** Copies the value into the field, an array of `high` characters; the rest of it becomes zero. */
ls_status ls_setting_array(const ls_setting *setting);

/** Refuses a value that is not valid, and says which are. */
ls_status ls_setting_check(const ls_setting *setting, bool valid);

/** Relays a parser's failure, with the option's name. */
ls_status ls_setting_relay(const ls_setting *setting, ls_status status);
