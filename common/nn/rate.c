/* SPDX-License-Identifier: MIT */
/* The table of schedules of the learning rate; see rate.h. */
#include "common/nn/rate.h"

static const ls_rate_rule constant = {
    .name = "constant",
    .help = "--lr in every step",
    .kind = LS_RATE_CONSTANT,
};
static const ls_rate_rule linear = {
    .name = "linear",
    .help = "in a line from --lr to --min-lr",
    .kind = LS_RATE_LINEAR,
};
static const ls_rate_rule cosine = {
    .name = "cosine",
    .help = "in half a turn of a cosine from --lr to --min-lr",
    .kind = LS_RATE_COSINE,
};
static const ls_rate_rule wsd = {
    .name = "wsd",
    .help = "warm-up, stable, decay: --lr, then in a line to --min-lr (--lr-wsd-decay-steps)",
    .kind = LS_RATE_WSD,
};
static const void *const rules[] = {&constant, &linear, &cosine, &wsd, NULL};
const ls_registry ls_rate_rules = {"learning-rate schedule", rules};
