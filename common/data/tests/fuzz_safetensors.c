/* SPDX-License-Identifier: MIT */
/* libFuzzer target of the safetensors reader: what was read must be consistent. */
#include "common/data/safetensors.h"
#include "common/data/tests/memory_file.h"

#include <stdbool.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_tensors(const ls_tensor_file *file, size_t size)
{
    size_t total = 0;
    for (size_t i = 0; i < ls_tensors_count(file); i++) {
        const ls_tensor *tensor = ls_tensors_at(file, i);
        size_t product = 1;
        for (int j = 0; j < tensor->rank; j++)
            product *= (size_t)tensor->shape[j];
        require(tensor->rank <= LS_TENSOR_RANK && product == tensor->count);
        require(ls_tensors_find(file, tensor->name) == tensor);
        volatile uint32_t sum = 0;
        for (size_t j = 0; j < tensor->count; j++) {
            uint32_t bits;
            memcpy(&bits, tensor->data + j, sizeof bits);
            sum ^= bits;
        }
        total += tensor->count;
    }
    require(total * sizeof(uint16_t) < size); /* bf16 is the narrowest */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_tensor_file *file;
    char path[32];
    const int memory = open_memory(data, size, path);
    ls_status status = ls_tensors_read(path, &file);
    close(memory);
    if (status) {
        require(ls_status_code(status) == LS_CODE_MISSING && strlen(ls_status_text(status)) > 0);
        ls_status_free(status);
        return 0;
    }
    check_tensors(file, size);
    ls_tensors_close(file);
    return 0;
}
