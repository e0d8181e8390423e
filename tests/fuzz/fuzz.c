/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs cut into pieces, files in memory, and what must hold. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->data++;
}

uint8_t fuzz_below(struct fuzz_input *in, unsigned bound)
{
    return (uint8_t)(fuzz_byte(in) % bound);
}

uint64_t fuzz_u64(struct fuzz_input *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)fuzz_byte(in) << (8 * i);
    }
    return value;
}

/* The first @n bytes, or those before a NUL. */
static char *text_of(const uint8_t *data, size_t n)
{
    char *text = mem_new(n + 1, 1);
    if (n > 0) {
        memcpy(text, data, n);
    }
    return text;
}

char *fuzz_text(struct fuzz_input *in, char mark)
{
    const uint8_t *end = in->n == 0 ? NULL : memchr(in->data, mark, in->n);
    size_t n = end == NULL ? in->n : (size_t)(end - in->data);
    char *text = text_of(in->data, n);
    size_t taken = end == NULL ? n : n + 1;
    in->data += taken;
    in->n -= taken;
    return text;
}

char *fuzz_rest(struct fuzz_input *in)
{
    char *text = text_of(in->data, in->n);
    in->data += in->n;
    in->n = 0;
    return text;
}

static void stop(const char *what, const char *why)
{
    (void)fprintf(stderr, "fuzz: %s%s\n", what, why);
    abort();
}

const char *fuzz_file(unsigned slot, const void *data, size_t n)
{
    static struct {
        int fd;
        char path[64];
    } files[FUZZ_FILES];
    fuzz_require(slot < FUZZ_FILES, "a file that there is");
    if (files[slot].path[0] == '\0') {
        files[slot].fd = memfd_create("fuzz", MFD_CLOEXEC);
        (void)snprintf(files[slot].path, sizeof files[slot].path, "/proc/self/fd/%d",
                       files[slot].fd);
    }
    int fd = files[slot].fd;
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) {
        stop("write a file in memory", "");
    }
    return files[slot].path;
}

void fuzz_require(bool holds, const char *what)
{
    if (!holds) {
        stop("this must hold: ", what);
    }
}

void fuzz_require_error(int rc, const struct err *err)
{
    if (rc != 0) {
        fuzz_require(rc < 0 && err->code == rc, "a failure has its code in the error");
        fuzz_require(err->msg[0] != '\0', "a failure says what is wrong");
    }
}
