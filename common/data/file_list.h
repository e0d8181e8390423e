/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a key of a job file means: one path, a pattern (part-*.csv), or a list of both;
 * each may be in an object store ("s3://bucket/part-*.csv").
 *
 * Files come in the order of the list, those of a pattern sorted by the bytes of their paths, so
 * all nodes that see the same files read the same records in the same order. A pattern leaves out
 * names with a leading "." or "_", as Hadoop and Spark do (_SUCCESS), unless it has one itself. */
#ifndef GRADUS_DATA_FILE_LIST_H
#define GRADUS_DATA_FILE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "data/data_roots.h"

struct file_list {
    char **paths; /* [count] paths, and URLs with another scheme than file:// */
    bool *found;  /* [count] by a pattern: that such a file has no records is no error */
    size_t count;
};

/* Lists the files of @names (the value of the key @key, for messages) below @dir. An empty value
 * has none. *, ? and [ ] make a pattern, unless there is a file with that very name. Patterns look
 * into no directory outside of @roots (NULL: any); a file that is named is checked when it is
 * opened. Errors: ERR_NOT_FOUND no file matches a pattern; ERR_PERMISSION, ERR_UNAVAILABLE of a
 * store; ERR_INVALID a file is named twice, or the list cannot be read; ERR_PERMISSION a pattern
 * leads out of @roots. */
int file_list_make(const struct data_roots *roots, const char *dir, const char *names,
                   const char *key, struct file_list *out, struct err *err);
void file_list_release(struct file_list *list);

#endif
