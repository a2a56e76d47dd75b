/* SPDX-License-Identifier: MIT */
/* The models of a page that are from files; see page.h. */
#include "bench/report/page.h"

#include "bench/output/format_parts.h"
#include "bench/report/text.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 1000 }; /* characters */

/* Line by line, since a line feed in a text would be escaped. */
static void put_lines(FILE *stream, const char *text)
{
    char *copy = strdup(text);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        ls_markup(stream, line, LINE_MOST);
        fputc('\n', stream);
    }
    free(copy);
}

void ls_page_models(FILE *stream, const json_t *rows)
{
    json_auto_t *shown = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *text = ls_row_text(row, "case", "model_text");
        char name[LS_KEY_SIZE] = "";
        ls_text_add(name, sizeof name, "%s, text ", ls_row_text(row, "case", "model"));
        ls_text_add(name, sizeof name, "%s", ls_row_text(row, "case", "model_digest"));
        if (!*text || json_object_get(shown, name))
            continue;
        json_object_set_new(shown, name, json_true());
        fputs("<details class=model><summary>model ", stream);
        ls_markup(stream, name, LINE_MOST);
        fputs("</summary><pre>", stream);
        put_lines(stream, text);
        fputs("</pre></details>\n", stream);
    }
}
