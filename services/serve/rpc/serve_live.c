/* SPDX-License-Identifier: Apache-2.0 */
/* The master says where the shards are; each pins a version for the reader and is read part by
 * part, so no update waits for a reader. Shards of a sync job are asked for the same version, if
 * they are found at several: a little ahead, where they wait for it. */
#include "serve/rpc/serve_live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/rpc/live_shards.h"
#include "wire/wire.h"

#define MASTER_MS 5000
#define TRIES_MAX 10 /* versions ahead double with each */

struct serve_live {
    const char *job;
    struct rpc_channel *master;
    uint64_t tables_bytes_max;
    struct rpc_msg *told; /* the master's last answer */
    struct plan plan;     /* of that */
    struct live_shards shards;
    float **values; /* [value_count] of the last version */
    size_t value_count;
};

int serve_live_new(const struct serve_live_options *o, struct serve_live **out, struct err *err)
{
    const struct rpc_channel_options options = {.target = o->master, .credentials = o->credentials};
    struct rpc_channel *channel = rpc_channel_new(&options, err);
    if (channel == NULL) {
        return err->code;
    }
    struct serve_live *l = mem_new(1, sizeof *l);
    l->job = o->job;
    l->master = channel;
    l->tables_bytes_max = o->tables_bytes_max;
    live_shards_init(&l->shards, o->credentials);
    *out = l;
    return 0;
}

void serve_live_stop(struct serve_live *l)
{
    live_shards_stop(&l->shards);
    rpc_channel_cancel(l->master);
}

static void values_free(struct serve_live *l)
{
    for (size_t i = 0; i < l->value_count; i++) {
        free(l->values[i]);
    }
    free(l->values);
    l->values = NULL;
    l->value_count = 0;
}

void serve_live_free(struct serve_live *l)
{
    if (l == NULL) {
        return;
    }
    live_shards_release(&l->shards);
    values_free(l);
    plan_release(&l->plan);
    rpc_msg_unref(l->told);
    rpc_channel_free(l->master);
    free(l);
}

/* ---- a version ---- */

static const Gradus__V1__FollowResponse *told(const struct serve_live *l)
{
    return (const Gradus__V1__FollowResponse *)l->told->body;
}

static int ask_master(struct serve_live *l, struct err *err)
{
    Gradus__V1__FollowRequest q = GRADUS__V1__FOLLOW_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    struct plan plan = {0};
    q.job = (char *)(uintptr_t)l->job;
    const struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                        .method = "Follow",
                                        .body = &q.base,
                                        .timeout_ms = MASTER_MS,
                                        .terse = true};
    int rc = rpc_call_blocking(l->master, &request, &reply, err);
    if (rc != 0) {
        return rc;
    }
    rpc_msg_unref(l->told);
    l->told = reply;
    rc = wire_plan_from_proto(told(l)->plan, &plan, err);
    if (rc != 0) {
        return rc;
    }
    plan_release(&l->plan);
    l->plan = plan;
    return live_shards_place(&l->shards, told(l), plan.shard_count, err);
}

/* All shards of a sync job at one version. One that stands still never comes to a later one, so it
 * is looked at again, after the time of a request at the latest. */
static int pin_level(struct serve_live *l, uint64_t *version, struct err *err)
{
    uint64_t ahead = 1;
    for (unsigned i = 0; i < TRIES_MAX; i++, ahead *= 2) {
        int rc = live_shards_pin(&l->shards, NULL, err);
        if (rc != 0 || live_shards_level(&l->shards, version) || !told(l)->sync) {
            return rc;
        }
        *version += ahead;
        live_shards_unpin(&l->shards);
        rc = live_shards_pin(&l->shards, version, err);
        if (rc == 0 || (rc != ERR_RANGE && rc != ERR_TIMEOUT)) {
            return rc;
        }
        live_shards_unpin(&l->shards);
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "the shards of job %s are never seen at one version; its steps are too short",
                   l->job);
}

int serve_live_begin(struct serve_live *l, uint64_t *version, struct err *err)
{
    int rc = ask_master(l, err);
    if (rc != 0) {
        return rc;
    }
    rc = pin_level(l, version, err);
    if (rc != 0) {
        live_shards_unpin(&l->shards);
    }
    return rc;
}

void serve_live_end(struct serve_live *l)
{
    live_shards_unpin(&l->shards);
}

static int read_values(struct serve_live *l, struct err *err)
{
    int rc = 0;
    values_free(l);
    l->values = mem_new(l->plan.variable_count + 1, sizeof *l->values);
    l->value_count = l->plan.variable_count;
    for (size_t i = 0; i < l->value_count && rc == 0; i++) {
        const struct variable_spec *v = &l->plan.variables[i];
        l->values[i] = mem_try_aligned(shape_count(&v->shape), sizeof(float), v->name, err);
        rc = l->values[i] == NULL ? ERR_EXHAUSTED : 0;
    }
    return rc != 0 ? rc : live_shards_values(&l->shards, &l->plan, l->values, err);
}

static uint64_t count_rows(void *ctx, size_t table)
{
    const struct serve_live *l = ctx;
    return live_shards_rows(&l->shards, table);
}

static int next_rows(void *ctx, size_t table, size_t dim, struct table_chunk *out, struct err *err)
{
    struct serve_live *l = ctx;
    return live_shards_next_rows(&l->shards, table, dim, out, err);
}

int serve_live_read(struct serve_live *l, uint64_t version, struct serve_live_version *out,
                    struct err *err)
{
    const Gradus__V1__FollowResponse *f = told(l);
    int rc = read_values(l, err);
    if (rc != 0) {
        return rc;
    }
    *out = (struct serve_live_version){.job = mem_strdup(f->job),
                                       .text = mem_strdup(f->text),
                                       .encoding =
                                           f->encoding[0] == '\0' ? NULL : mem_strdup(f->encoding)};
    out->given =
        (struct saved_given){.about = {.job = out->job,
                                       .text = out->text,
                                       .encoding = out->encoding,
                                       .model_file = f->model_file,
                                       .step = f->sync ? version - f->version_shift : f->step,
                                       .version = version},
                             .variables = l->plan.variables,
                             .values = (const float *const *)(const void *)l->values,
                             .count = l->value_count,
                             .row_count = count_rows,
                             .rows = next_rows,
                             .ctx = l,
                             .rows_bytes_max = l->tables_bytes_max};
    return 0;
}
