/* SPDX-License-Identifier: Apache-2.0 */
/* Where a command looks for jobs when it is not told: the master of this host, and the state
 * directories that `gradus run` has used. */
#ifndef GRADUS_CLI_PLACES_H
#define GRADUS_CLI_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cli/cli.h"

#define PLACES_MAX 16 /* directories of runs that are looked through, the newest first */

struct place {
    char *address;   /* of its master; NULL: none answers */
    char *state_dir; /* NULL: only the address is known */
    /* Settings for connections to it; borrowed from places_find(); NULL: no TLS, as with `gradus
     * run`. */
    const struct tls_settings *tls;
};
struct places {
    struct place items[PLACES_MAX + 2];
    size_t count;
    bool given; /* --master, --state-dir or their variables name it: there is no other place */
};

/* All places, in the order in which they are looked through. A master that was named is not tried
 * here. @p is overwritten; places_release(). */
void places_find(const struct cli_common *common, struct places *p);
void places_release(struct places *p);
/* Remember that a run keeps its jobs in @state_dir, an absolute path. A failure is not told: then
 * its jobs are found with --state-dir only. */
void places_remember(const char *state_dir);
/* Append where was looked, for people: "127.0.0.1:7000 (no master answers), /x and /y". */
void places_describe(const struct places *p, struct buf *out);
/* Appends what to type so that a master goes on with @state_dir: its checkpoint directory is named
 * where it is not the usual one, and an address where another process has the usual one. */
void places_start_hint(const char *state_dir, struct buf *out);

#endif
