/* SPDX-License-Identifier: MIT */
/* Text of rows; see text.h. */
#include "bench/report/text.h"

#include "common/base/escape.h"

#include <stdarg.h>
#include <string.h>

void ls_markup(FILE *stream, const char *text, size_t most)
{
    ls_escape_put(stream, text, most, LS_ESCAPE_MARKUP);
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
        at += ls_escape_step(text + at);
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
