/* SPDX-License-Identifier: MIT */
/* Options of GPUs; see option_gpu.h. Whether a case has one is looked at when it is resolved. */
#include "bench/cli/option_gpu.h"

#include "bench/cli/option_values.h"

static const char *const convolutions[] = {
    [LS_CONVOLUTION_AUTO] = "auto",
    [LS_CONVOLUTION_CUDNN] = "cudnn",
    [LS_CONVOLUTION_OWN] = "own",
    NULL,
};

/* Of a word that only GPUs know, and `works`, which all do. */
static ls_status need_gpus(const ls_setting *setting, const char *word, const char *works)
{
    if (ls_kernel_table_default(LS_DEVICE_GPU))
        return LS_OK;
    return ls_setting_refuse(setting, LS_CODE_USAGE,
                             "%s concerns no case of this command; it concerns GPUs, which this "
                             "build has not: %s",
                             word, works);
}

ls_status ls_set_math(const ls_setting *setting)
{
    static const char *const words[] = {"float32", "tf32", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    if (word == 1)
        LS_TRY(need_gpus(setting, words[1], words[0]));
    setting->one->math = word ? LS_MATH_TF32 : LS_MATH_FLOAT32;
    return LS_OK;
}

ls_status ls_set_convolution(const ls_setting *setting)
{
    int word;
    LS_TRY(ls_setting_word(setting, convolutions, &word));
    if (word != LS_CONVOLUTION_AUTO)
        LS_TRY(need_gpus(setting, convolutions[word], convolutions[LS_CONVOLUTION_AUTO]));
    if (word == LS_CONVOLUTION_CUDNN && !LS_HAS_CUDNN)
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "cudnn is not in this build; auto or own");
    setting->one->convolution = (ls_convolution)word;
    return LS_OK;
}
