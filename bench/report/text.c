/* SPDX-License-Identifier: MIT */
/* Text of rows; see text.h. */
#include "bench/report/text.h"

#include <stdarg.h>
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
    size_t length;
    for (const char *c = text ? text : ""; *c; c += length) {
        length = ls_text_step(c);
        if (most-- == 0) {
            fputs("\xe2\x80\xa6", stream);
            return;
        }
        if (!is_shown(c, length))
            fputc(' ', stream);
        else if (!escape(stream, *c))
            fwrite(c, 1, length, stream);
    }
}

void ls_markup(FILE *stream, const char *text, size_t most)
{
    ls_text_put(stream, text, most, ls_escape_markup);
}

bool ls_escape_markup(FILE *stream, char c)
{
    static const char of[] = "&<>\"'";
    static const char *const is[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    const char *found = strchr(of, c);
    if (found)
        fputs(is[found - of], stream);
    return found;
}

static bool put_before(FILE *stream, char c, const char *these)
{
    if (strchr(these, c))
        fputc('\\', stream);
    return false;
}

bool ls_escape_markdown(FILE *stream, char c)
{
    return put_before(stream, c, "\\`*_|[]<>#!~&$");
}

bool ls_escape_yaml(FILE *stream, char c)
{
    return put_before(stream, c, "\\\"");
}

bool ls_escape_bibtex(FILE *stream, char c)
{
    if (strchr("\\{}", c)) /* which braces would have to balance */
        return fputc(' ', stream) != EOF;
    return put_before(stream, c, "&%$#_");
}

bool ls_escape_gnuplot(FILE *stream, char c) /* knows no escape but its own quote, doubled */
{
    if (c == '\'')
        fputc(c, stream);
    return false;
}

bool ls_escape_csv(FILE *stream, char c)
{
    if (c == '"')
        fputc(c, stream);
    return false;
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
    char *end = out + size - 1; /* the last character may have lost a part */
    while (end > out && ((unsigned char)end[-1] & 0xc0) == 0x80)
        end--;
    if (end > out && (unsigned char)end[-1] >= 0xc0)
        *--end = 0;
    *end = 0;
    return out;
}
