/* SPDX-License-Identifier: MIT */
/*
 * Seed 11: device names. The five forms of TensorFlow are parsed: /cpu:0, /device:GPU:1, /gpu:1,
 * /job:worker/replica:0/task:1/device:GPU:0 and cpu:0. Other names are refused, with a list of the
 * forms.
 */
#include "impl/examples/example.h"

#include <string.h>

typedef struct form {
    const char *text, *device, *job;
    int replica, task;
} form;

static ls_status accept(const form *f)
{
    ls_device_name name;
    char text[32];
    LS_TRY(ls_device_name_parse(f->text, &name));
    printf("%-42s %s", f->text, ls_device_name_text(&name, text));
    if (*name.job)
        printf(", job %s, replica %d, task %d", name.job, name.replica, name.task);
    puts("");
    return example_expect(!strcmp(text, f->device) && !strcmp(name.job, f->job) &&
                              name.replica == f->replica && name.task == f->task,
                          f->text);
}

static ls_status refuse(const char *text)
{
    ls_device_name name;
    ls_status status = ls_device_name_parse(text, &name);
    const bool refused =
        ls_status_code(status) == LS_CODE_USAGE &&
        strstr(ls_status_text(status), "/job:worker/replica:0/task:1/device:GPU:0");
    printf("%s\n", ls_status_text(status));
    ls_status_free(status);
    return example_expect(refused, "a refusal that shows the forms");
}

static ls_status show(example *e)
{
    static const form forms[] = {
        {"/cpu:0", "cpu:0", "", -1, -1},
        {"/device:GPU:1", "gpu:1", "", -1, -1},
        {"/gpu:1", "gpu:1", "", -1, -1},
        {"/job:worker/replica:0/task:1/device:GPU:0", "gpu:0", "worker", 0, 1},
        {"cpu:0", "cpu:0", "", -1, -1},
    };
    static const char *const others[] = {"cpu",       "cpu:-1",        "tpu:0",        "//cpu:0",
                                         "/cpu:0/",   "cpu:0 ",        "/job:worker",  "/cpu:*",
                                         "/device:0", "/task:x/cpu:0", "/cpu:0/job:a", ""};
    (void)e;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        LS_TRY(accept(&forms[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        LS_TRY(refuse(others[i]));
    return LS_OK;
}

int main(void)
{
    return example_main(1, show);
}
