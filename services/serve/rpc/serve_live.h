/* SPDX-License-Identifier: Apache-2.0 */
/* Reads versions of a job that runs from its parameter servers. Owner: one thread. */
#ifndef GRADUS_SERVE_SERVE_LIVE_H
#define GRADUS_SERVE_SERVE_LIVE_H

#include "rpc/rpc.h"
#include "saved/saved_model.h"

struct serve_live;

/* @master, @job and @credentials (may be NULL) are borrowed for good. Errors: ERR_INVALID the
 * address. */
int serve_live_new(const char *master, const char *job, const struct rpc_credentials *credentials,
                   struct serve_live **out, struct err *err);
/* Any thread: ends what serve_live_read() waits for, and lets it begin nothing new. */
void serve_live_stop(struct serve_live *l);
void serve_live_free(struct serve_live *l); /* NULL is fine */

/* A version of all variables. */
struct serve_live_version {
    char *job, *text, *encoding; /* owned */
    struct saved_given given;    /* borrows these, and what the reader has until the next call */
};

/* Reads a version. In sync mode all shards have given the same one, otherwise each its latest.
 * Errors: those of Jobs.Follow and of the pulls; ERR_UNAVAILABLE the shards passed by too fast. */
int serve_live_read(struct serve_live *l, struct serve_live_version *out, struct err *err);

#endif
