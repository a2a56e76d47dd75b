/* SPDX-License-Identifier: MIT */
/* Small YAML files; see yaml_file.h. */
#include "bench/case/yaml_file.h"

#include "common/base/escape.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_yaml_refuse(const ls_yaml_file *file, const char *why, ...)
{
    char where[PATH_MAX + 32], text[1024];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    snprintf(where, sizeof where, "%s:%d:%d", file->path, file->line, file->column);
    const char *valid = strstr(text, "; ") ? "" : file->valid;
    return ls_fail(LS_CODE_USAGE, file->what, where, "%s%s%s", text, *valid ? "; " : "", valid);
}

/* Notes the position of a node; of a list or a mapping, its first scalar's. */
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
    for (size_t k = 0; keys[k]; k++)
        ls_text_add(valid, sizeof valid, "%s%s", k ? ", " : "", keys[k]);
    for (struct fy_node_pair *pair; (pair = fy_node_mapping_iterate(mapping, &at));) {
        const char *text = ls_yaml_text(file, fy_node_pair_key(pair));
        size_t k = 0;
        while (text && keys[k] && strcmp(keys[k], text) != 0)
            k++;
        if (!text || !keys[k])
            return ls_yaml_refuse(file, "'%.80s' is not a valid key here; valid keys are %s",
                                  text ? text : "", valid);
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

/* Whether a value, whose line's first word is at `first`, may begin at `at`. */
static bool begins_value(const char *first, const char *at)
{
    const char *before = at;
    while (before > first && strchr(" \t", before[-1]))
        before--;
    return at == first ||
           (before > first && (strchr("[{,", before[-1]) || (before[-1] == ':' && before < at)));
}

/* The end of a value in quotes that begins at `at` and ends in its line; else `at`. */
static const char *skip_quoted(const char *first, const char *at)
{
    if ((*at != '"' && *at != '\'') || !begins_value(first, at))
        return at;
    for (const char *end = at + 1; *end && *end != '\n' && *end != '\r'; end++) {
        if (*end == *at && *at == '\'' && end[1] == '\'')
            end++;
        else if (*end == *at)
            return end + 1;
        else if (*at == '"' && *end == '\\' && end[1])
            end++;
    }
    return at;
}

/* A mark of the byte order may come first. */
static const char *skip_order_mark(const char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : text;
}

/* Why the text must not come to libfyaml, whose version 0.7.12 takes a byte that is not UTF-8 for
 * the end, and loops endlessly or crashes on the others (ci/fuzz.sh found both); NULL if it may.
 * Looks at the place. */
static const char *find_unsafe(ls_yaml_file *file)
{
    const char *text = skip_order_mark(file->text), *end = file->text + file->length;
    file->line = file->column = 1;
    const char *begin = text, *first = text, *quoted = text; /* of a line; end of a value */
    for (const char *c = text; c < end; c += ls_escape_step(c), file->column++) {
        first = c == begin ? c + strspn(c, " \t-") : first;
        quoted = c < quoted ? quoted : skip_quoted(first, c);
        if (!*c || ((unsigned char)*c < ' ' && !strchr("\t\r\n", *c)))
            return "there is a control character here; remove the character";
        if ((unsigned char)*c >= 0x80 && ls_escape_step(c) == 1)
            return "there is a byte here that is not UTF-8; save the file as UTF-8";
        if (*c == '%' && c == begin)
            return "this line begins with %, a YAML directive, which is not allowed; remove the "
                   "line";
        if (c >= quoted && begins_key(text, c) && *first != '#')
            return "this key begins with ?, but keys are words; correct the key";
        if (*c == '\n' || (*c == '\r' && c[1] != '\n')) {
            file->line++;
            file->column = 0;
            begin = c + 1;
        }
    }
    return NULL;
}

ls_status ls_yaml_syntax(ls_yaml_file *file)
{
    void *previous = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(file->diagnostics, &previous);
    if (!error)
        return LS_OK;
    file->line = error->line > 0 ? error->line : 1;
    file->column = error->column > 0 ? error->column : 1;
    return ls_yaml_refuse(file, "this is not valid YAML: %.200s", error->msg);
}

/* Whether nothing follows the document. If something does, the file's line and column are set to
 * it. */
static bool is_last(ls_yaml_file *file)
{
    bool last = true;
    for (const struct fy_mark *mark = NULL; !mark;) {
        struct fy_event *event = fy_parser_parse(file->parser);
        if (!event)
            break;
        last = event->type == FYET_STREAM_END;
        mark = fy_event_start_mark(event); /* NULL where "---" is left out */
        file->line = mark ? mark->line + 1 : file->line;
        file->column = mark ? mark->column + 1 : file->column;
        fy_parser_event_free(file->parser, event);
    }
    return last;
}

static ls_status make_document(ls_yaml_file *file)
{
    file->document = fy_parse_load_document(file->parser);
    if (file->document && !is_last(file))
        return ls_yaml_refuse(
            file,
            "a second YAML document begins here, but only one is allowed; remove what follows");
    LS_TRY(ls_yaml_syntax(file));
    file->line = file->column = 1;
    struct fy_node *root = file->document ? ls_yaml_root(file) : NULL;
    if (!root)
        return ls_yaml_refuse(file, "the file is empty");
    return fy_node_is_mapping(root)
               ? LS_OK
               : ls_yaml_refuse(file, "this is not a mapping (`key: value` lines)");
}

/* Opens the parser, if the text may come to it. */
static ls_status open_parser(ls_yaml_file *file)
{
    const char *unsafe = find_unsafe(file);
    if (unsafe)
        return ls_yaml_refuse(file, "%s", unsafe);
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    file->diagnostics = fy_diag_create(&quiet);
    if (!file->diagnostics)
        return ls_fail_memory(file->what, 0);
    fy_diag_set_collect_errors(file->diagnostics, true);
    const struct fy_parse_cfg config = {
        .search_path = "", .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = file->diagnostics};
    file->parser = fy_parser_create(&config);
    if (!file->parser || fy_parser_set_string(file->parser, file->text, file->length) != 0)
        return ls_fail_memory(file->what, file->length);
    return LS_OK;
}

ls_status ls_yaml_begin(const char *what, const char *path, const char *valid, size_t most,
                        ls_yaml_file *out)
{
    *out = (ls_yaml_file){.what = what, .path = path, .valid = valid, .text = malloc(most + 2)};
    if (!out->text)
        return ls_fail_memory(what, most + 2);
    errno = 0;
    FILE *stream = fopen(path, "rb");
    out->length = stream ? fread(out->text, 1, most + 1, stream) : 0;
    const int error = !stream || ferror(stream) ? errno : 0;
    if (stream)
        fclose(stream);
    out->text[out->length] = 0;
    if (error)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "cannot be read: %s; name a file that can be read", strerror(error));
    if (out->length > most)
        return ls_fail(LS_CODE_USAGE, what, path,
                       "is larger than %zu KiB, the limit; use a smaller file", most >> 10);
    return open_parser(out);
}

ls_status ls_yaml_open(const char *what, const char *path, const char *valid, ls_yaml_file *out)
{
    LS_TRY(ls_yaml_begin(what, path, valid, LS_YAML_MOST, out));
    return make_document(out);
}

void ls_yaml_close(ls_yaml_file *file)
{
    if (file->document)
        fy_parse_document_destroy(file->parser, file->document);
    if (file->parser)
        fy_parser_destroy(file->parser);
    if (file->diagnostics)
        fy_diag_destroy(file->diagnostics);
    free(file->text);
    *file = (ls_yaml_file){0};
}
