/* SPDX-License-Identifier: MIT */
/*
 * llm.c's CPU program (train_gpt2.c, which the user fetched) as a library for peer_llmc.py, which
 * compiles this file with that folder on the include path. Left out: its data files and its text.
 */
#define TESTING /* without its main */
#include "train_gpt2.c"

/* The model of a checkpoint file in llm.c's form. */
GPT2 *llmc_open(const char *path)
{
    GPT2 *model = mallocCheck(sizeof *model);
    gpt2_build_from_checkpoint(model, path);
    return model;
}

void llmc_close(GPT2 *model)
{
    gpt2_free(model);
    free(model);
}

/* Trains step `t`, counted from 1, as its main does; returns the loss. x, y: [B,T]. The program
 * decays all variables; here only those of two axes, and before the update, which is the same. */
float llmc_step(GPT2 *model, int *x, int *y, size_t B, size_t T, int t, float rate, float beta1,
                float beta2, float eps, float decay)
{
    static const int of_two_axes[NUM_PARAMETER_TENSORS] = {
        [0] = 1, [1] = 1, [4] = 1, [6] = 1, [10] = 1, [12] = 1};
    gpt2_forward(model, x, y, B, T);
    gpt2_zero_grad(model);
    gpt2_backward(model);
    float *weight = model->params_memory;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        for (size_t end = model->param_sizes[i]; end; end--, weight++)
            if (of_two_axes[i])
                *weight *= 1 - rate * decay;
    gpt2_update(model, rate, beta1, beta2, eps, 0, t);
    return model->mean_loss;
}
