/* SPDX-License-Identifier: MIT */
/* Drawing; see draw.h: runs gnuplot in the folder, without the user's settings. */
#include "bench/report/draw.h"

#include "bench/report/template.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"

#include <ctype.h>
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

static void close_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

/* A file up to a zero byte; NULL if it is empty, or without memory. */
static char *read_text(FILE *file)
{
    char *text = NULL;
    size_t size = 0;
    rewind(file);
    if (getdelim(&text, &size, 0, file) >= 0)
        return text;
    free(text);
    return NULL;
}

static ls_status refuse_temporary(void)
{
    return ls_fail(LS_CODE_MISSING, "report", "temporary file",
                   "no temporary file can be created: %s; set TMPDIR to a folder with free space",
                   strerror(errno));
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
                   "gnuplot failed: %s; install Debian's package gnuplot-nox, 5.2 or newer", said);
}

/* Passes on only what finds programs, libraries and fonts, so that no other variable (GNUTERM,
 * GNUPLOT_*, LC_NUMERIC) changes or prevents pictures. */
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

/* `out`: its standard output; NULL means nowhere. */
static ls_status run(FILE *script, FILE *out, FILE *errors, const char *folder)
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
    if (out)
        posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
    else /* this program's has rows */
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), 2);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    const int error = posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, variables);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                       "%s, so there are no pictures (page, tables and data are written); install "
                       "Debian's package gnuplot-nox",
                       error == ENOENT ? "gnuplot is not installed" : strerror(error));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? LS_OK : tell(errors);
}

/* gnuplot's status is 0 even if the disk is full. `file` is NULL if there is none. */
static ls_status check_complete(FILE *file, const char *name, const char *folder, ls_picture kind)
{
    char last[64];
    const char *end = endings[kind].file;
    if (file)
        (void)fseek(file, -(long)sizeof last, SEEK_END); /* fails if it is shorter */
    const size_t length = file ? fread(last, 1, sizeof last, file) : 0;
    if (memmem(last, length, end, strlen(end)))
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "report", folder,
                   "gnuplot did not complete %s; use a folder with free space (TMPDIR is the "
                   "folder of temporary files)",
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
        ls_markup(stream, ls_text_of(figure, "alt"), 600);
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

/* What gnuplot drew, and its figure. */
typedef struct drawing {
    const json_t *figure;
    FILE *drawn;
    ls_picture kind;
} drawing;

/* SVG as text, dressed; other kinds as they are. */
static ls_status put_drawing(FILE *stream, void *context)
{
    const drawing *one = context;
    ls_auto char *text = one->kind == LS_PICTURE_SVG ? read_text(one->drawn) : NULL;
    char block[4096];
    if (text) {
        ls_draw_dress(stream, one->figure, text);
        return LS_OK;
    }
    rewind(one->drawn);
    for (size_t length; (length = fread(block, 1, sizeof block, one->drawn)) > 0;)
        fwrite(block, 1, length, stream);
    return LS_OK;
}

/* Draws by one process, in the folder. `out` gets a figure without a name; NULL means all have one.
 */
static ls_status draw(const json_t *figures, FILE *out, const char *folder, ls_picture kind)
{
    ls_closing(close_file) FILE *script = tmpfile();
    ls_closing(close_file) FILE *errors = tmpfile();
    if (!script || !errors)
        return refuse_temporary();
    for (size_t i = 0; i < json_array_size(figures); i++)
        ls_draw_script(script, json_array_get(figures, i), kind);
    return run(script, out, errors, folder);
}

ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind)
{
    if (json_array_size(figures) == 0)
        return LS_OK;
    LS_TRY(draw(figures, NULL, folder, kind));
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *figure = json_array_get(figures, i);
        ls_auto char *path = NULL;
        if (asprintf(&path, "%s/%s%s", folder, ls_text_of(figure, "name"), endings[kind].name) < 0)
            return ls_fail_memory("report", strlen(folder));
        ls_closing(close_file) FILE *drawn = fopen(path, "rbe");
        LS_TRY(check_complete(drawn, strrchr(path, '/') + 1, folder, kind));
        if (kind == LS_PICTURE_SVG)
            LS_TRY(ls_whole_file("report", path, put_drawing, &(drawing){figure, drawn, kind}));
    }
    return LS_OK;
}

/* gnuplot does not get the path, since it takes one that begins with '|' for a command. */
ls_status ls_draw_file(json_t *figure, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *ending = strrchr(base, '.');
    int kind = 0;
    while (kind < 3 && !(ending && strcmp(ending, endings[kind].name) == 0))
        kind++;
    if (kind == 3 || ending == base)
        return ls_fail(
            LS_CODE_USAGE, "--out", path,
            "this name has no ending of a picture; use a name that ends in .svg, .png or .pdf");
    ls_closing(close_file) FILE *drawn = tmpfile();
    json_auto_t *figures = json_pack("[O]", figure);
    json_object_set_new(figure, "name", json_string(""));
    if (!drawn)
        return refuse_temporary();
    LS_TRY(draw(figures, drawn, ".", (ls_picture)kind));
    LS_TRY(check_complete(drawn, base, "temporary file", (ls_picture)kind));
    return ls_whole_file("--out", path, put_drawing, &(drawing){figure, drawn, (ls_picture)kind});
}

char *ls_draw_read(const char *path)
{
    ls_closing(close_file) FILE *file = fopen(path, "rbe");
    return file ? read_text(file) : NULL;
}

ls_status ls_draw_embed(json_t *figure, const char *folder)
{
    ls_auto char *path = NULL, *text = NULL;
    size_t size;
    int width = 0, height = 0;
    if (asprintf(&path, "%s/%s.svg", folder, ls_text_of(figure, "name")) < 0)
        return ls_fail_memory("report", strlen(folder));
    ls_auto char *drawn = ls_draw_read(path);
    const char *box = drawn ? strstr(drawn, "viewBox=\"") : NULL;
    FILE *stream = box && sscanf(box, "viewBox=\"0 0 %d %d", &width, &height) == 2
                       ? open_memstream(&text, &size)
                       : NULL;
    if (stream) {
        fputs("<img alt=\"", stream);
        ls_markup(stream, ls_text_of(figure, "alt"), 600);
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
