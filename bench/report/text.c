/* SPDX-License-Identifier: MIT */
/* Text of rows; see text.h. */
#include "bench/report/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

size_t ls_text_step(const char *c)
{
    size_t length = 1;
    while (((unsigned char)c[length] & 0xc0) == 0x80)
        length++;
    return length;
}

static bool is_shown(const char *c, size_t length)
{
    const bool no_character =
        length == 3 && (memcmp(c, "\xef\xbf\xbe", 3) == 0 || memcmp(c, "\xef\xbf\xbf", 3) == 0);
    return (unsigned char)*c >= ' ' && *c != 0x7f && !no_character;
}

void ls_text_put(FILE *stream, const char *text, size_t most, ls_escape escape)
{
    static const char *const markup[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    static const struct {
        const char *these, *before; /* characters that get a prefix */
        const char *const *instead; /* or a replacement */
        const char *blanks;
    } ways[] = {
        [LS_ESCAPE_MARKUP] = {"&<>\"'", "", markup, ""},
        [LS_ESCAPE_MARKDOWN] = {"\\`*_|[]<>#!~&$", "\\", NULL, ""},
        [LS_ESCAPE_GNUPLOT] = {"'", "'", NULL, ""},
        [LS_ESCAPE_CSV] = {"\"", "\"", NULL, ""},
        [LS_ESCAPE_YAML] = {"\\\"", "\\", NULL, ""},
        [LS_ESCAPE_BIBTEX] = {"&%$#_", "\\", NULL, "\\{}"}, /* braces would have to balance */
    };
    size_t length;
    for (const char *c = text ? text : ""; *c; c += length) {
        const char *found = strchr(ways[escape].these, *c);
        length = ls_text_step(c);
        if (most-- == 0) {
            fputs("\xe2\x80\xa6", stream);
            return;
        }
        if (!is_shown(c, length) || strchr(ways[escape].blanks, *c)) {
            fputc(' ', stream);
        } else if (found && ways[escape].instead) {
            fputs(ways[escape].instead[found - ways[escape].these], stream);
        } else {
            fputs(found ? ways[escape].before : "", stream);
            fwrite(c, 1, length, stream);
        }
    }
}

void ls_markup(FILE *stream, const char *text, size_t most)
{
    ls_text_put(stream, text, most, LS_ESCAPE_MARKUP);
}

const char *ls_text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

size_t ls_text_line(const char *text, size_t width)
{
    size_t at = 0, blank = 0;
    for (size_t count = 0; text[at] && count <= width; count++) {
        if (text[at] == ' ' && count > width / 4)
            blank = at;
        if (count == width)
            return blank ? blank : at;
        at += ls_text_step(text + at);
    }
    return at;
}

char *ls_text_add(char *out, size_t size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length < size - used)
        return out;
    char *end = out + size - 1; /* the last character may be incomplete */
    while (end > out && ((unsigned char)end[-1] & 0xc0) == 0x80)
        end--;
    if (end > out && (unsigned char)end[-1] >= 0xc0)
        *--end = 0;
    *end = 0;
    return out;
}
