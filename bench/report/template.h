/* SPDX-License-Identifier: MIT */
/*
 * Template: a text with places, which are filled from a JSON object.
 *
 *   {{name}}, {{name:40}}      the text or number, escaped for the file, cut after 400 or 40
 * characters
 *   {{{name}}}                 the text as it is: it is written in the file's language already
 *   {{#name}} .. {{/name}}     once for each element of a list, or once for another value; nothing
 *                              if the value is absent, an empty text or an empty list
 *   {{^name}} .. {{/name}}     if {{#name}} has nothing
 *
 * A name is looked up in the element, then in what is around it; "." is the element itself. A
 * section cannot contain a section of the same name.
 */
#pragma once

#include "common/base/escape.h"

#include <jansson.h>
#include <stdio.h>

/** Writes the template with the values of an object. */
void ls_template_fill(FILE *stream, const char *text, const json_t *values, ls_escape escape);

/** As text owned by the caller (free); NULL without memory. */
char *ls_template_text(const char *text, const json_t *values, ls_escape escape);

/** The text of an object's member; "" if it is not a text. */
const char *ls_text_of(const json_t *object, const char *name);
