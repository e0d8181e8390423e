/* SPDX-License-Identifier: Apache-2.0 */
/* Answers requests with the served model: requests that come while all threads compute wait and are
 * computed together. Any thread may call it.
 *
 * Where no request may wait for others (delay_us 0), a request that finds a free slot is computed
 * at once by the thread that brought it: no thread has to be woken. Everything else is computed by
 * threads of the server, one for each slot. */
#ifndef GRADUS_SERVE_SERVE_H
#define GRADUS_SERVE_SERVE_H

#include "metrics/meter.h"
#include "rpc/rpc.h"
#include "serve/rpc/serve_model.h"

#define SERVE_THREADS_MAX 64
#define SERVE_WAITING_MAX 65536

struct serve_options {
    const char *name; /* name of the model; borrows; NULL: the job's name in the first version */
    size_t threads;
    size_t batch_max, waiting_max;
    uint64_t delay_us;
    struct meter_registry *meters;
};

struct serve;

/* Errors: a thread cannot be started. */
int serve_new(const struct serve_options *options, struct serve **out, struct err *err);
/* Frees the server; waiting requests get an error. No call may come any more. */
void serve_free(struct serve *s);

/* Serves @m, which is taken, from the next request on. */
void serve_swap(struct serve *s, struct serve_model *m);
/* The served model, to be given back with serve_model_unref(); NULL: none yet. */
struct serve_model *serve_current(struct serve *s);
/* "digits-1"; "" while nothing is served. Borrows; stays once it is there. */
const char *serve_name(struct serve *s);
/* The version that a request names; it is given back as serve_current(). NULL with ERR_NOT_FOUND
 * another model or version, ERR_UNAVAILABLE nothing is served yet. */
struct serve_model *serve_find(struct serve *s, const char *name, const char *version,
                               struct err *err);
/* From now on serve_ready() says no. Requests are answered all the same. */
void serve_drain(struct serve *s);
bool serve_ready(struct serve *s);
uint64_t serve_delay_us(const struct serve *s);
size_t serve_busy(struct serve *s); /* requests that have no answer yet */

/* How the caller gets the answer: exactly one of both is called, on any thread. */
struct serve_asker {
    void (*answer)(void *ctx, const Inference__ModelInferResponse *answer);
    void (*fail)(void *ctx, const struct err *err);
};
/* Answer @q, which stays as it is until then, now or later. */
void serve_infer(struct serve *s, const Inference__ModelInferRequest *q,
                 const struct serve_asker *asker, void *ctx);

/* Gives a description of the served model to the caller. */
typedef void serve_say(void *ctx, const ProtobufCMessage *message);
void serve_say_server(serve_say *say, void *ctx);
/* Errors: those of serve_find(). */
int serve_say_model(struct serve *s, const char *name, const char *version, serve_say *say,
                    void *ctx, struct err *err);
int serve_say_config(struct serve *s, const char *name, const char *version, serve_say *say,
                     void *ctx, struct err *err);

extern const struct rpc_method serve_methods[]; /* of GRPCInferenceService; ctx: struct serve */
extern const size_t serve_method_count;

#endif
