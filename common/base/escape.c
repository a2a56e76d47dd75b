/* SPDX-License-Identifier: MIT */
/* Escape; see escape.h: a table of destinations. */
#include "common/base/escape.h"

#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16 }; /* bytes of an escaped character, at most */

static const char *const markup[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
static const char *const encoded[] = {"%25"};
static const char *const troff[] = {"\\-", "\\e"};
static const char *const zsh[] = {"'\\''", "\\[", "\\]", "\\:", "\\\\"};

/* How a destination writes characters with a meaning: doubled, unless there is more. */
static const struct way {
    const char *special, *before; /* put before them */
    const char *const *instead;   /* written in their place */
    const char *blanks;           /* characters to be written as blanks */
    const char *kept;             /* control characters that are not escaped */
    const char *hidden;           /* before what nobody would see; NULL if that is a blank */
} ways[] = {
    [LS_ESCAPE_LINE] = {"", NULL, NULL, "", "", "\\"},
    [LS_ESCAPE_FONT] = {"", NULL, NULL, "", "", "\\"},
    [LS_ESCAPE_MARKUP] = {"&<>\"'", NULL, markup, "", "", "\\"},
    [LS_ESCAPE_MARKDOWN] = {"\\`*_|[]<>#!~&$", "\\", NULL, "", "", "\\\\"},
    [LS_ESCAPE_GNUPLOT] = {"'", NULL, NULL, "", "", "\\"},
    [LS_ESCAPE_TICK] = {"'%", NULL, NULL, "", "", "\\"},
    [LS_ESCAPE_CSV] = {"\"", NULL, NULL, "", "\n\t", "\\"},
    [LS_ESCAPE_JSON] = {"\\\"", "\\", NULL, "", "", "\\"},
    [LS_ESCAPE_BIBTEX] = {"&%$#_", "\\", NULL, "\\{}", "", NULL}, /* braces have to balance */
    [LS_ESCAPE_GITHUB] = {"%", NULL, encoded, "", "", "\\"},
    [LS_ESCAPE_TROFF] = {"-\\", NULL, troff, "", "", "\\e"},
    [LS_ESCAPE_ZSH] = {"'[]:\\", NULL, zsh, "", "", "\\"},
};

/* The character at `c`, and its bytes; -1 if a byte is not valid UTF-8. */
static int32_t decode(const char *c, size_t *bytes)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char lead = (unsigned char)*c;
    const size_t count = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    int32_t code = count < 2 ? lead : lead & (0x7f >> count);
    *bytes = 1;
    if (count == 0 || lead > 0xf4)
        return -1;
    for (size_t i = 1; i < count; i++) {
        if (((unsigned char)c[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | ((unsigned char)c[i] & 0x3f);
    }
    if (code < least[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return -1;
    *bytes = count;
    return code;
}

/* Whether a reader would not see it. */
static bool is_hidden(int32_t code)
{
    static const int32_t ranges[][2] = {
        {-1, 0x1f},       {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},
        {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfffe, 0xffff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

/* Whether most fonts have it: Latin, Greek and Cyrillic letters, usual signs. */
static bool is_common(int32_t code)
{
    return code < 0x530 || (code >= 0x1e00 && code < 0x2300) || (code >= 0x2500 && code < 0x2600);
}

static void write_hidden(const char *c, int32_t code, ls_escape as, char out[PIECE])
{
    static const char named[] = "\n\r\t", names[] = "nrt";
    const char *before = ways[as].hidden, *name = code > 0 && code < ' ' ? strchr(named, code) : 0;
    if (!before)
        strcpy(out, " ");
    else if (name)
        snprintf(out, PIECE, "%s%c", before, names[name - named]);
    else if (code < 0 && as == LS_ESCAPE_JSON) /* there is no text with such a byte */
        snprintf(out, PIECE, "%sufffd", before);
    else if (code < 0 || (code < 0x80 && as != LS_ESCAPE_JSON))
        snprintf(out, PIECE, "%sx%02x", before, (unsigned)(unsigned char)*c);
    else
        snprintf(out, PIECE, code > 0xffff ? "%sU%08x" : "%su%04x", before, (unsigned)code);
}

/* Writes the character at `c` as the destination needs it; returns how many bytes it has there. */
static size_t write_piece(const char *c, ls_escape as, char out[PIECE])
{
    const struct way *way = &ways[as];
    size_t bytes;
    const int32_t code = decode(c, &bytes);
    const char *found = strchr(way->special, *c);
    const bool drawn = as != LS_ESCAPE_FONT || is_common(code);
    if ((is_hidden(code) || !drawn) && !strchr(way->kept, *c)) {
        write_hidden(c, code, as, out);
    } else if (strchr(way->blanks, *c)) {
        strcpy(out, " ");
    } else if (found && way->instead) {
        strcpy(out, way->instead[found - way->special]);
    } else if (found) {
        snprintf(out, PIECE, "%.*s%c", 1, way->before ? way->before : c, *c);
    } else {
        memcpy(out, c, bytes);
        out[bytes] = 0;
    }
    return bytes;
}

/* How many bytes from `c` on are characters of one byte that need nothing. */
static size_t count_plain(const char *c, size_t most, const struct way *way)
{
    size_t count = 0;
    while (count < most && c[count] >= ' ' && c[count] < 0x7f && !strchr(way->special, c[count]) &&
           !strchr(way->blanks, c[count]))
        count++;
    return count;
}

void ls_escape_put(FILE *stream, const char *text, size_t most, ls_escape as)
{
    char piece[PIECE];
    text = text ? text : "";
    for (const char *c = text; *c;) {
        if (most == 0) {
            fputs("\xe2\x80\xa6", stream);
            return;
        }
        size_t count = count_plain(c, most, &ways[as]);
        if (count > 0) {
            fwrite(c, 1, count, stream);
            most -= count;
        } else {
            count = write_piece(c, as, piece);
            fputs(piece, stream);
            most--;
        }
        c += count;
    }
}

char *ls_escape_copy(char *out, size_t size, const char *text, ls_escape as)
{
    char piece[PIECE];
    size_t used = 0;
    for (const char *c = text ? text : ""; *c;) {
        size_t length = count_plain(c, size - used - 1, &ways[as]);
        const char *from = c;
        if (length == 0) {
            c += write_piece(from, as, piece);
            from = piece;
            length = strlen(piece);
        } else {
            c += length;
        }
        if (used + length >= size)
            break;
        memcpy(out + used, from, length);
        used += length;
    }
    out[used] = 0;
    return out;
}

char *ls_text_shown(const char *text, ls_escape as)
{
    const size_t size = 8 * strlen(text) + 1; /* more than any escape has */
    char *shown = malloc(size);
    return shown ? ls_escape_copy(shown, size, text, as) : NULL;
}

size_t ls_escape_step(const char *c)
{
    size_t bytes;
    (void)decode(c, &bytes);
    return bytes;
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

static bool is_separator(const char *c, bool (*is_part)(const char *after))
{
    return *c == ',' && !(is_part && is_part(c + 1));
}

char *ls_list_cut(char *list, bool (*is_part)(const char *after))
{
    char *to = list;
    for (char *c = list; *c; c++) {
        if (*c == '\\' && (c[1] == ',' || c[1] == '\\'))
            c++;
        else if (is_separator(c, is_part)) {
            *to = 0;
            return c + 1;
        }
        *to++ = *c;
    }
    *to = 0;
    return NULL;
}

void ls_list_put(FILE *stream, const char *value, bool (*is_part)(const char *after))
{
    for (const char *c = value; *c; c++) {
        if (*c == '\\' || is_separator(c, is_part))
            fputc('\\', stream);
        fputc(*c, stream);
    }
}
