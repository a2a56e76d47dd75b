/* SPDX-License-Identifier: MIT */
/*
 * Plan files: values and lists, cases with defaults, exclusions and repeats, hostile files, and
 * every refusal with its file, line and column. The test writes the files into its own folder. No
 * tolerance.
 */
#include "bench/cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void write_plan(const char *text, size_t length)
{
    FILE *file = fopen("p.yaml", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Parses `run --plan p.yaml`, with one more argument if not NULL. */
static ls_status parse(const char *argument, ls_request **out)
{
    char plan[] = "--plan=p.yaml", run[] = "run", more[128];
    snprintf(more, sizeof more, "%s", argument ? argument : "");
    char *arguments[] = {run, plan, more};
    *out = NULL;
    return ls_request_parse(argument ? 3 : 2, arguments, NULL, stderr, out);
}

static void assert_refused_with(const char *argument, const char *text, const char *part)
{
    ls_request *request;
    ls_status status = parse(argument, &request);
    if (!status)
        fail_msg("accepted: %s", text);
    if (ls_status_code(status) != LS_CODE_USAGE || !strstr(ls_status_text(status), part))
        fail_msg("'%s' is not in: %s (plan: %s)", part, ls_status_text(status), text);
    if (!strchr(ls_status_text(status), ';'))
        fail_msg("nothing that would work in: %s", ls_status_text(status));
    ls_status_free(status);
}

static void assert_refused(const char *text, const char *part)
{
    write_plan(text, strlen(text));
    assert_refused_with(NULL, text, part);
}

static void test_values_and_lists(void **state)
{
    (void)state;
    static const char text[] = "# a comment\n"
                               "model: [mlp, poly]\n"
                               "batch:\n  - 32\n  - 64\n"
                               "seed: 1,2\n"
                               "optimizer:\n  - adam:beta1=0.9,beta2=0.99\n  - sgd\n"
                               "reduce: \"exact\"\n"
                               "micro-shards: 8\n"
                               "lr: 1.0e-3\n"
                               "label: some text, with a comma\n"
                               "quiet: yes\n";
    write_plan(text, sizeof text - 1);
    ls_request *request;
    ls_status status = parse("--steps=7", &request);
    if (status)
        fail_msg("%s", ls_status_text(status));
    assert_int_equal(request->case_count, 16);
    assert_string_equal(request->cases[0].optimizer, "adam:beta1=0.9,beta2=0.99");
    assert_string_equal(request->cases[15].model, "poly");
    assert_int_equal(request->cases[15].batch, 64);
    assert_int_equal(request->cases[15].steps, 7);
    assert_int_equal(request->cases[15].micro_shards, 8);
    assert_true(request->cases[15].learning_rate == 1e-3);
    assert_string_equal(request->cases[0].label, "some text, with a comma");
    assert_int_equal(request->log.level, LS_LOG_QUIET);
    assert_string_equal(request->command, "lockstep run --plan=p.yaml --steps=7");
    ls_request_free(request);
}

/* --steps of the command line replaces a plan's epochs, of which it is the other way to say it. */
static void test_steps_replace_epochs(void **state)
{
    (void)state;
    static const char *const plans[] = {"defaults: {epochs: 3}\ncases: [{seed: 2}]\n",
                                        "cases: [{epochs: 3}]\n", "epochs: 3\n"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        ls_request *request;
        write_plan(plans[i], strlen(plans[i]));
        assert_null(parse("--steps=7", &request));
        assert_int_equal(request->cases[0].steps, 7);
        assert_int_equal(request->cases[0].epochs, 0);
        ls_request_free(request);
    }
}

/* The command line replaces `defaults:` silently, and other keys with a note; not `exclude:`. What
 * it replaces is given once, too. */
static void test_the_command_line_replaces(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t cases, batch;
        const char *note; /* NULL: none */
    } plans[] = {
        {"defaults: {batch: [4, 5]}\ncases: [{seed: 2}]\n", 1, 3, NULL},
        {"model: mlp\nbatch: [4, 5]\n", 1, 3,
         "plan: p.yaml:2:1: --batch of the command line replaces this value"},
        {"cases: [{seed: 2, batch: 4}]\n", 1, 3,
         "plan: p.yaml:1:19: --batch of the command line replaces this value"},
        {"defaults: {epochs: 2}\ncases: [{seed: 2, batch: 4}]\n", 1, 3,
         "plan: p.yaml:2:19: --batch of the command line replaces this value"},
        {"cases: [{seed: 2, batch: 4}, {seed: 4, batch: 4}, {seed: 5, batch: 5}]\n", 3, 3,
         "plan: p.yaml:1:19: --batch of the command line replaces this value and 2 more values of "
         "this plan\n"},
        {"cases: [{seed: [2, 4]}]\nexclude: [{batch: 3, seed: 4}]\n", 1, 3, NULL},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        ls_request *request;
        write_plan(plans[i].text, strlen(plans[i].text));
        ls_status status = parse("--batch=3", &request);
        if (status)
            fail_msg("%s", ls_status_text(status));
        assert_int_equal(request->case_count, plans[i].cases);
        assert_int_equal(request->cases[0].batch, plans[i].batch);
        if (plans[i].note ? !strstr(request->notes, plans[i].note)
                          : strstr(request->notes, "replaces") != NULL)
            fail_msg("the notes of %s are: %s", plans[i].text, request->notes);
        assert_ptr_equal(strchr(request->notes, '\n'), strrchr(request->notes, '\n'));
        ls_request_free(request);
    }
    static const char *const twice[] = {"batch: 4\nbatch: 5\n", "cases: [{batch: 4, batch: 5}]\n",
                                        "defaults: {batch: 4, batch: 5}\ncases: [{seed: 2}]\n"};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        write_plan(twice[i], strlen(twice[i]));
        assert_refused_with("--batch=3", twice[i], "batch: is given twice");
    }
}

static void test_unknown_and_repeated_keys(void **state)
{
    (void)state;
    assert_refused("model: mlp\nbatsh: 3\n",
                   "plan: p.yaml:2:1: 'batsh' is not a valid key; did you mean "
                   "batch?");
    assert_refused("batch: 3\nmodel: mlp\nbatch: 4\n", "p.yaml:3:1: batch: is given twice");
    assert_refused("sizes: 3\n", "p.yaml:1:1: sizes: is not an option of lockstep run");
    assert_refused("--batch: 3\n", "p.yaml:1:1: '--batch' is not a valid key");
    assert_refused("plan: other.yaml\n", "p.yaml:1:1");
    assert_refused("steps: 3\nepochs: 2\n", "p.yaml:1:8: steps: cannot be used with --epochs");
}

static void test_bad_values(void **state)
{
    (void)state;
    assert_refused("model: mlp\nbatch: -3\n", "p.yaml:2:8: batch: '-3' is not valid");
    assert_refused("batch: [32, nan]\n", "p.yaml:1:13: batch: 'nan' is not valid");
    assert_refused("batch:\n", "batch: the value is empty");
    assert_refused("batch: []\n", "p.yaml:1:");
    assert_refused("batch: [1, [2]]\n", "p.yaml:1:12");
    assert_refused("batch: {a: 1}\n", "p.yaml:1:8");
    assert_refused("load: [a, b]\n", "p.yaml:1:7");
    assert_refused("baseline: true\n", "p.yaml:1:11: baseline: 'true' is not valid");
    assert_refused("ps-mode: async\n", "p.yaml:1:10: ps-mode: applies to no case");
    assert_refused("micro-shards: 4\n", "p.yaml:1:15: micro-shards: applies to no case");
    assert_refused("batch: &a 3\n", "p.yaml:1:");
    assert_refused("batch: !!int 3\n", "p.yaml:1:");
    assert_refused("batch: *a\n", "p.yaml:1:");
}

static void test_bad_files(void **state)
{
    (void)state;
    assert_refused("", "p.yaml");
    assert_refused("- a\n- b\n", "p.yaml:1:1");
    assert_refused("just text\n", "p.yaml:1:1");
    assert_refused("model: mlp\nbatch: [1, 2\n", "p.yaml:");
    assert_refused("model: \"mlp\n", "p.yaml:1:9: this is not valid YAML");
    assert_refused("model: mlp\n---\nbatch: 3\n", "p.yaml:2:");
    assert_refused("model: mlp\n\tbatch: 3\n", "p.yaml:");
    assert_refused("? [a]\n: b\n", "p.yaml:1:1: this key begins with ?");
    assert_refused("steps: 3\n%\xed: \xed\xf1", "p.yaml:2:1: this line begins with %");
    assert_refused("? add :\t? : \x01? ? :\x01:", "p.yaml:1:1: this key begins with ?");
    write_plan("model: \"a\\0b\"\n", 14);
    assert_refused_with(NULL, "zero byte", "p.yaml:1:9: there is a zero byte");
    write_plan("model: a\0b\n", 11);
    assert_refused_with(NULL, "raw zero byte", "p.yaml");
    char *large = malloc((1 << 20) + 2);
    assert_non_null(large);
    memset(large, '#', (1 << 20) + 2);
    write_plan(large, (1 << 20) + 2);
    free(large);
    assert_refused_with(NULL, "large", "larger than 1024 KiB");
}

/* The parser takes a byte that is not UTF-8 for the end of the file. */
static void test_not_utf8(void **state)
{
    (void)state;
    static const char *const bytes[] = {
        "\xb5",    "\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80",
        "\xfe\xff"};
    static const struct {
        const char *before, *after, *at;
    } places[] = {
        {"# caf", "\ncases:\n- {seed: 1}\n", "1:6:"},
        {"cases:\n- {seed: 1}\n- {seed: 2} # ", "s\n- {seed: 3}\n", "3:15:"},
        {"cases:\n- {seed: 1, label: ", "}\n- {seed: 2}\n", "2:20:"},
        {"cases:\n- {seed: 1, label: '", "'}\n", "2:21:"},
        {"seed: 1\r\nlabel: ", "\r\n", "2:8:"},
        {"seed: 1\rlabel: ", "\r", "2:8:"},
        {"\xef\xbb\xbfseed: 1 # \xc2\xb5\xe2\x82\xac", "", "1:13:"},
        {"", "seed: 1\n", "1:1:"},
        {"seed: 1\n", "", "2:1:"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
            char text[80], part[80];
            snprintf(text, sizeof text, "%s%s%s", places[i].before, bytes[k], places[i].after);
            snprintf(part, sizeof part, "plan: p.yaml:%s there is a byte here that is not UTF-8",
                     places[i].at);
            assert_refused(text, part);
        }
}

/* A syntax error is at its own line. */
static void test_position_of_syntax(void **state)
{
    (void)state;
    assert_refused("cases:\n- {seed: 1}\n- {seed: 1: 2}\n- {seed: 3}\n", "plan: p.yaml:3:11: ");
    assert_refused("seed: 1\rlabel: [}\r", "plan: p.yaml:2:9: ");
    assert_refused("\"seed\": 1\nlabel: \"\xc2\xb5\" x\n", "plan: p.yaml:2:12: ");
}

static void test_missing_file(void **state)
{
    (void)state;
    ls_request *request;
    unlink("p.yaml");
    ls_status status = parse(NULL, &request);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "plan: p.yaml: cannot be read: No such file"));
    ls_status_free(status);
    assert_int_equal(mkdir("p.yaml", 0700), 0);
    status = parse(NULL, &request);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    ls_status_free(status);
    assert_int_equal(rmdir("p.yaml"), 0);
}

/* ---- cases, defaults, exclude, repeat, budget ------------------------------------------------ */

static ls_request *accept_plan(const char *text)
{
    ls_request *request;
    write_plan(text, strlen(text));
    ls_status status = parse(NULL, &request);
    if (status)
        fail_msg("%s: %s", text, ls_status_text(status));
    return request;
}

/* A mapping's own options override the defaults; steps replace epochs. */
static void test_cases_and_defaults(void **state)
{
    (void)state;
    ls_request *request = accept_plan("defaults: {model: poly, epochs: 2, label: text}\n"
                                      "cases:\n"
                                      "  - {batch: [8, 16], seed: [1, 2]}\n"
                                      "  - {model: mlp, steps: 7}\n");
    assert_int_equal(request->case_count, 5);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(request->cases[i].model, "poly");
        assert_int_equal(request->cases[i].batch, i / 2 ? 16 : 8);
        assert_int_equal(request->cases[i].seed, i % 2 + 1);
        assert_int_equal(request->cases[i].epochs, 2);
        assert_int_equal(request->cases[i].steps, -1);
    }
    assert_string_equal(request->cases[4].model, "mlp");
    assert_int_equal(request->cases[4].steps, 7);
    assert_int_equal(request->cases[4].epochs, 0);
    assert_string_equal(request->cases[0].label, "text");
    ls_request_free(request);
    request = accept_plan("cases: [{}]\n");
    assert_int_equal(request->case_count, 1);
    ls_request_free(request);
}

/* Excludes cases that match all options of a mapping, each in any of its values. */
static void test_exclude(void **state)
{
    (void)state;
    ls_request *request = accept_plan("batch: [8, 16, 32]\nseed: [1, 2]\n"
                                      "exclude:\n  - {batch: [8, 16], seed: 2}\n"
                                      "  - {batch: 32}\n");
    assert_int_equal(request->case_count, 2);
    assert_int_equal(request->cases[0].batch, 8);
    assert_int_equal(request->cases[0].seed, 1);
    assert_int_equal(request->cases[1].batch, 16);
    assert_int_equal(request->cases[1].seed, 1);
    ls_request_free(request);
    assert_refused("batch: 8\nexclude: [{batch: 8}]\n", "p.yaml:2:11: no case is left");
    assert_refused("batch: 8\nexclude: [{batch: x}]\n", "p.yaml:2:19: batch: 'x' is not valid");
}

static void test_repeat_and_budget(void **state)
{
    (void)state;
    ls_request *request = accept_plan("seed: [1, 2]\nrepeat: 3\nbudget: 2min\n");
    assert_int_equal(request->case_count, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(request->cases[i].seed, i % 2 + 1);
    assert_true(request->budget_ns == 120000000000u);
    assert_false(request->steps_given);
    ls_request_free(request);
    assert_refused("repeat: 0\n", "p.yaml:1:9: repeat: '0' is not valid");
    assert_refused("repeat: [1]\n", "p.yaml:1:9");
    assert_refused("budget: soon\n", "p.yaml:1:9: budget: 'soon' is not valid");
    assert_refused("budget: 1min\nepochs: 2\n",
                   "p.yaml:1:9: `budget:` chooses the number of timed steps");
    assert_refused("repeat: 2\nrepeat: 3\n", "p.yaml:2:1: `repeat:` is given twice");
    assert_refused("save: f\nrepeat: 2\n",
                   "save: this command has several cases, which cannot all be saved");
}

static void test_refused_parts(void **state)
{
    (void)state;
    assert_refused("cases: {batch: 3}\n", "p.yaml:1:8: this must be a list");
    assert_refused("cases: []\n", "p.yaml:1:");
    assert_refused("cases: [3]\n", "p.yaml:1:9: this must be a mapping");
    assert_refused("cases: [{batch: 3, batch: 4}]\n", "p.yaml:1:20: batch: is given twice");
    assert_refused("cases: [{batsh: 3}]\n", "p.yaml:1:10: 'batsh' is not a valid key");
    assert_refused("cases: [{quiet: yes}]\n", "p.yaml:1:10: quiet: applies to the whole command");
    assert_refused("cases: [{steps: 3, epochs: 4}]\n", "p.yaml:1:17: steps: cannot be used with");
    assert_refused("batch: 3\ncases: [{seed: 2}]\n",
                   "p.yaml:1:1: this option is neither in `cases:`");
    assert_refused("defaults: [1]\n", "p.yaml:1:11: this must be a mapping");
    assert_refused("defaults: {dry-run: yes}\n", "p.yaml:1:12");
    assert_refused("cases: [{ps-mode: async}]\n", "ps-mode: applies to no case");
    assert_refused("defaults: {ps-mode: async}\ncases: [{seed: 2}]\n",
                   "ps-mode: applies to no case");
}

/* Writes the same few bytes many times. */
static void write_repeated(const char *before, const char *what, size_t times, const char *after)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    fputs(before, stream);
    for (size_t i = 0; i < times; i++)
        fputs(what, stream);
    fputs(after, stream);
    assert_int_equal(fclose(stream), 0);
    write_plan(text, size);
    free(text);
}

static void test_hostile(void **state)
{
    (void)state;
    write_repeated("batch: ", "[", 100000, "");
    assert_refused_with(NULL, "deep lists", "p.yaml:1:9");
    write_repeated("cases: [{batch: ", "{a: ", 100000, "");
    assert_refused_with(NULL, "deep mappings", "p.yaml:1:17");
    write_repeated("", "- ", 100000, "");
    assert_refused_with(NULL, "deep sequences", "p.yaml:1:1");
    write_repeated("cases:\n", "- {}\n", 200000, "");
    assert_refused_with(NULL, "many mappings",
                        "p.yaml:4098:3: this list has more than 4096 mappings");
    assert_refused("seed: 1,2,3,4,5,6,7,8,9,10\nbatch: 1,2,3,4,5,6,7,8,9,10\n"
                   "steps: 1,2,3,4,5,6,7,8,9,10\nwarmup: 1,2,3,4,5,6,7,8,9,10\n"
                   "lr: 1,2,3,4,5,6,7,8,9,10\nmicro-shards: 1,2,3,4,5,6,7,8,9,10\nreduce: exact\n",
                   "(1000000)");
    write_repeated("seed: [0", ",1", 400000, "]\n");
    assert_refused_with(
        NULL, "a long list",
        "p.yaml:1:8: seed: this list and the other lists together make more than 4096 cases");
    assert_refused("seed: [1, 2]\nrepeat: 4000\n", "p.yaml:2:9: `repeat:` makes 2 cases into 8000");
    assert_refused("cases: &a [{seed: 1}]\n", "p.yaml:1:");
    assert_refused("cases: [&a {seed: 1}, *a]\n", "p.yaml:1:");
    assert_refused("cases: [{seed: 1}, *a]\n", "p.yaml:1:21: a YAML alias");
    assert_refused("defaults: {<<: *a}\n", "p.yaml:1:");
}

int main(void)
{
    char folder[] = "test_experiment.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return EXIT_FAILURE;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_lists),
        cmocka_unit_test(test_the_command_line_replaces),
        cmocka_unit_test(test_steps_replace_epochs),
        cmocka_unit_test(test_unknown_and_repeated_keys),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_not_utf8),
        cmocka_unit_test(test_position_of_syntax),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_cases_and_defaults),
        cmocka_unit_test(test_exclude),
        cmocka_unit_test(test_repeat_and_budget),
        cmocka_unit_test(test_refused_parts),
        cmocka_unit_test(test_hostile),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink("p.yaml");
    if (chdir("..") != 0 || rmdir(folder) != 0)
        return EXIT_FAILURE;
    return failed;
}
