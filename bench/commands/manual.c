/* SPDX-License-Identifier: MIT */
/* Manual page and completion; see command.h. */
#include "bench/commands/command.h"

#include "bench/cli/option_table.h"
#include "bench/report/text.h"
#include "build_info.h"

#include <string.h>

/* Writes text escaped for troff. */
static void put_troff(FILE *stream, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '-')
            fputs("\\-", stream);
        else if (*c == '\\')
            fputs("\\e", stream);
        else
            fprintf(stream, (*c == '.' || *c == '\'') && c == text ? "\\&%c" : "%c", *c);
    }
}

/* Writes the commands' names: "run, verify". */
static void put_owners(FILE *stream, const ls_option *option, const ls_command *commands,
                       size_t count)
{
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        if (!ls_option_is_of(option, commands[i].options))
            continue;
        fprintf(stream, "%s%s", before, commands[i].name);
        before = ", ";
    }
}

static void print_man(FILE *stream, const ls_command *commands, size_t count)
{
    size_t options;
    const ls_option *table = ls_option_table(&options);
    fprintf(stream,
            ".TH LOCKSTEP 1 \"\" \"lockstep %s\" \"User Commands\"\n.SH NAME\nlockstep \\- one "
            "training loop, every parallelism strategy, proven equal, then measured\n.SH SYNOPSIS\n"
            ".B lockstep\n.I COMMAND\n[\\fB\\-\\-\\fIOPTION VALUE\\fR]...\n.SH COMMANDS\n",
            LS_VERSION);
    for (size_t i = 0; i < count; i++) {
        fprintf(stream, ".TP\n.B %s", commands[i].name);
        put_troff(stream, commands[i].operands);
        fputc('\n', stream);
        put_troff(stream, commands[i].help);
        fputc('\n', stream);
    }
    fputs(".SH OPTIONS\nA list of values, separated by commas, makes one case per value.\n"
          "In a list, a comma that is part of a value is written \\e, and a backslash \\e\\e.\n",
          stream);
    for (size_t i = 0; i < options; i++) {
        fputs(".TP\n\\fB\\-\\-", stream);
        put_troff(stream, table[i].name);
        fputs("\\fR ", stream);
        put_troff(stream, table[i].placeholder);
        fputc('\n', stream);
        put_troff(stream, table[i].help);
        fputs(".\nDefault: ", stream);
        put_troff(stream, table[i].fallback);
        if (*table[i].unit) {
            fputs("; unit: ", stream);
            put_troff(stream, table[i].unit);
        }
        fputs(". Of: ", stream);
        put_owners(stream, &table[i], commands, count);
        fputs(".\n", stream);
    }
    fputs(".SH EXIT STATUS\n0 all well; 1 a check failed; 2 wrong usage; 3 something is missing or "
          "broken here; 4 \\fBregress\\fR cannot tell; 130 interrupted; "
          "141 no one reads standard output (rows go on to be kept).\n.SH FILES\n.TP\n"
          "results/lockstep.db\nthe results database, under the working directory\n",
          stream);
}

enum { VALUES = 1024 };

/* The names that an option accepts as values: its registry's, and the words in "N|all". None for
 * files, which shells complete themselves. */
static const char *values_of(const ls_option *option, char text[VALUES])
{
    *text = 0;
    if (strncmp(option->placeholder, "FILE", 4) == 0)
        return text;
    for (size_t i = 0; option->registry && i < ls_registry_count(option->registry); i++) {
        const char *name = ls_registry_name(option->registry, i);
        ls_text_add(text, VALUES, "%s%s", *text ? " " : "", name);
    }
    for (const char *word = option->placeholder; *word; word += *word == '|') {
        const size_t length = strcspn(word, "|");
        if (length && strspn(word, "abcdefghijklmnopqrstuvwxyz-0123456789") == length)
            ls_text_add(text, VALUES, "%s%.*s", *text ? " " : "", (int)length, word);
        word += length;
    }
    return text;
}

/* Completes a value after "--name", with or without "="; in a list of values, the last. */
static void print_bash(FILE *stream, const ls_command *commands, size_t count)
{
    size_t options;
    const ls_option *table = ls_option_table(&options);
    char values[VALUES];
    fputs("# bash completion for lockstep\n_lockstep() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) names= before=\n"
          "    if [ \"$word\" = = ]; then word=; elif [ \"${COMP_WORDS[at]}\" = = ]; then at=$((at "
          "- 1)); "
          "fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        names='",
          stream);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%s ", commands[i].name);
    fputs("help'\n    elif [[ $word == -* ]]; then\n        case ${COMP_WORDS[1]} in\n", stream);
    for (size_t i = 0; i < count; i++) {
        fprintf(stream, "        %s) names='--help", commands[i].name);
        for (size_t k = 0; k < options; k++)
            if (ls_option_is_of(&table[k], commands[i].options))
                fprintf(stream, " --%s", table[k].name);
        fputs("' ;;\n", stream);
    }
    fputs("        esac\n    else\n        case ${COMP_WORDS[at]} in\n", stream);
    for (size_t k = 0; k < options; k++)
        if (*values_of(&table[k], values))
            fprintf(stream, "        --%s) names='%s' ;;\n", table[k].name, values);
    fputs(
        "        esac\n        [[ $names && $word == *,* ]] && before=${word%,*}, "
        "word=${word##*,}\n"
        "    fi\n    mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$names\" -- \"$word\")\n"
        "}\ncomplete -o default -F _lockstep lockstep\n",
        stream);
}

/* Writes text inside single quotes and the brackets of _arguments. */
static void put_zsh(FILE *stream, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", stream);
        else
            fprintf(stream, strchr("[]:\\", *c) ? "\\%c" : "%c", *c);
    }
}

static void print_zsh(FILE *stream, const ls_command *commands, size_t count)
{
    size_t options;
    const ls_option *table = ls_option_table(&options);
    char values[VALUES];
    fputs("#compdef lockstep\nlocal -a commands\ncommands=(\n", stream);
    for (size_t i = 0; i < count; i++) {
        fprintf(stream, "  '%s:", commands[i].name);
        put_zsh(stream, commands[i].help);
        fputs("'\n", stream);
    }
    fputs(")\nif (( CURRENT == 2 )); then\n  _describe command commands\n  return\nfi\n"
          "case $words[2] in\n",
          stream);
    for (size_t i = 0; i < count; i++) {
        fprintf(stream, "%s) _arguments", commands[i].name);
        for (size_t k = 0; k < options; k++) {
            if (!ls_option_is_of(&table[k], commands[i].options))
                continue;
            fprintf(stream, " \\\n  '--%s[", table[k].name);
            put_zsh(stream, table[k].help);
            fputs("]:", stream);
            put_zsh(stream, table[k].placeholder);
            if (*values_of(&table[k], values))
                fprintf(stream, table[k].sweeps ? ":_sequence compadd - %s'" : ":(%s)'", values);
            else
                fputs(":_files'", stream);
        }
        fputs(" \\\n  '*:file:_files' ;;\n", stream);
    }
    fputs("esac\n", stream);
}

bool ls_manual_print(FILE *stream, const char *kind, const ls_command *commands, size_t count)
{
    if (strcmp(kind, "--man") == 0)
        print_man(stream, commands, count);
    else if (strcmp(kind, "--bash") == 0)
        print_bash(stream, commands, count);
    else if (strcmp(kind, "--zsh") == 0)
        print_zsh(stream, commands, count);
    else
        return false;
    return true;
}
