/* SPDX-License-Identifier: Apache-2.0 */
/* Reads versions of a job that runs from its parameter servers. Owner: one thread. */
#ifndef GRADUS_SERVE_SERVE_LIVE_H
#define GRADUS_SERVE_SERVE_LIVE_H

#include "rpc/rpc.h"
#include "saved/saved_model.h"

struct serve_live;

struct serve_live_options { /* all borrowed for good */
    const char *master, *job;
    const struct rpc_credentials *credentials; /* may be NULL */
    uint64_t tables_bytes_max;                 /* of the tables of a version; more is refused */
};

/* Errors: ERR_INVALID the address. */
int serve_live_new(const struct serve_live_options *options, struct serve_live **out,
                   struct err *err);
/* Any thread: ends what is waited for, and lets nothing new begin. */
void serve_live_stop(struct serve_live *l);
void serve_live_free(struct serve_live *l); /* NULL is fine */

/* A version of all variables and tables. */
struct serve_live_version {
    char *job, *text, *encoding; /* owned */
    struct saved_given given;    /* borrows these, and what the reader has until serve_live_end() */
};

/* Pins a version: of a sync job the same one of all shards, otherwise of each its present one, the
 * newest of which is told. When it succeeds, serve_live_end() must follow. Errors: those of
 * Jobs.Follow and ParameterServer.Read; ERR_UNAVAILABLE the shards passed by too fast. */
int serve_live_begin(struct serve_live *l, uint64_t *version, struct err *err);
/* Reads the pinned @version, but for the rows of tables, which are read while the model is made of
 * it. Errors: those of ParameterServer.Read; ERR_EXHAUSTED. */
int serve_live_read(struct serve_live *l, uint64_t version, struct serve_live_version *out,
                    struct err *err);
void serve_live_end(struct serve_live *l);

#endif
