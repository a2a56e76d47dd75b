/* SPDX-License-Identifier: MIT */
/*
 * Declared options: an option that its owner (a strategy, a model, a data source) declares next to
 * the code that reads it. From the declaration come the option of the command line, the key of a
 * plan, its line of help, its refusals, and the field of a row ("ps-mode" is `case.ps_mode`).
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_declared_option ls_declared_option;

/** The first fields of each entry of a registry (registry.h) whose entries declare options. */
typedef struct ls_declared_owner {
    const char *name;                         /**< as users write it */
    const char *help;                         /**< one line for people */
    const ls_declared_option *const *options; /**< NULL-terminated; NULL if none */
} ls_declared_owner;

/** The type of an option's values, and the number that stands for one, which a double holds. */
typedef enum ls_declared_type {
    LS_DECLARED_NUMBER, /**< a whole number from `low` to `high` */
    LS_DECLARED_REAL,   /**< a number from `low` to `high` */
    LS_DECLARED_SWITCH, /**< yes or no: 1 or 0 */
    LS_DECLARED_WORD,   /**< one of `words`: its index */
    LS_DECLARED_TEXT    /**< less than `high` characters */
} ls_declared_type;

/** An option as its owner declares it. */
struct ls_declared_option {
    const char *name;         /**< without the dashes: "ps-staleness" */
    const char *placeholder;  /**< stands for the value in `--help`: "K" */
    const char *fallback;     /**< the default, as text; "none": the empty text */
    const char *unit;         /**< "" where there is none */
    const char *help;         /**< one line */
    ls_declared_type type;    /**< of its values */
    double low, high;         /**< see the type */
    bool above, below;        /**< `low`, `high` themselves are not valid real numbers */
    const char *const *words; /**< NULL-terminated */
    bool continues;           /**< a comma before `name=` is part of the value */
    bool follows;             /**< by default it follows from other options */
    bool implied;             /**< a row does not have it where it has its default */
    const char *when;         /**< cases that have it, as refusals say: "--ps-mode ssp"; NULL means
                                   all */
    const ls_declared_option *with; /**< strategies have it with values `of` of this one; or NULL */
    unsigned of;                    /**< bits: 1 << number */
    /** Refuses a text that is not well formed, and says what would work; NULL means any text will
     * do. */
    ls_status (*check)(const char *text);
};

enum { LS_DECLARED_MOST = 16 }; /* options that one case may give */

/** An option that was given, and its value. */
typedef struct ls_declared_value {
    const ls_declared_option *option; /**< NULL means end of the list */
    double number;                    /**< see ls_declared_type; 0 for a text */
    const char *text;                 /**< as given; borrowed */
} ls_declared_value;

/** The options that were given. Zero-filled: none, so that all have their defaults. */
typedef struct ls_declared_values {
    ls_declared_value items[LS_DECLARED_MOST]; /**< the given ones come first */
} ls_declared_values;

/** Reads one value; false where it is not valid. */
bool ls_declared_read(const ls_declared_option *option, const char *text, double *number);

/** Writes which values are valid: "valid are: sync, async, ssp", "a whole number from 0 to 9", "a
 * number above 0 and at most 1". Returns `valid`. */
char *ls_declared_valid(const ls_declared_option *option, char *valid, size_t size);

/** Sets a value, which replaces an earlier one; `text` is borrowed. LS_CODE_USAGE where it is not
 *  valid, or where the values are full. */
ls_status ls_declared_set(ls_declared_values *values, const ls_declared_option *option,
                          const char *text);

/** The value as a number (ls_declared_type), or the default where none was given. */
int64_t ls_declared_number(const ls_declared_values *values, const ls_declared_option *option);

/** As above, for a real number. */
double ls_declared_real(const ls_declared_values *values, const ls_declared_option *option);

/** Whether an option has its default; of texts, whether it is not given. */
bool ls_declared_is_default(const ls_declared_values *values, const ls_declared_option *option);

/** The value of a text, or the default; "" for none. Borrowed. */
const char *ls_declared_text(const ls_declared_values *values, const ls_declared_option *option);

/** Writes the name that an option ("ps-mode") has as a field of a row, "ps_mode". Returns `field`.
 */
char *ls_declared_field(const char *option, char field[64]);

/** Whether `list`, NULL-terminated, has the option; false for a NULL list. */
bool ls_declared_has(const ls_declared_option *const *list, const ls_declared_option *option);

/** Removes the values of the list's options. */
void ls_declared_clear(ls_declared_values *values, const ls_declared_option *const *list);
