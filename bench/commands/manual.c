/* SPDX-License-Identifier: MIT */
/* Manual page and completion; see command.h: templates, filled from the table of options. */
#include "bench/commands/command.h"

#include "bench/cli/option_table.h"
#include "bench/report/template.h"
#include "build_info.h"
#include "template_completion_bash.h"
#include "template_completion_zsh.h"
#include "template_manual.h"

#include <string.h>

/* Appends a word to the text of a member, after `separator`. */
static void append(json_t *object, const char *member, const char *separator, const char *word,
                   size_t length)
{
    const char *before = json_string_value(json_object_get(object, member));
    json_object_set_new(
        object, member,
        json_sprintf("%s%s%.*s", before ? before : "", before ? separator : "", (int)length, word));
}

/* An option. Its `values`: the names that it accepts, its registry's, and the words in "N|all";
 * none for files, which shells complete themselves. */
static json_t *json_of(const ls_option *option, const ls_command *commands, size_t count)
{
    json_t *one =
        json_pack("{s:s,s:s,s:s,s:s,s:s}", "name", option->name, "placeholder", option->placeholder,
                  "help", option->help, "fallback", option->fallback, "unit", option->unit);
    const bool file = strncmp(option->placeholder, "FILE", 4) == 0;
    if (option->sweeps)
        json_object_set_new(one, "sweeps", json_true());
    for (size_t i = 0; i < count; i++)
        if (ls_option_is_of(option, commands[i].options))
            append(one, "owners", ", ", commands[i].name, strlen(commands[i].name));
    for (size_t i = 0; !file && option->registry && i < ls_registry_count(option->registry); i++) {
        const char *name = ls_registry_name(option->registry, i);
        append(one, "values", " ", name, strlen(name));
    }
    for (const char *word = file ? "" : option->placeholder; *word; word += *word == '|') {
        const size_t length = strcspn(word, "|");
        if (length && strspn(word, "abcdefghijklmnopqrstuvwxyz-0123456789") == length)
            append(one, "values", " ", word, length);
        word += length;
    }
    return one;
}

bool ls_manual_print(FILE *stream, const char *kind, const ls_command *commands, size_t count)
{
    static const struct {
        const char *kind, *text;
        ls_escape escape;
    } files[] = {{"--man", ls_template_manual, LS_ESCAPE_TROFF},
                 {"--bash", ls_template_completion_bash, LS_ESCAPE_LINE},
                 {"--zsh", ls_template_completion_zsh, LS_ESCAPE_ZSH}};
    size_t f = 0;
    const ls_option *table = ls_option_table();
    while (f < 3 && strcmp(kind, files[f].kind) != 0)
        f++;
    if (f == 3)
        return false;
    json_t *all = json_array(), *list = json_array();
    json_auto_t *values =
        json_pack("{s:s,s:o,s:o}", "version", LS_VERSION, "commands", list, "options", all);
    for (size_t i = 0; table[i].name; i++)
        json_array_append_new(all, json_of(&table[i], commands, count));
    for (size_t i = 0; i < count; i++) {
        json_t *own = json_array();
        for (size_t k = 0; table[k].name; k++)
            if (ls_option_is_of(&table[k], commands[i].options))
                json_array_append(own, json_array_get(all, k));
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:o}", "name", commands[i].name,
                                              "operands", commands[i].operands, "help",
                                              commands[i].help, "options", own));
    }
    ls_template_fill(stream, files[f].text, values, files[f].escape);
    return true;
}
