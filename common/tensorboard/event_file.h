/* SPDX-License-Identifier: Apache-2.0 */
/* The event file of one directory, which several processes may write in turn. */
#ifndef GRADUS_TENSORBOARD_EVENT_FILE_H
#define GRADUS_TENSORBOARD_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* What is to become of a file: so many bytes stay, and @more is appended to them. */
struct event_change {
    size_t keep;
    struct buf more;
};
/* Looks at the bytes of a file. False: it is none of ours. */
typedef bool event_file_look(const void *ctx, const struct buf *file, struct event_change *change);

/* Makes @dir and changes its event file, which has the number @number in its name, as @look says;
 * a file that is none of ours stays, and the next name is taken. The file is held against other
 * processes meanwhile.
 *
 * Errors: those of files, with their paths; ERR_UNAVAILABLE another process writes the file just
 * now; ERR_EXISTS all names are taken. */
int event_file_change(const char *dir, int64_t number, event_file_look *look, const void *ctx,
                      struct err *err);

#endif
