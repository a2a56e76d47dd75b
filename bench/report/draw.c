/* SPDX-License-Identifier: MIT */
/* Drawing; see draw.h: runs gnuplot in the folder, without the user's settings; adds to its SVG a
 * description, named colours, unique ids, and colours for dark pages. */
#include "bench/report/draw.h"

#include "bench/output/format_parts.h"
#include "bench/report/text.h"
#include "common/base/escape.h"
#include "common/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* How names and files of each kind of picture end. */
static const struct {
    const char *name, *file;
} endings[] = {[LS_PICTURE_SVG] = {".svg", "</svg>"},
               [LS_PICTURE_PNG] = {".png", "IEND"},
               [LS_PICTURE_PDF] = {".pdf", "%%EOF"}};

static ls_status refuse_gnuplot(const char *why)
{
    return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                   "%s; install Debian's gnuplot-nox (page, tables and data are there)", why);
}

/* Words gnuplot's last message on one line: the line of its script that failed, and why. */
static ls_status tell(FILE *errors)
{
    char said[512];
    rewind(errors);
    (void)fseek(errors, -400, SEEK_END); /* fails if the message is shorter */
    const size_t length = fread(said, 1, sizeof said - 1, errors);
    size_t used = 0;
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r\n", said[i]) || (used && said[used - 1] != ' '))
            said[used++] = (unsigned char)said[i] > ' ' ? said[i] : ' ';
    said[used] = 0;
    return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                   "failed: %s; is it Debian's gnuplot-nox, 5.2 or newer?", said);
}

/* Of this process's environment only what finds programs, libraries and fonts, so that no variable
 * (GNUTERM, GNUPLOT_*, LC_NUMERIC, and those of later versions) changes or prevents pictures. */
enum { PASSED_ON = 11 };
static void choose_environment(char *out[PASSED_ON + 2])
{
    static const char *const names[PASSED_ON] = {"PATH",
                                                 "LD_LIBRARY_PATH",
                                                 "HOME",
                                                 "TMPDIR",
                                                 "XDG_DATA_HOME",
                                                 "XDG_DATA_DIRS",
                                                 "XDG_CACHE_HOME",
                                                 "FONTCONFIG_PATH",
                                                 "XDG_CONFIG_HOME",
                                                 "FONTCONFIG_FILE",
                                                 "FONTCONFIG_SYSROOT"};
    static char locale[] = "LC_ALL=C.UTF-8";
    size_t count = 0;
    for (char **one = environ; *one; one++)
        for (size_t i = 0; i < PASSED_ON; i++) {
            const size_t length = strlen(names[i]);
            if (strncmp(*one, names[i], length) == 0 && (*one)[length] == '=' && count < PASSED_ON)
                out[count++] = *one;
        }
    out[count++] = locale;
    out[count] = NULL;
}

static ls_status run(FILE *script, FILE *errors, const char *folder)
{
    char *arguments[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    char *variables[PASSED_ON + 2];
    choose_environment(variables);
    posix_spawn_file_actions_t actions;
    pid_t child;
    int state = 0;
    fflush(script);
    rewind(script);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ls_fail_memory("gnuplot", sizeof actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0); /* would break
                                                                              * pictures */
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), 2);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    const int error = posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, variables);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return refuse_gnuplot(error == ENOENT ? "not found" : strerror(error));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? LS_OK : tell(errors);
}

/* The same with texts in letters that this machine's fonts have, as gnuplot draws a box over the
 * picture in place of a missing one. Who looks at SVG has fonts of their own. A new reference. */
static json_t *in_common_letters(const json_t *value)
{
    json_t *out = json_deep_copy(value), *member;
    const char *name;
    size_t i;
    if (json_is_string(value)) {
        char *shown = ls_text_shown(json_string_value(value), LS_ESCAPE_FONT);
        json_string_set(out, shown ? shown : "");
        free(shown);
    }
    json_array_foreach(out, i, member) json_array_set_new(out, i, in_common_letters(member));
    json_object_foreach(out, name, member)
    {
        json_object_set_new(out, name, in_common_letters(member));
    }
    return out;
}

static bool is_complete(const char *path, const char *end)
{
    char last[64];
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    (void)fseek(file, -(long)sizeof last, SEEK_END); /* fails if it is shorter */
    const size_t length = fread(last, 1, sizeof last, file);
    fclose(file);
    return memmem(last, length, end, strlen(end));
}

/* gnuplot's status is 0 even if the disk is full. */
static ls_status check_pictures(const json_t *figures, const char *folder, ls_picture kind)
{
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const char *name = ls_text_of(json_array_get(figures, i), "name");
        char *path;
        if (asprintf(&path, "%s/%s%s", folder, name, endings[kind].name) < 0)
            return ls_fail_memory("report", strlen(folder));
        const bool complete = is_complete(path, endings[kind].file);
        free(path);
        if (!complete)
            return ls_fail(LS_CODE_MISSING, "report", folder,
                           "gnuplot did not complete %s%s; a folder with room works", name,
                           endings[kind].name);
    }
    return LS_OK;
}

ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind)
{
    if (json_array_size(figures) == 0)
        return LS_OK;
    FILE *script = tmpfile(), *errors = tmpfile();
    for (size_t i = 0; script && i < json_array_size(figures); i++) {
        const json_t *one = json_array_get(figures, i);
        json_t *figure = kind == LS_PICTURE_SVG ? json_deep_copy(one) : in_common_letters(one);
        ls_draw_script(script, figure, kind);
        json_decref(figure);
    }
    ls_status status = script && errors ? run(script, errors, folder)
                                        : ls_fail(LS_CODE_MISSING, "report", "temporary file",
                                                  "cannot be made: %s; TMPDIR names a folder "
                                                  "with room",
                                                  strerror(errno));
    if (!status)
        status = check_pictures(figures, folder, kind);
    if (script)
        fclose(script);
    if (errors)
        fclose(errors);
    return status;
}

/* Copies the picture at a path. */
static ls_status put_picture(FILE *stream, void *path)
{
    char block[4096];
    FILE *drawn = fopen(path, "rbe");
    if (!drawn)
        return ls_fail(LS_CODE_MISSING, "report", path, "cannot be read: %s; draw it again",
                       strerror(errno));
    for (size_t length; (length = fread(block, 1, sizeof block, drawn)) > 0;)
        fwrite(block, 1, length, stream);
    fclose(drawn);
    return LS_OK;
}

/* Draws `figure` as "picture" in the folder, gives it its name, and copies it. */
static ls_status draw_apart(json_t *figure, const char *folder, ls_picture kind, const char *path)
{
    json_t *figures = json_pack("[O]", figure);
    char *drawn = NULL;
    json_object_set_new(figure, "name", json_string("picture"));
    ls_status status = ls_draw(figures, folder, kind);
    if (!status && kind == LS_PICTURE_SVG)
        status = ls_draw_dress(figure, folder);
    if (asprintf(&drawn, "%s/picture%s", folder, endings[kind].name) < 0) {
        drawn = NULL;
        status = ls_status_first(status, ls_fail_memory("--out", strlen(path)));
    }
    if (!status)
        status = ls_whole_file("--out", path, put_picture, drawn);
    if (drawn)
        unlink(drawn);
    free(drawn);
    json_decref(figures);
    return status;
}

/* In a folder of its own: gnuplot takes a name that begins with '|' for a command. */
ls_status ls_draw_file(json_t *figure, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *ending = strrchr(base, '.'), *temporary = getenv("TMPDIR");
    int kind = 0;
    while (kind < 3 && !(ending && strcmp(ending, endings[kind].name) == 0))
        kind++;
    if (kind == 3 || ending == base)
        return ls_fail(LS_CODE_USAGE, "--out", path,
                       "is not the name of a picture; end it in .svg, .png or .pdf");
    char *folder = NULL;
    if (asprintf(&folder, "%s/lockstep-XXXXXX", temporary && *temporary ? temporary : "/tmp") < 0)
        return ls_fail_memory("--out", strlen(path));
    ls_status status =
        mkdtemp(folder)
            ? draw_apart(figure, folder, (ls_picture)kind, path)
            : ls_fail(LS_CODE_MISSING, "temporary folder", folder,
                      "cannot be made: %s; TMPDIR names a folder with room", strerror(errno));
    rmdir(folder);
    free(folder);
    return status;
}

json_t *ls_figure_points(const json_t *figure)
{
    json_t *out = json_array(), *all = json_object_get(figure, "series");
    for (size_t s = 0; s < json_array_size(all); s++)
        json_array_extend(out, json_object_get(json_array_get(all, s), "points"));
    return out;
}

/* ---- SVG ------------------------------------------------------------------------------------ */

void ls_draw_dark_style(FILE *stream)
{
    static const char *const pairs[][2] = {
        {"#ffffff", "#14171c"}, {"#222222", "#e8e8e8"}, {"black", "#e8e8e8"},
        {"#555555", "#b4b8be"}, {"#767676", "#9a9fa6"}, {"#dddddd", "#363b43"},
        {"#4d4d4d", "#d2d2d2"}, {"#d55e00", "#ff8f4a"}, {"#0072b2", "#5aa9e6"},
        {"#7b3294", "#bd8bd6"}, {"#009e73", "#3ccba0"}, {"#882255", "#d7709a"},
        {"#c8c8c8", "#6a7078"}, {"#56b4e9", "#b5dff7"},
    };
    fputs("@media screen and (prefers-color-scheme:dark){.ls{color:#e8e8e8}", stream);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        fprintf(
            stream,
            ".ls [stroke=\"%s\"]{stroke:%s}.ls [fill=\"%s\"]{fill:%s}.ls [color=\"%s\"]{color:%s}",
            pairs[i][0], pairs[i][1], pairs[i][0], pairs[i][1], pairs[i][0], pairs[i][1]);
    fputc('}', stream);
}

char *ls_draw_read(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    if (file && getdelim(&text, &size, 0, file) < 0) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* Edits of gnuplot's output: ids become unique to this figure; defaults, and what is repeated, are
 * removed. */
static const struct {
    const char *these, *to; /* up to the end of `to`, unless NULL */
    const char *instead;    /* %s: the figure's name */
} edits[] = {
    {" id='", NULL, " id='%s-"},
    {"href='#", NULL, "href='#%s-"},
    {" id=\"gnuplot", "\"", ""},
    {"<filter", "</filter>\n", ""},
    {"<title>", "</title>", ""},
    {".00\"", NULL, "\""},
    {">\n", NULL, ">"},
    {" fill=\"none\"", NULL, ""},
    {" stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", NULL, ""},
    {" stroke-width=\"1.00\"", NULL, ""},
    {" font-family=\"sans-serif\"", NULL, ""},
    {"  text-anchor=\"start\"", NULL, ""},
    {" class=\"gridline\" ", NULL, ""},
    {"#FFFFFF", NULL, "#ffffff"}, /* behind marks: becomes dark, too */
    {" color=\"black\" stroke=\"currentColor\"", NULL, ""},
    {"\t", NULL, ""},
    {" L", NULL, " "}, /* lines follow a path's first point without a letter, too */
    {"\nL", NULL, " "},
    {"  '", NULL, "'"},
    {"  ", NULL, " "},
};

/* Length of an empty group, or 0. */
static size_t length_empty(const char *c)
{
    const char *end = c + strcspn(c, ">") + 1;
    if (strncmp(c, "<g ", 3) != 0)
        return 0;
    end += strspn(end, "\n\t");
    end += strncmp(end, "<text></text>\n", 14) == 0 ? 14 : 0;
    end += strspn(end, "\t");
    return strncmp(end, "</g>\n", 5) == 0 ? (size_t)(end + 5 - c) : 0;
}

/* Whether the drawing refers to a mark, or to one that is made of it. */
static bool is_used(const char *mark, const char *drawn)
{
    const char *drawing = strstr(drawn, "</defs>");
    char reference[32], other[24];
    snprintf(reference, sizeof reference, "'#%s'", mark);
    for (const char *at = drawn; (at = strstr(at, reference)) != NULL; at++) {
        const char *id = at < drawing ? strstr(at, " id='") : NULL;
        if (!id || sscanf(id, " id='%20[A-Za-z0-9]", other) != 1 || is_used(other, drawn))
            return true;
    }
    return false;
}

/* Length of a line that defines a mark that is not used, or 0. */
static size_t length_unused(const char *c, const char *drawn)
{
    char mark[24];
    const size_t line = strcspn(c, "\n");
    const char *id = *c == '<' ? memmem(c, line, " id='gp", 7) : NULL;
    if (!id || sscanf(id, " id='%20[A-Za-z0-9]", mark) != 1 || is_used(mark, drawn))
        return 0;
    return line + (c[line] == '\n');
}

/* Writes the text up to its tag's end as gnuplot has escaped it, which leaves "]]>" in it; returns
 * what follows. It is no drawing, even if it says "#FFFFFF". */
static const char *put_svg_text(FILE *stream, const char *c)
{
    for (; *c && *c != '<'; c++)
        if (*c == '>')
            fputs("&gt;", stream);
        else
            fputc(*c, stream);
    return c;
}

/* With colours as #rrggbb. */
static void put_body(FILE *stream, const char *c, const char *name)
{
    const size_t count = sizeof edits / sizeof *edits;
    const char *all = c;
    while (*c) {
        int red, green, blue, used = 0;
        size_t i = 0;
        while (i < count && strncmp(c, edits[i].these, strlen(edits[i].these)) != 0)
            i++;
        if (i < count) {
            c += strlen(edits[i].these);
            const char *end = edits[i].to ? strstr(c, edits[i].to) : NULL;
            c = end ? end + strlen(edits[i].to) : c;
            fprintf(stream, edits[i].instead, name);
        } else if (strncmp(c, "<text>", 6) == 0) {
            fputs("<text>", stream);
            c = put_svg_text(stream, c + 6);
        } else if (length_empty(c) > 0) {
            c += length_empty(c);
        } else if (length_unused(c, all) > 0) {
            c += length_unused(c, all);
        } else if (*c == 'r' && sscanf(c, "rgb(%d,%d,%d)%n", &red, &green, &blue, &used) == 3 &&
                   used) {
            fprintf(stream, "#%02x%02x%02x", red & 255, green & 255, blue & 255);
            c += used;
        } else {
            fputc(*c++, stream);
        }
    }
}

/* Writes the `svg` element, for a page or for a separate file. */
static void put_svg(FILE *stream, const json_t *figure, const char *drawn, bool page)
{
    const char *body = strstr(drawn, "<defs>"), *box = strstr(drawn, "viewBox=\""),
               *by = strstr(drawn, "GNUPLOT ");
    int width, height;
    if (!body || !by || !box || sscanf(box, "viewBox=\"0 0 %d %d", &width, &height) != 2)
        return;
    fprintf(stream,
            "<svg class=\"ls\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
            "font-family=\"sans-serif\" role=\"img\" aria-label=\"",
            width * 5 / 4, height * 5 / 4, width, height);
    ls_markup(stream, ls_text_of(figure, "alt"), 600);
    fputs("\">\n<title>", stream);
    ls_markup(stream, ls_text_of(figure, "title"), 300);
    fputs("</title>\n", stream);
    if (!page) {
        fprintf(stream, "<!-- gnuplot %.*s -->\n<desc>",
                (int)strspn(by + 8, "0123456789. abcdehlptv"), by + 8);
        ls_markup(stream, ls_text_of(figure, "caption"), 600);
        fputs("</desc>\n<style>", stream);
        ls_draw_dark_style(stream);
        fputs("</style>\n", stream);
    }
    fprintf(stream,
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
            "<g fill=\"none\" color=\"black\" stroke=\"currentColor\">\n",
            width, height);
    put_body(stream, body, ls_text_of(figure, "name"));
}

/* An SVG as gnuplot drew it, and its figure. */
typedef struct dressed {
    const json_t *figure;
    const char *drawn;
} dressed;

static ls_status put_file(FILE *stream, void *context)
{
    const dressed *one = context;
    fputs("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n", stream);
    put_svg(stream, one->figure, one->drawn, false);
    return LS_OK;
}

ls_status ls_draw_dress(json_t *figure, const char *folder)
{
    char *path, *text = NULL;
    size_t size;
    if (asprintf(&path, "%s/%s.svg", folder, ls_text_of(figure, "name")) < 0)
        return ls_fail_memory("report", strlen(folder));
    char *drawn = ls_draw_read(path);
    FILE *stream = drawn ? open_memstream(&text, &size) : NULL;
    ls_status status = stream ? ls_whole_file("report", path, put_file, &(dressed){figure, drawn})
                              : ls_fail_memory("report", 0);
    if (stream) {
        put_svg(stream, figure, drawn, true);
        fclose(stream);
        json_object_set_new(figure, "svg", json_string(text));
    }
    free(text);
    free(drawn);
    free(path);
    return status;
}
