/* SPDX-License-Identifier: MIT */
/* Drawing; see draw.h: runs gnuplot in the folder, without the user's settings; and adds to its SVG
 * a description, named colours, ids of its own, and colours for dark pages. */
#include "bench/report/draw.h"

#include "bench/report/text.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static ls_status refuse_gnuplot(const char *why)
{
    return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                   "%s; install Debian's gnuplot-nox (page, tables and data are there)", why);
}

/* What gnuplot said: of the line of its script that it did not take ("gnuplot> set output ..", a
 * caret, "line 3: cannot open file", "system error: .."), else last; behind that may be a picture.
 */
static ls_status tell(FILE *errors, const char *fallback)
{
    char line[200], command[200] = "", said[600] = "";
    bool found = false;
    rewind(errors);
    while (fgets(line, sizeof line, errors)) {
        const char *text = line + strspn(line, " ^\t");
        const char *colon = strncmp(text, "line ", 5) == 0 ? strchr(text, ':') : NULL;
        line[strcspn(line, "\r\n")] = 0;
        if (strncmp(text, "gnuplot> ", 9) == 0)
            snprintf(command, sizeof command, "%s", text + 9);
        else if (colon && !strstr(colon, "warning") && !found) {
            found = true;
            snprintf(said, sizeof said, "%s:%s", command, colon + 1 + strspn(colon + 1, " ") - 1);
        } else if (found && strncmp(text, "system error: ", 14) == 0)
            ls_text_add(said, sizeof said, ": %s", text + 14);
        else if (!found && *text)
            snprintf(said, sizeof said, "%s", text);
    }
    return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                   "failed: %s; is it Debian's gnuplot-nox, 5.2 or newer?",
                   *said ? said : fallback);
}

static ls_status run(FILE *script, FILE *errors, const char *folder)
{
    char *arguments[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int state = 0;
    fflush(script);
    rewind(script);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ls_fail_memory("gnuplot", sizeof actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), 1);
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), 2);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    const int error = posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return refuse_gnuplot(error == ENOENT ? "not found" : strerror(error));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
        return refuse_gnuplot("not found");
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? LS_OK : tell(errors, "it said nothing");
}

ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind)
{
    FILE *script = tmpfile(), *errors = tmpfile();
    const json_t *figure;
    size_t i;
    ls_status status = LS_OK;
    if (!script || !errors) {
        status = ls_fail(LS_CODE_MISSING, "report", "temporary file", "%s; is TMPDIR full?",
                         strerror(errno));
    } else {
        json_array_foreach(figures, i, figure) ls_draw_script(script, figure, kind);
        fputs("set output\n", script);
        status = run(script, errors, folder);
    }
    if (script)
        fclose(script);
    if (errors)
        fclose(errors);
    return status;
}

ls_status ls_draw_file(json_t *figure, const char *path)
{
    static const char *const endings[] = {".svg", ".png", ".pdf"};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *ending = strrchr(base, '.');
    int kind = 0;
    while (kind < 3 && !(ending && strcmp(ending, endings[kind]) == 0))
        kind++;
    if (kind == 3 || ending == base || strchr(base, '\''))
        return ls_fail(LS_CODE_USAGE, "--out", path,
                       "is no name of a picture; one that ends in .svg, .png or .pdf is");
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    json_t *figures = json_pack("[O]", figure);
    json_object_set_new(figure, "name", json_stringn(base, (size_t)(ending - base)));
    ls_status status = LS_OK;
    if (!folder || access(folder, W_OK | X_OK) != 0)
        status = ls_fail(LS_CODE_MISSING, "--out", path, "cannot be written: %s; name another file",
                         strerror(errno));
    if (!status)
        status = ls_draw(figures, folder, (ls_picture)kind);
    if (!status && kind == LS_PICTURE_SVG)
        free(ls_draw_dress(figure, folder));
    json_decref(figures);
    free(folder);
    return status;
}

/* ---- SVG ------------------------------------------------------------------------------------ */

void ls_draw_dark_style(FILE *stream)
{
    static const char *const pairs[][2] = {
        {"#ffffff", "#14171c"}, {"#222222", "#e8e8e8"}, {"black", "#e8e8e8"},
        {"#555555", "#b4b8be"}, {"#767676", "#9a9fa6"}, {"#dddddd", "#363b43"},
        {"#4d4d4d", "#d2d2d2"}, {"#d55e00", "#ff8f4a"}, {"#0072b2", "#5aa9e6"},
        {"#7b3294", "#bd8bd6"}, {"#009e73", "#3ccba0"}, {"#882255", "#d7709a"},
        {"#c8c8c8", "#6a7078"},
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

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Attributes that gnuplot repeats, although they are defaults, or set once above (dress). */
static const char *const unsaid[] = {" fill=\"none\"",
                                     " stroke-linecap=\"butt\" stroke-linejoin=\"miter\"",
                                     " stroke-width=\"1.00\"",
                                     " font-family=\"sans-serif\"",
                                     " class=\"gridline\" ",
                                     " color=\"black\" stroke=\"currentColor\"",
                                     "\t"};

/* Of a group of gnuplot's with nothing in it, too. */
static size_t length_unsaid(const char *text)
{
    const size_t group = starts(text, "<g fill=\"none\" color=\"") ? strcspn(text, ">") : 0;
    if (group && starts(text + group, ">\n</g>\n"))
        return group + strlen(">\n</g>\n");
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
        if (starts(text, unsaid[i]))
            return strlen(unsaid[i]);
    return 0;
}

/* gnuplot's drawing with ids of this figure, colours as #rrggbb, without what is not used. */
static void copy_body(FILE *stream, const char *body, const char *name)
{
    int red, green, blue, used;
    for (const char *c = body; *c;) {
        used = 0;
        if (starts(c, "rgb(") && sscanf(c, "rgb(%d,%d,%d)%n", &red, &green, &blue, &used) == 3 &&
            used) {
            fprintf(stream, "#%02x%02x%02x", red & 255, green & 255, blue & 255);
            c += used;
        } else if (starts(c, " id='") || starts(c, " id=\"") || starts(c, "href='#")) {
            const size_t length = *c == ' ' ? 5 : 7;
            fprintf(stream, "%.*s%s-", (int)length, c, name);
            c += length;
        } else if (starts(c, "<filter") && strstr(c, "</defs>")) {
            c = strstr(c, "</defs>");
        } else if (starts(c, "<title>") && strstr(c, "</title>")) {
            c = strstr(c, "</title>") + 8; /* gnuplot's own: "gnuplot_plot_1" */
        } else if (length_unsaid(c)) {
            c += length_unsaid(c);
        } else {
            fputc(*c++, stream);
        }
    }
}

static void dress(FILE *stream, const json_t *figure, const char *drawn, bool page)
{
    const char *body = strstr(drawn, "<g id=\"gnuplot_canvas\">"),
               *box = strstr(drawn, "viewBox=\"");
    const char *name = json_string_value(json_object_get(figure, "name"));
    int width = 560, height = 400;
    if (!body || !box || sscanf(box, "viewBox=\"0 0 %d %d", &width, &height) != 2)
        return;
    fprintf(stream, "<svg class=\"ls\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\"",
            width * 5 / 4, height * 5 / 4, width, height);
    fputs(" xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
          "font-family=\"sans-serif\" fill=\"none\" color=\"black\" stroke=\"currentColor\" "
          "role=\"img\" aria-label=\"",
          stream);
    ls_markup(stream, json_string_value(json_object_get(figure, "alt")), 600);
    fputs("\">\n<title>", stream);
    ls_markup(stream, json_string_value(json_object_get(figure, "title")), 300);
    fputs("</title>\n", stream);
    if (!page) {
        const char *by = strstr(drawn, "Produced by GNUPLOT ");
        by = by ? by + strlen("Produced by GNUPLOT ") : "";
        fprintf(stream, "<!-- gnuplot %.*s -->\n<desc>", (int)strspn(by, "0123456789. abcdehlptv"),
                by);
        ls_markup(stream, json_string_value(json_object_get(figure, "caption")), 600);
        fputs("</desc>\n<style>", stream);
        ls_draw_dark_style(stream);
        fputs("</style>\n", stream);
    }
    copy_body(stream, body, name);
}

char *ls_draw_dress(const json_t *figure, const char *folder)
{
    char *path, *out = NULL;
    size_t size;
    if (asprintf(&path, "%s/%s.svg", folder, json_string_value(json_object_get(figure, "name"))) <
        0)
        return NULL;
    char *drawn = ls_draw_read(path);
    if (drawn) {
        FILE *file = fopen(path, "wb");
        if (file) {
            fputs("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n", file);
            dress(file, figure, drawn, false);
            fclose(file);
        }
        FILE *text = open_memstream(&out, &size);
        if (text) {
            dress(text, figure, drawn, true);
            fclose(text);
        }
    }
    free(drawn);
    free(path);
    return out;
}
