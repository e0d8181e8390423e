/* SPDX-License-Identifier: Apache-2.0 */
/* All that is wrong with an input, not just the first thing.
 *
 * Entries are kept ordered: files as they first appear, then lines and columns. A zeroed struct is
 * an empty list. Limit: after DIAGS_MAX entries one more says that the rest is not listed. */
#ifndef GRADUS_CONFIG_DIAG_H
#define GRADUS_CONFIG_DIAG_H

#include <stddef.h>

#include "base/buf.h"

#define DIAGS_MAX 500 /* nobody reads more, and garbage input must not cost memory */

struct diag {
    char *file;
    unsigned line, column; /* 1-based; 0: the whole file */
    char *message;         /* "what is wrong; what is allowed"; diag_key() */
};
struct diags {
    struct diag *items;
    size_t count, capacity;
};
void diags_add(struct diags *d, const char *file, unsigned line, unsigned column, const char *fmt,
               ...) __attribute__((format(printf, 5, 6)));
void diags_append(struct diags *d, const struct diags *from);
/* "file:line:column: message\n" for each; "file: message\n" without a line. */
void diags_format(const struct diags *d, struct buf *out);
/* The key that @message is about into @out, "" when it names none. A message names it in one of
 * these ways: "training.mode: …", "data.train.file is missing…", "unknown key 'x' in data.train…",
 * "the section 'model' is missing…". */
void diag_key(const char *message, struct buf *out);
void diags_release(struct diags *d);

#endif
