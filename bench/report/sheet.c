/* SPDX-License-Identifier: MIT */
/* Sheets: tables and lines of text in HTML, Markdown or CSV; see sheet.h. */
#include "bench/report/sheet.h"

#include "bench/report/text.h"
#include "common/base/escape.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TEXT_MOST = 400 }; /* bytes */

void ls_sheet_text(const ls_sheet *to, const char *text)
{
    static const ls_escape escapes[] = {LS_ESCAPE_MARKUP, LS_ESCAPE_MARKDOWN, LS_ESCAPE_CSV};
    ls_escape_put(to->stream, text, to->kind == LS_SHEET_CSV ? SIZE_MAX : TEXT_MOST,
                  escapes[to->kind]);
}

/* Writes a text in a tag, or after its Markdown prefix; nothing for NULL. */
void ls_sheet_line(const ls_sheet *to, const char *tag, const char *before, const char *text)
{
    if (!text || !*text)
        return;
    fprintf(to->stream, to->kind == LS_SHEET_HTML ? "<%s>%s" : "%.0s%s", tag, before);
    ls_sheet_text(to, text);
    if (to->kind == LS_SHEET_HTML)
        fprintf(to->stream, "</%.*s>\n", (int)strcspn(tag, " "), tag);
    else
        fputs(*before == '-' ? "\n" : "\n\n", to->stream);
}

/* The text is already written as the file needs it. */
void ls_sheet_plain(const ls_sheet *to, const char *html, const char *markdown)
{
    fputs(to->kind == LS_SHEET_HTML ? html : markdown, to->stream);
}

void ls_sheet_row(ls_sheet *to, const char *class)
{
    to->cells = 0;
    if (to->kind == LS_SHEET_HTML)
        fprintf(to->stream, *class ? "<tr class=%s>" : "<tr>", class);
}

/* Ends a cell's tag; in a stacked table it has its column's head. */
static void close_tag(const ls_sheet *to)
{
    const char *head = to->stacked;
    for (size_t i = 1; head && i < to->cells; i++)
        head += strcspn(head, "|") + (strchr(head, '|') != NULL);
    fprintf(to->stream, head ? " data-h=\"%.*s\">" : "%.*s>", head ? (int)strcspn(head, "|") : 0,
            head ? head : "");
}

void ls_sheet_cell(ls_sheet *to, const char *text, const char *class)
{
    static const char *const before[] = {"<td", "| ", ","};
    const bool quoted = to->kind == LS_SHEET_CSV && *class == 0;
    if (to->cells++ > 0 || to->kind != LS_SHEET_CSV)
        fputs(before[to->kind], to->stream);
    if (to->kind == LS_SHEET_HTML && *class && !to->data)
        fprintf(to->stream, " class=%s", class);
    if (to->kind == LS_SHEET_HTML)
        close_tag(to);
    fputs(quoted ? "\"" : "", to->stream);
    ls_sheet_text(to, text);
    fputs(quoted ? "\"" : to->kind == LS_SHEET_MARKDOWN ? " " : "", to->stream);
}

void ls_sheet_row_end(const ls_sheet *to)
{
    ls_sheet_plain(to, "\n", to->kind == LS_SHEET_CSV ? "\n" : "|\n");
}

void ls_sheet_number(ls_sheet *to, const char *format, double value)
{
    char text[64] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    ls_sheet_cell(to, text, "n");
}

/* '|' separates the heads; the label names the scrolling region. */
void ls_sheet_table(ls_sheet *to, const char *label, const char *heads)
{
    size_t count = 0;
    if (to->kind == LS_SHEET_HTML)
        fprintf(to->stream,
                "<div class=scroll tabindex=0 role=region aria-label=\"%s\"><table%s><thead>",
                label, to->stacked ? " class=s" : "");
    ls_sheet_row(to, "");
    for (; *heads; count++) {
        char head[64] = "";
        const size_t length = strcspn(heads, "|");
        ls_text_add(head, sizeof head, "%.*s", (int)length, heads);
        if (to->kind == LS_SHEET_HTML)
            fprintf(to->stream, "<th scope=col>%s", head);
        else
            ls_sheet_cell(to, head, "");
        heads += length + (heads[length] == '|');
    }
    ls_sheet_row_end(to);
    for (size_t i = 0; to->kind == LS_SHEET_MARKDOWN && i < count; i++)
        fputs(i + 1 < count ? "|---" : "|---|\n", to->stream);
    ls_sheet_plain(to, "</thead><tbody>", "");
}

void ls_sheet_table_end(const ls_sheet *to)
{
    ls_sheet_plain(to, "</tbody></table></div>\n", to->kind == LS_SHEET_CSV ? "" : "\n");
}
