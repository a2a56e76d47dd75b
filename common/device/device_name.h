/* SPDX-License-Identifier: MIT */
/*
 * Device names, as TensorFlow writes them and shorter: "/cpu:0", "cpu:0", "/gpu:1",
 * "/device:GPU:1", "/job:worker/replica:0/task:1/device:GPU:0"; and "gpu:0/1" for the second
 * logical device of GPU 0. Kinds are not case-sensitive.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

/** What a device is made of. */
typedef enum ls_device_kind { LS_DEVICE_CPU, LS_DEVICE_GPU } ls_device_kind;

/** A name, taken apart. */
typedef struct ls_device_name {
    ls_device_kind kind; /**< CPU or GPU */
    int index;           /**< from 0 */
    int logical;         /**< part of a split GPU, from 0; -1 means the whole device */
    char job[32];        /**< "" if there is none */
    int replica;         /**< -1 if there is none */
    int task;            /**< -1 if there is none */
} ls_device_name;

/** LS_CODE_USAGE, which lists the valid forms, if `text` is invalid. */
ls_status ls_device_name_parse(const char *text, ls_device_name *out);

/** "cpu:0", "gpu:0/1": kind, index and logical part only. `text` holds 32 bytes; returns it. */
char *ls_device_name_text(const ls_device_name *name, char text[32]);

/** Counts the devices, all parts of one GPU as one. */
int ls_device_name_wholes(const ls_device_name *names, int count);

/** Whether they share hardware: same kind and index, and the same part or one the whole device. */
bool ls_device_name_overlaps(const ls_device_name *a, const ls_device_name *b);
