/* SPDX-License-Identifier: MIT */
/*
 * The fields of a row, from one table: fields.def, a line each, and groups.def, a line for each
 * object or list of objects that holds them. From these lines come bench/row.schema.json, the keys
 * and their order in CSV, headings and cells of tables, what makes two rows the same case or the
 * same machine, how rows of several ranks are joined, and which way is worse. Options that
 * strategies, models and data sets declare are fields of `case`, too, but have no lines here.
 */
#pragma once

#include <stddef.h>

typedef enum ls_field_type {
    LS_TYPE_TEXT,
    LS_TYPE_INT,
    LS_TYPE_REAL,
    LS_TYPE_BOOL,
    LS_TYPE_TEXTS, /**< a list */
    LS_TYPE_INTS,
    LS_TYPE_REALS,
    LS_TYPE_INT_LISTS, /**< a list of lists */
    LS_TYPE_MAP,       /**< texts by names that no table knows; one field of a row */
} ls_field_type;

/** How a cell of a table is written. */
typedef enum ls_cell {
    LS_CELL_TEXT,      /**< text, or a number with all its digits */
    LS_CELL_OPTIMIZER, /**< text, without values that are the optimizer's defaults */
    LS_CELL_VALUE,     /**< text; reals with six digits */
    LS_CELL_DEVICES,   /**< "2 cpu" (cpu:0, cpu:1); names joined by '+'; or "8 x cpu" */
    LS_CELL_FIGURE,    /**< four significant digits */
    LS_CELL_RATIO,     /**< two decimals */
    LS_CELL_PERCENT,   /**< a share as a percentage */
    LS_CELL_WHOLE,     /**< a share as a percentage without decimals */
    LS_CELL_SHARE,     /**< four decimals */
    LS_CELL_BYTES,     /**< "1.5 MiB" */
    LS_CELL_HALF,      /**< from {median, ci95}: half the interval in % of the median */
    LS_CELL_GATE,      /**< from `equivalence`: the grade, or "failed" */
    LS_CELL_STATUS,    /**< from `result`: the status, then the warnings */
} ls_cell;

/** What a field identifies: a case, or where and with what a row was measured. */
enum {
    LS_BUT_BLOCKS = 1,     /**< may be left out: the number of turns of the timed steps */
    LS_BUT_STEPS = 2,      /**< the number of timed steps, if a time limit chose it */
    LS_BUT_REPEATS = 4,    /**< both, and what does not change a step's work, as the seed */
    LS_BUT_TRAINED = 8192, /**< how many steps were trained; the number asked for counts */
    LS_IS_CASE = 8,        /**< part of the case, unless the comparison leaves it out */
    LS_OF_CLASS = 16,      /**< processor, its instruction sets, GPU, environment variables */
    LS_OF_SHARE = 32,    /**< share of the machine: cores allowed, cores per device, ranks' hosts */
    LS_OF_HOST = 64,     /**< the computer's name */
    LS_OF_SETUP = 128,   /**< which cores, which GPUs, how much memory is allowed, the driver */
    LS_OF_COMMIT = 256,  /**< with `dirty` */
    LS_OF_BUILD = 512,   /**< compiler, flags, kind of build, libraries */
    LS_OF_SYSTEM = 1024, /**< kernel, driver, MPI, memory limit */
    LS_OF_LABEL = 2048,
    LS_OR_ABSENT = 4096, /**< absent counts as a value, except in peers' rows */
    LS_OF_MACHINE = LS_OF_CLASS | LS_OF_SHARE | LS_OF_HOST,
    LS_OF_ANY =
        LS_OF_MACHINE | LS_OF_SETUP | LS_OF_COMMIT | LS_OF_BUILD | LS_OF_SYSTEM | LS_OF_LABEL,
};

/** How the values of several ranks become one. */
typedef enum ls_join {
    LS_JOIN_FIRST,  /**< the value of rank 0 */
    LS_JOIN_CONCAT, /**< lists of all ranks, one after the other */
    LS_JOIN_MAX,
    LS_JOIN_SUM,
    LS_JOIN_NAMED, /**< texts; different ones with their ranks */
} ls_join;

/** Which change of a number is for the worse. For other fields any change is. */
typedef enum ls_worse { LS_WORSE_MORE, LS_WORSE_LESS } ls_worse;

/** Where tables show a field. The low byte of `shown` is its place among the options. */
enum {
    LS_SHOWN_AT = 0xff,       /**< 1, 2, .. in tables; 0 if later, in row order */
    LS_SHOWN_LAST = 0x80,     /**< added to a place: after all others, for it follows from them */
    LS_SHOWN_DIFF = 0x100,    /**< `results diff` names it where it differs */
    LS_SHOWN_DERIVED = 0x200, /**< no option: it follows from others */
    LS_SHOWN_KEPT = 0x400,    /**< its column is the last to be dropped */
    LS_SHOWN_BY_PATH = 0x800, /**< it is named by its whole path only */
};

typedef struct ls_field {
    const char *path;    /**< "time.step_ms.median" */
    const char *heading; /**< of tables' columns, "a|b"; NULL means the end of the path */
    const char *valid;   /**< for the schema, see fields.def */
    const char *doc;     /**< NULL if the name says it */
    const char *absent;  /**< shown where a row does not have it; NULL if nothing */
    unsigned identifies; /**< LS_IS_, LS_BUT_, LS_OF_ */
    unsigned shown;      /**< LS_SHOWN_ */
    unsigned char type;  /**< an ls_field_type */
    unsigned char cell;  /**< an ls_cell */
    unsigned char join;  /**< an ls_join */
    unsigned char worse; /**< an ls_worse */
} ls_field;

/** What is said of a group of fields, an object or a list of objects. */
enum {
    LS_GROUP_EACH = 1,     /**< a list of objects */
    LS_GROUP_FULLEST = 2,  /**< a list; as one value, that with the largest `peak` */
    LS_GROUP_DECLARED = 4, /**< has the options that strategies, models and data sets declare */
    LS_GROUP_FOREIGN = 16, /**< only in rows of other programs; last, and no column of CSV */
};

typedef struct ls_field_group {
    const char *path;
    const char *valid, *doc;
    unsigned flags;      /**< LS_GROUP_ */
    unsigned identifies; /**< compared as a whole */
    unsigned char join;  /**< an ls_join */
} ls_field_group;

/** A number for each field: LS_F_time_step_ms_median. */
typedef enum ls_field_number {
#define F1(a, type, ...)          LS_F_##a,
#define F2(a, b, type, ...)       LS_F_##a##_##b,
#define F3(a, b, c, type, ...)    LS_F_##a##_##b##_##c,
#define F4(a, b, c, d, type, ...) LS_F_##a##_##b##_##c##_##d,
#include "bench/rows/fields.def"
    LS_FIELDS
} ls_field_number;

/** All fields, by number: in the order of CSV. */
extern const ls_field ls_fields[LS_FIELDS];

extern const ls_field_group ls_field_groups[];
extern const size_t ls_field_group_count;

/** The field of a path; NULL if it is a declared option, or unknown. */
const ls_field *ls_field_find(const char *path);

/** The group around a path that has the flag (LS_GROUP_..); NULL if there is none. */
const ls_field_group *ls_field_group_of(const char *path, unsigned flag);

/** The group of a path; NULL if there is none. */
const ls_field_group *ls_field_group_find(const char *path);
