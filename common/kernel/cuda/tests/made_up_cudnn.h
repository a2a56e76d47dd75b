/* SPDX-License-Identifier: MIT */
/* A made-up libcudnn.so.9, for tests: see made_up_cudnn.c. */
#pragma once

#include <stddef.h>

/** What a test tells the library, and what it tells the test; its symbol `made_up_cudnn`. */
typedef struct made_up_control {
    size_t version;   /**< what it says it is */
    const char *fail; /**< the function that fails; NULL: none */
    int failure;      /**< its status */
    int calls;        /**< convolutions that were computed */
    int only_counted; /**< no, they were not: only checked */
    void *stream;     /**< of the last of them */
    int spoil;        /**< 1: wrong by 100; 2: a little, and not alike */
    int open;         /**< handles and descriptors that are not destroyed */
} made_up_control;
