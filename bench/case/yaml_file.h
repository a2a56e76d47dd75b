/* SPDX-License-Identifier: MIT */
/*
 * A YAML file: as a tree, for formats of a few lines (profile.h, graph_file.h), or event by event,
 * for plans, which may be large (experiment.c). Every refusal says file, line and column, and what
 * to write.
 */
#pragma once

#include "common/base/status.h"

#include <libfyaml.h>
#include <stdbool.h>
#include <stddef.h>

enum { LS_YAML_MOST = 64 << 10 }; /**< bytes of a file that is read as a tree */

typedef struct ls_yaml_file {
    const char *what;             /**< begins refusals: "profile"; borrowed, as are the next two */
    const char *path;             /**< of the file */
    const char *valid;            /**< what the format looks like, for refusals without advice */
    char *text;                   /**< [length + 1] the file; owned */
    size_t length;                /**< bytes */
    struct fy_diag *diagnostics;  /**< owned, as are the next two */
    struct fy_parser *parser;     /**< of the text */
    struct fy_document *document; /**< NULL where events are read */
    int line, column;             /**< of the last node looked at, from 1; columns are characters */
} ls_yaml_file;

/** Reads and parses a file. LS_CODE_MISSING where it cannot be read; LS_CODE_USAGE where it is
 * empty, too large, no YAML or no mapping. ls_yaml_close in any case. */
ls_status ls_yaml_open(const char *what, const char *path, const char *valid, ls_yaml_file *out);

/** Reads a file of at most `most` bytes; `parser` then gives its events. Fails as ls_yaml_open,
 * except for what only the parser finds. ls_yaml_close in any case. */
ls_status ls_yaml_begin(const char *what, const char *path, const char *valid, size_t most,
                        ls_yaml_file *out);

/** LS_CODE_USAGE where the parser has found the text not to be YAML, which is looked at. */
ls_status ls_yaml_syntax(ls_yaml_file *file);

/** Takes a file that was never opened, all zero, too. */
void ls_yaml_close(ls_yaml_file *file);

/** The mapping that is the document. */
struct fy_node *ls_yaml_root(const ls_yaml_file *file);

/** LS_CODE_USAGE at what was looked at last: "<what>: <path>:<line>:<column>: <why>",
 * and "; <valid>" if `why` has no advice, which follows a semicolon. */
ls_status ls_yaml_refuse(const ls_yaml_file *file, const char *why, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

/** The text of a scalar, borrowed from the document, which is looked at; NULL if it is NULL, no
 * scalar, or an alias. */
const char *ls_yaml_text(ls_yaml_file *file, struct fy_node *node);

/** The value of a key, which is looked at; NULL if it is missing. */
struct fy_node *ls_yaml_member(ls_yaml_file *file, struct fy_node *mapping, const char *key);

/** The text of a key's value, as ls_yaml_text. */
const char *ls_yaml_member_text(ls_yaml_file *file, struct fy_node *mapping, const char *key);

/** Refuses a key that is not in `keys`, which NULL ends. */
ls_status ls_yaml_check_keys(ls_yaml_file *file, struct fy_node *mapping, const char *const *keys);
