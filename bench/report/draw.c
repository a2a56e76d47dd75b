/* SPDX-License-Identifier: MIT */
/* Drawing; see draw.h: runs gnuplot in the folder, without the user's settings. */
#include "bench/report/draw.h"

#include "bench/output/format.h"
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
        return ls_fail(LS_CODE_MISSING, "report", "gnuplot",
                       "%s; install Debian's gnuplot-nox (page, tables and data are written)",
                       error == ENOENT ? "not found" : strerror(error));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? LS_OK : tell(errors);
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

/* A drawing of gnuplot's, and its figure. */
typedef struct drawing {
    const json_t *figure;
    char *text;
} drawing;

static ls_status put_dressed(FILE *stream, void *context)
{
    const drawing *one = context;
    ls_draw_dress(stream, one->figure, one->text);
    return LS_OK;
}

/* gnuplot's status is 0 even if the disk is full. Dresses SVG. */
static ls_status finish_pictures(const json_t *figures, const char *folder, ls_picture kind)
{
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const char *name = ls_text_of(json_array_get(figures, i), "name");
        ls_auto char *path = NULL;
        if (asprintf(&path, "%s/%s%s", folder, name, endings[kind].name) < 0)
            return ls_fail_memory("report", strlen(folder));
        if (!is_complete(path, endings[kind].file))
            return ls_fail(LS_CODE_MISSING, "report", folder,
                           "gnuplot did not complete %s%s; a folder with room works", name,
                           endings[kind].name);
        if (kind != LS_PICTURE_SVG)
            continue;
        ls_auto char *text = ls_draw_read(path);
        if (!text)
            return ls_fail_memory("report", 0);
        LS_TRY(ls_whole_file("report", path, put_dressed,
                             &(drawing){json_array_get(figures, i), text}));
    }
    return LS_OK;
}

ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind)
{
    if (json_array_size(figures) == 0)
        return LS_OK;
    FILE *script = tmpfile(), *errors = tmpfile();
    for (size_t i = 0; script && i < json_array_size(figures); i++)
        ls_draw_script(script, json_array_get(figures, i), kind);
    ls_status status = script && errors ? run(script, errors, folder)
                                        : ls_fail(LS_CODE_MISSING, "report", "temporary file",
                                                  "cannot be made: %s; TMPDIR names a folder "
                                                  "with room",
                                                  strerror(errno));
    if (!status)
        status = finish_pictures(figures, folder, kind);
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
static ls_status draw_in_folder(json_t *figure, const char *folder, ls_picture kind,
                                const char *path)
{
    json_auto_t *figures = json_pack("[O]", figure);
    ls_auto char *drawn = NULL;
    json_object_set_new(figure, "name", json_string("picture"));
    if (asprintf(&drawn, "%s/picture%s", folder, endings[kind].name) < 0)
        return ls_fail_memory("--out", strlen(path));
    ls_status status = ls_draw(figures, folder, kind);
    if (!status)
        status = ls_whole_file("--out", path, put_picture, drawn);
    unlink(drawn);
    return status;
}

/* Runs in a temporary folder, since gnuplot takes a name that begins with '|' for a command. */
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
    ls_auto char *folder = NULL;
    if (asprintf(&folder, "%s/lockstep-XXXXXX", temporary && *temporary ? temporary : "/tmp") < 0)
        return ls_fail_memory("--out", strlen(path));
    ls_status status =
        mkdtemp(folder)
            ? draw_in_folder(figure, folder, (ls_picture)kind, path)
            : ls_fail(LS_CODE_MISSING, "temporary folder", folder,
                      "cannot be made: %s; TMPDIR names a folder with room", strerror(errno));
    rmdir(folder);
    return status;
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
