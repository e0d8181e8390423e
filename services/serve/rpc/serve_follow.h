/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for newer versions and has them served: a thread that opens the newest checkpoint, or reads
 * the parameters of a job that runs, beside the version that is served, and swaps. */
#ifndef GRADUS_SERVE_SERVE_FOLLOW_H
#define GRADUS_SERVE_SERVE_FOLLOW_H

#include "serve/rpc/serve.h"
#include "serve/rpc/serve_live.h"

struct serve_follow_options { /* all borrowed for good */
    struct serve *serve;
    const char *where; /* a checkpoint, a directory of checkpoints, or a file; of @live: the job */
    struct serve_live *live; /* versions are read from the job's servers; NULL: checkpoints */
    const char *data_dir, *cache_dir;
    size_t batch_max, threads;
    int64_t every_ms;
    void (*served)(void *ctx); /* called when a model is served for the first time; may be NULL */
    void *ctx;
    struct meter_registry *meters;
};

struct serve_follow;

struct serve_follow *serve_follow_new(const struct serve_follow_options *options);
/* Looks once, in this thread, and serves what it finds. Errors: ERR_NOT_FOUND there is no
 * checkpoint yet; those of serve_model_open() and serve_live_begin(). */
int serve_follow_look(struct serve_follow *f, struct err *err);
/* Likewise, and logs why there is nothing newer, each reason once. */
void serve_follow_round(struct serve_follow *f);
/* From now on in a thread of its own, every @every_ms. Errors: the thread cannot be started. */
int serve_follow_start(struct serve_follow *f, struct err *err);
void serve_follow_free(struct serve_follow *f); /* ends it; NULL is fine */

#endif
