/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files as sources: those of PyTorch's users, and those of `gradus export`. */
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "tensor/half.h"
#include "warm/warm_kinds.h"

#define PART_ELEMENTS ((size_t)1 << 18)

static bool is_float(enum safetensors_dtype type)
{
    return type == SAFETENSORS_F32 || type == SAFETENSORS_F64 || type == SAFETENSORS_F16 ||
           type == SAFETENSORS_BF16;
}

static int open_file(struct warm_source *s, const struct from_spec *from,
                     const struct data_roots *roots, struct err *err)
{
    (void)from;
    char *place = warm_source_locate(s->path, roots, err);
    if (place == NULL) {
        return err->code;
    }
    struct safetensors *f = mem_new(1, sizeof *f);
    int rc = safetensors_open(f, place, err);
    free(place);
    if (rc != 0) {
        free(f);
        return rc;
    }
    s->state = f;
    s->count = f->count;
    s->tensors = mem_new(s->count + 1, sizeof *s->tensors);
    for (size_t i = 0; i < s->count; i++) {
        const struct safetensors_tensor *t = &f->tensors[i];
        s->tensors[i] = (struct warm_tensor){
            .name = t->name,
            .type = safetensors_dtype_name(t->dtype),
            .shape = warm_shape(t->dims, t->rank),
            .readable = is_float(t->dtype) && t->dtype != SAFETENSORS_F64,
            .aside = !is_float(t->dtype), /* counters: num_batches_tracked */
        };
    }
    return 0;
}

static void close_file(struct warm_source *s)
{
    safetensors_close(s->state);
    free(s->state);
}

static int read_tensor(const struct warm_source *s, size_t tensor, float *out, struct err *err)
{
    const struct safetensors *f = s->state;
    const struct safetensors_tensor *t = &f->tensors[tensor];
    const size_t each = safetensors_dtype_bytes(t->dtype);
    const uint64_t count = t->bytes / each;
    const enum value_type half = t->dtype == SAFETENSORS_F16 ? VALUE_FP16 : VALUE_BF16;
    void *part = each == sizeof(float) ? NULL : mem_new(PART_ELEMENTS, each);
    int rc = 0;
    for (uint64_t at = 0; at < count && rc == 0; at += PART_ELEMENTS) {
        const size_t n = count - at < PART_ELEMENTS ? (size_t)(count - at) : PART_ELEMENTS;
        void *to = part == NULL ? (void *)(out + at) : part;
        rc = safetensors_read(f, t, at * each, to, n * each, err);
        if (rc == 0 && part != NULL) {
            values_decode(half, part, n, out + at);
        }
    }
    free(part);
    return rc;
}

const struct warm_source_kind warm_safetensors = {"safetensors", open_file, close_file,
                                                  read_tensor};
