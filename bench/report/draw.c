/* SPDX-License-Identifier: MIT */
/* Drawing; see draw.h: runs gnuplot in the folder, without the user's settings. */
#include "bench/report/draw.h"

#include "bench/output/format.h"
#include "bench/report/child.h"
#include "bench/report/template.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"
#include "template_bars_gp.h"
#include "template_frame_gp.h"
#include "template_lines_gp.h"
#include "template_script.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* How names and files of each kind of picture end. */
static const struct {
    const char *name, *file;
} endings[] = {[LS_PICTURE_SVG] = {".svg", "</svg>"},
               [LS_PICTURE_PNG] = {".png", "IEND"},
               [LS_PICTURE_PDF] = {".pdf", "%%EOF"}};

/* What gnuplot drew. */
typedef struct drawing {
    const json_t *figure;
    const char *text;
    size_t bytes;
    ls_picture kind;
} drawing;

static const uint64_t LIMIT_NS = 600000000000;

/* Passes on only what finds programs, libraries and fonts, so that no other variable (GNUTERM,
 * GNUPLOT_*, LC_NUMERIC) changes or prevents pictures. */
enum { PASSED_ON = 11 };
static char **choose_environment(char *out[PASSED_ON + 2])
{
    static const char names[] =
        " PATH LD_LIBRARY_PATH HOME TMPDIR XDG_DATA_HOME XDG_DATA_DIRS XDG_CACHE_HOME"
        " XDG_CONFIG_HOME FONTCONFIG_PATH FONTCONFIG_FILE FONTCONFIG_SYSROOT ";
    static char locale[] = "LC_ALL=C.UTF-8";
    char name[32];
    size_t count = 0;
    for (char **one = environ; *one && count < PASSED_ON; one++) {
        snprintf(name, sizeof name, " %.*s ", (int)strcspn(*one, "="), *one);
        if (strstr(names, name))
            out[count++] = *one;
    }
    out[count++] = locale;
    out[count] = NULL;
    return out;
}

/* gnuplot's last message on one line: the line of its script that failed, and why. */
static char *last_words(const char *errors, char said[512])
{
    const size_t length = strlen(errors), first = length > 400 ? length - 400 : 0;
    size_t used = 0;
    for (const char *c = errors + first; *c; c++)
        if (!strchr(" \t\r\n", *c) || (used && said[used - 1] != ' '))
            said[used++] = (unsigned char)*c > ' ' ? *c : ' ';
    said[used] = 0;
    return said;
}

/* gnuplot's status is 0 even if the disk is full. */
static ls_status check_complete(const drawing *one, const char *name, const char *folder)
{
    const char *end = endings[one->kind].file;
    const size_t last = one->bytes < 64 ? one->bytes : 64;
    if (last && memmem(one->text + one->bytes - last, last, end, strlen(end)))
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "report", folder,
                   "gnuplot did not complete %s, perhaps because a disk is full; use folders with "
                   "free space for the output and for TMPDIR",
                   name);
}

void ls_draw_dress(FILE *stream, const json_t *figure, const char *drawn)
{
    static const char begin[] = "<title>", end[] = "</title>";
    const char *title = strstr(drawn, begin), *rest = title ? strstr(title, end) : NULL;
    const char *head = strstr(drawn, "<svg ");
    if (rest && head && head < title) {
        head += strlen("<svg ");
        fwrite(drawn, 1, (size_t)(head - drawn), stream);
        fputs("role=\"img\" ", stream);
        fwrite(head, 1, (size_t)(title - head) + strlen(begin), stream);
        ls_escape_put(stream, ls_text_of(figure, "alt"), 600, LS_ESCAPE_MARKUP);
        fputs("</title>\n<style>@media screen and (prefers-color-scheme:dark)"
              "{svg{filter:invert(.9) hue-rotate(180deg)}}</style>",
              stream);
        rest += strlen(end);
    } else {
        rest = drawn; /* another gnuplot's */
    }
    for (const char *at; (at = strstr(rest, "]]>")); rest = at + 3) { /* not valid in XML */
        fwrite(rest, 1, (size_t)(at - rest), stream);
        fputs("]]&gt;", stream);
    }
    fputs(rest, stream);
}

/* SVG as text, dressed; other kinds as they are. */
static ls_status put_drawing(FILE *stream, void *context)
{
    const drawing *one = context;
    if (one->kind == LS_PICTURE_SVG)
        ls_draw_dress(stream, one->figure, one->text);
    else
        fwrite(one->text, 1, one->bytes, stream);
    return LS_OK;
}

ls_status ls_draw_script(FILE *stream, const json_t *figures, ls_picture kind)
{
    json_auto_t *document =
        json_pack("{s:O,s:s,s:s,s:s}", "figures", figures, "frame", ls_template_frame_gp, "lines",
                  ls_template_lines_gp, "bars", ls_template_bars_gp);
    return ls_document_write(ls_template_script, document, endings[kind].name + 1, NULL, stream);
}

/* Draws by one process, in the folder. Its output has a figure without a name. */
static ls_status draw(const json_t *figures, const char *folder, ls_picture kind, ls_child *child)
{
    char *const arguments[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    char *variables[PASSED_ON + 2], said[512];
    child->folder = folder;
    child->environment = choose_environment(variables);
    if (!(child->input = tmpfile()))
        return ls_fail(LS_CODE_MISSING, "report", "temporary file",
                       "no temporary file can be created: %s; set TMPDIR to a folder with free "
                       "space",
                       strerror(errno));
    ls_status status = ls_draw_script(child->input, figures, kind);
    if (!status)
        status = ls_child_run(arguments, LIMIT_NS, child);
    fclose(child->input);
    if (child->error) {
        ls_status_free(status);
        return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                       "%s, so no picture is drawn; install Debian's package gnuplot-nox",
                       child->error == ENOENT ? "gnuplot is not installed"
                                              : strerror(child->error));
    }
    if (status || child->code == 0)
        return status;
    return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                   "gnuplot failed with exit status %d; use Debian's package gnuplot-nox, 5.2 or "
                   "newer; gnuplot's message is: %s",
                   child->code, *last_words(child->err, said) ? said : "(none)");
}

ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind)
{
    ls_closing(ls_child_free) ls_child child = {0};
    if (json_array_size(figures) == 0)
        return LS_OK;
    LS_TRY(draw(figures, folder, kind, &child));
    for (size_t i = 0; i < json_array_size(figures); i++) {
        drawing one = {.figure = json_array_get(figures, i), .kind = kind};
        ls_auto char *path = NULL;
        if (asprintf(&path, "%s/%s%s", folder, ls_text_of(one.figure, "name"), endings[kind].name) <
            0)
            return ls_fail_memory("report", strlen(folder));
        ls_auto char *text = ls_draw_read(path, &one.bytes);
        one.text = text;
        LS_TRY(check_complete(&one, strrchr(path, '/') + 1, folder));
        if (kind == LS_PICTURE_SVG)
            LS_TRY(ls_whole_file("report", path, put_drawing, &one));
    }
    return LS_OK;
}

/* gnuplot does not get the path, since it takes one that begins with '|' for a command. */
ls_status ls_draw_file(json_t *figure, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *ending = strrchr(base, '.');
    drawing one = {.figure = figure};
    while (one.kind < 3 && !(ending && strcmp(ending, endings[one.kind].name) == 0))
        one.kind++;
    if (one.kind == 3 || ending == base)
        return ls_fail(
            LS_CODE_USAGE, "--out", path,
            "this name has no ending of a picture; use a name that ends in .svg, .png or .pdf");
    ls_closing(ls_child_free) ls_child child = {0};
    json_auto_t *figures = json_pack("[O]", figure);
    json_object_set_new(figure, "name", json_string(""));
    LS_TRY(draw(figures, ".", one.kind, &child));
    one.text = child.out;
    one.bytes = child.out_bytes;
    LS_TRY(check_complete(&one, base, "temporary file"));
    return ls_whole_file("--out", path, put_drawing, &one);
}

char *ls_draw_read(const char *path, size_t *bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = ls_child_read(file, bytes);
    if (file >= 0)
        close(file);
    return text;
}

ls_status ls_draw_embed(json_t *figure, const char *folder)
{
    ls_auto char *path = NULL, *text = NULL;
    size_t size;
    int width = 0, height = 0;
    if (asprintf(&path, "%s/%s.svg", folder, ls_text_of(figure, "name")) < 0)
        return ls_fail_memory("report", strlen(folder));
    ls_auto char *drawn = ls_draw_read(path, &size);
    const char *box = drawn ? strstr(drawn, "viewBox=\"") : NULL;
    FILE *stream = box && sscanf(box, "viewBox=\"0 0 %d %d", &width, &height) == 2
                       ? open_memstream(&text, &size)
                       : NULL;
    if (stream) {
        fputs("<img alt=\"", stream);
        ls_escape_put(stream, ls_text_of(figure, "alt"), 600, LS_ESCAPE_MARKUP);
        fprintf(stream, "\" width=%d height=%d src=\"data:image/svg+xml,", width, height);
        for (const char *c = drawn; *c; c++)
            if (!isspace((unsigned char)*c))
                fprintf(stream, strchr("\"#%&", *c) ? "%%%02X" : "%c", (unsigned char)*c);
            else if (!isspace((unsigned char)c[1]) && c[1] != '<')
                fputc(' ', stream);
        fputs("\">", stream);
        fclose(stream);
        json_object_set_new(figure, "svg", json_string(text));
    }
    return stream ? LS_OK : ls_fail_memory("report", 0);
}
