/* All that is wrong with an input, not just the first thing. */
#ifndef GRADUS_CONFIG_DIAG_H
#define GRADUS_CONFIG_DIAG_H

#include <stddef.h>

#include "base/buf.h"

struct diag {
    char *file;
    unsigned line, column; /* 1-based; 0: the whole file */
    char *message;         /* "what is wrong; what is allowed" */
};
struct diags {
    struct diag *items;
    size_t count, capacity;
};
void diags_add(struct diags *d, const char *file, unsigned line, unsigned column, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* "file:line:column: message\n" for each, in the order of lines. */
void diags_format(const struct diags *d, struct buf *out);
void diags_release(struct diags *d);

#endif
