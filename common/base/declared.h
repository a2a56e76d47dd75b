/* SPDX-License-Identifier: MIT */
/*
 * Declared options: an option that its owner (a strategy, a model, a data source) declares beside
 * the code that reads it. From the declaration come the option of the command line, the key of a
 * plan, its line of help, its refusals, and the field of a row ("ps-mode" is `case.ps_mode`).
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_declared_option ls_declared_option;

/** What begins each entry of a registry (registry.h) whose entries declare options. */
typedef struct ls_declared_owner {
    const char *name;                         /**< as it is given */
    const char *help;                         /**< one line for people */
    const ls_declared_option *const *options; /**< NULL-terminated; NULL: none */
} ls_declared_owner;

/** What its values are. */
typedef enum ls_declared_type {
    LS_DECLARED_NUMBER, /**< a whole number from `low` to `high` */
    LS_DECLARED_SWITCH, /**< yes or no: 1 or 0 */
    LS_DECLARED_WORD,   /**< one of `words`: its index */
    LS_DECLARED_TEXT    /**< less than `high` characters */
} ls_declared_type;

/** An option as its owner declares it. */
struct ls_declared_option {
    const char *name;         /**< without the dashes: "ps-staleness" */
    const char *placeholder;  /**< of the value in `--help`: "K" */
    const char *fallback;     /**< the default, as text; of a text "none" is the empty one */
    const char *unit;         /**< "" where there is none */
    const char *help;         /**< one line */
    ls_declared_type type;    /**< of its value */
    int64_t low, high;        /**< see the type */
    const char *const *words; /**< NULL-terminated */
    bool continues;           /**< a comma before `name=` continues the value */
    const char *when;         /**< what a case of the owner needs to have it, as refusals say:
                                   "--ps-mode ssp"; NULL: nothing more */
    /** Of a text: whether it is well formed; NULL: any is. Its refusal says what would work. */
    ls_status (*check)(const char *text);
};

enum { LS_DECLARED_MOST = 8 }; /* that one case has */

/** One that was given. */
typedef struct ls_declared_value {
    const ls_declared_option *option; /**< NULL: no more */
    int64_t number;                   /**< of a text 0 */
    const char *text;                 /**< as given; borrowed */
} ls_declared_value;

/** What was given. Zero-filled: nothing, so that all options have their defaults. */
typedef struct ls_declared_values {
    ls_declared_value items[LS_DECLARED_MOST]; /**< the given ones come first */
} ls_declared_values;

/** Reads one value; false where it is not valid. */
bool ls_declared_read(const ls_declared_option *option, const char *text, int64_t *number);

/** Writes what is valid: "sync, async, ssp", "a whole number from 0 to 9". Returns `valid`. */
char *ls_declared_valid(const ls_declared_option *option, char *valid, size_t size);

/** Sets a value, which replaces an earlier one; `text` is borrowed. LS_CODE_USAGE where it is not
 *  valid, or where the values are full. */
ls_status ls_declared_set(ls_declared_values *values, const ls_declared_option *option,
                          const char *text);

/** The value, or the default; of a switch 0 or 1, of a word its index. */
int64_t ls_declared_number(const ls_declared_values *values, const ls_declared_option *option);

/** The value of a text, or the default; "" for none. Borrowed. */
const char *ls_declared_text(const ls_declared_values *values, const ls_declared_option *option);

/** Writes the name of its field in a row, with underscores: "ps_mode". Returns `field`. */
char *ls_declared_field(const ls_declared_option *option, char field[64]);

/** Whether `list`, NULL-terminated, has the option; a NULL list has none. */
bool ls_declared_has(const ls_declared_option *const *list, const ls_declared_option *option);

/** Takes the values of the list's options out. */
void ls_declared_clear(ls_declared_values *values, const ls_declared_option *const *list);
