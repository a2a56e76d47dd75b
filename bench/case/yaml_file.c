/* SPDX-License-Identifier: MIT */
/* Small YAML files; see yaml_file.h. */
#include "bench/case/yaml_file.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status refuse_file(const ls_yaml_file *file, ls_code code, const char *why)
{
    return ls_fail(code, file->what, file->path, "%s; %s", why, file->valid);
}

ls_status ls_yaml_refuse(const ls_yaml_file *file, const char *why, ...)
{
    char where[PATH_MAX + 32], text[1024];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    snprintf(where, sizeof where, "%s:%d:%d", file->path, file->line, file->column);
    return ls_fail(LS_CODE_USAGE, file->what, where, "%s; %s", text, file->valid);
}

/* Of a list or a mapping, its first scalar. */
static void look_at(ls_yaml_file *file, struct fy_node *node)
{
    while (node && !fy_node_is_scalar(node)) {
        void *at = NULL;
        struct fy_node_pair *pair =
            fy_node_is_mapping(node) ? fy_node_mapping_iterate(node, &at) : NULL;
        node = fy_node_is_sequence(node) ? fy_node_sequence_iterate(node, &at)
               : pair                    ? fy_node_pair_key(pair)
                                         : NULL;
    }
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    if (!mark)
        return;
    file->line = mark->line + 1;
    file->column = mark->column + 1;
}

const char *ls_yaml_text(ls_yaml_file *file, struct fy_node *node)
{
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    look_at(file, node);
    return token && !fy_node_is_alias(node) ? fy_node_get_scalar0(node) : NULL;
}

struct fy_node *ls_yaml_member(ls_yaml_file *file, struct fy_node *mapping, const char *key)
{
    struct fy_node_pair *pair = fy_node_mapping_lookup_pair_by_string(mapping, key, (size_t)-1);
    look_at(file, pair ? fy_node_pair_key(pair) : NULL);
    return pair ? fy_node_pair_value(pair) : NULL;
}

const char *ls_yaml_member_text(ls_yaml_file *file, struct fy_node *mapping, const char *key)
{
    return ls_yaml_text(file, ls_yaml_member(file, mapping, key));
}

ls_status ls_yaml_check_keys(ls_yaml_file *file, struct fy_node *mapping, const char *const *keys)
{
    char valid[512] = "";
    void *at = NULL;
    for (size_t k = 0, used = 0; keys[k] && used < sizeof valid; k++)
        used += (size_t)snprintf(valid + used, sizeof valid - used, "%s%s", k ? ", " : "", keys[k]);
    for (struct fy_node_pair *pair; (pair = fy_node_mapping_iterate(mapping, &at));) {
        const char *text = ls_yaml_text(file, fy_node_pair_key(pair));
        size_t k = 0;
        while (text && keys[k] && strcmp(keys[k], text) != 0)
            k++;
        if (!text || !keys[k])
            return ls_yaml_refuse(file, "'%.80s' is no key here, which are %s", text ? text : "",
                                  valid);
    }
    return LS_OK;
}

struct fy_node *ls_yaml_root(const ls_yaml_file *file)
{
    return fy_document_root(file->document);
}

/* Whether this is the sign of a key that is itself a mapping or a list, "? [a, b] : c". */
static bool begins_key(const char *text, const char *at)
{
    return *at == '?' && (at == text || strchr(" \t\r\n[{,", at[-1])) &&
           (!at[1] || strchr(" \t\r\n", at[1]));
}

/* A mark of the byte order may come first. */
static const char *skip_order_mark(const char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : text;
}

/* Whether a line is a mark, "---" or "...", and what follows is apart. */
static bool is_mark(const char *line, const char *mark)
{
    return strncmp(line, mark, 3) == 0 && (!line[3] || strchr(" \t\r\n", line[3]));
}

/* Looks at where a second document begins, if one does. */
static bool has_second(ls_yaml_file *file)
{
    bool begun = false, ended = false; /* the first */
    file->line = file->column = 1;
    for (const char *line = skip_order_mark(file->text); *line; file->line++) {
        const char *word = line + strspn(line, " \t\r");
        const bool begins = is_mark(line, "---"), ends = is_mark(line, "...");
        const bool empty = !*word || *word == '\n' || *word == '#';
        if ((begins && begun) || (ended && !ends && !empty))
            return true;
        ended = ended || (ends && begun);
        begun = begun || (!ends && !empty);
        line = strchr(line, '\n');
        if (!line)
            return false;
        line++;
    }
    return false;
}

const char *ls_yaml_unsafe(const char *text, size_t length, int *line, int *column)
{
    const char *end = text + length;
    text = skip_order_mark(text);
    *line = 1;
    for (const char *c = text, *begin = text; c < end; c++) {
        *column = (int)(c - begin) + 1;
        if (!*c || ((unsigned char)*c < ' ' && !strchr("\t\r\n", *c)))
            return "has a control character here";
        if (*c == '%' && c == begin)
            return "has a line that begins with %, a directive, and none is read";
        if (begins_key(text, c) && begin[strspn(begin, " \t")] != '#')
            return "has a key here that begins with ?, and keys are words";
        if (*c == '\r' || *c == '\n') {
            *line += *c == '\n';
            begin = c + 1;
        }
    }
    return NULL;
}

static ls_status make_document(ls_yaml_file *file, struct fy_diag *diagnostics)
{
    const struct fy_parse_cfg config = {.search_path = "", .diag = diagnostics};
    void *previous = NULL;
    const char *unsafe = ls_yaml_unsafe(file->text, file->length, &file->line, &file->column);
    if (unsafe)
        return ls_yaml_refuse(file, "%s", unsafe);
    if (has_second(file))
        return ls_yaml_refuse(file, "begins a second document here, and one is read");
    file->line = file->column = 1;
    file->document = fy_document_build_from_string(&config, file->text, file->length);
    const struct fy_diag_error *error = fy_diag_errors_iterate(diagnostics, &previous);
    if (error) {
        file->line = error->line > 0 ? error->line : 1;
        file->column = error->column > 0 ? error->column : 1;
        return ls_yaml_refuse(file, "is not valid YAML: %.200s", error->msg);
    }
    struct fy_node *root = file->document ? ls_yaml_root(file) : NULL;
    if (!root)
        return ls_yaml_refuse(file, "is empty");
    return fy_node_is_mapping(root) ? LS_OK : ls_yaml_refuse(file, "is no mapping");
}

ls_status ls_yaml_parse(const char *what, const char *path, const char *valid, char *text,
                        size_t length, ls_yaml_file *out)
{
    *out = (ls_yaml_file){what, path, valid, text, length, .line = 1, .column = 1};
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    struct fy_diag *diagnostics = fy_diag_create(&quiet);
    if (!diagnostics)
        return ls_fail_memory(what, 0);
    fy_diag_set_collect_errors(diagnostics, true);
    ls_status status = make_document(out, diagnostics);
    fy_diag_destroy(diagnostics);
    return status;
}

ls_status ls_yaml_open(const char *what, const char *path, const char *valid, ls_yaml_file *out)
{
    *out = (ls_yaml_file){.what = what, .path = path, .valid = valid};
    char *text = malloc(LS_YAML_MOST + 2);
    if (!text)
        return ls_fail_memory(what, LS_YAML_MOST + 2);
    errno = 0;
    FILE *stream = fopen(path, "rb");
    const size_t length = stream ? fread(text, 1, LS_YAML_MOST + 1, stream) : 0;
    const int error = !stream || ferror(stream) ? errno : 0;
    if (stream)
        fclose(stream);
    text[length] = 0;
    if (!error && length <= LS_YAML_MOST)
        return ls_yaml_parse(what, path, valid, text, length, out);
    free(text);
    if (!error)
        return refuse_file(out, LS_CODE_USAGE, "is larger than 64 KiB");
    return ls_fail(LS_CODE_MISSING, what, path, "cannot be read: %s; %s", strerror(error), valid);
}

void ls_yaml_close(ls_yaml_file *file)
{
    fy_document_destroy(file->document);
    free(file->text);
    *file = (ls_yaml_file){0};
}
