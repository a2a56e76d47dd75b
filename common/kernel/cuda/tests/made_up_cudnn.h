/* SPDX-License-Identifier: MIT */
/* A made-up libcudnn.so.9, for tests: see made_up_cudnn.c. */
#pragma once

#include <stddef.h>

/** Settings of a test for the library, and the library's counts; its symbol `made_up_cudnn`. */
typedef struct made_up_control {
    size_t version;   /**< the version that it reports */
    const char *fail; /**< the function that fails; NULL: none */
    int failure;      /**< its status */
    int calls;        /**< convolutions that were computed */
    int only_counted; /**< no, they were not: only checked */
    void *stream;     /**< of the last of them */
    int spoil;        /**< 1: wrong by 100; 2: slightly, and differently each time */
    int open;         /**< handles and descriptors that are not destroyed */
} made_up_control;
