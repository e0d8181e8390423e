/* SPDX-License-Identifier: Apache-2.0 */
/* The master says where the shards are; each is asked for a whole version, which it answers from a
 * snapshot, so no update waits for a reader. Shards of a sync job are asked all at once for the
 * same version, if they were found at several: a little ahead, where they wait for it. */
#include "serve/rpc/serve_live.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "auth/shard_key.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "job/plan/plan.h"
#include "wire/wire.h"
#include "wire/wire_values.h"

#define MASTER_MS 5000
#define PULL_MS 10000
#define TRIES_MAX 8 /* versions ahead double with each */

struct shard {
    struct serve_live *live;
    char *address; /* of @channel */
    struct rpc_channel *channel;
    char key[SHARD_KEY_BYTES];
    uint64_t opening;
    struct err err; /* of the pull in hand */
    struct rpc_msg *answer;
};

struct serve_live {
    const char *job;
    const struct rpc_credentials *credentials;
    struct rpc_channel *master;
    struct plan plan; /* of the last answer */
    struct shard *shards;
    size_t shard_count;
    float **values; /* [variables] of the last version */
    size_t value_count;
    pthread_mutex_t lock; /* guards what follows, the shards' channels and answers */
    bool stopping;
    pthread_cond_t answered;
    size_t missing;
};

int serve_live_new(const char *master, const char *job, const struct rpc_credentials *credentials,
                   struct serve_live **out, struct err *err)
{
    const struct rpc_channel_options options = {.target = master, .credentials = credentials};
    struct rpc_channel *channel = rpc_channel_new(&options, err);
    if (channel == NULL) {
        return err->code;
    }
    struct serve_live *l = mem_new(1, sizeof *l);
    l->job = job;
    l->credentials = credentials;
    l->master = channel;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->answered, NULL);
    *out = l;
    return 0;
}

void serve_live_stop(struct serve_live *l)
{
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    for (size_t i = 0; i < l->shard_count; i++) {
        if (l->shards[i].channel != NULL) {
            rpc_channel_cancel(l->shards[i].channel);
        }
    }
    pthread_mutex_unlock(&l->lock);
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

static void shards_free(struct shard *shards, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (shards[i].channel != NULL) {
            rpc_channel_free(shards[i].channel);
        }
        rpc_msg_unref(shards[i].answer);
        free(shards[i].address);
    }
    free(shards);
}

void serve_live_free(struct serve_live *l)
{
    if (l == NULL) {
        return;
    }
    shards_free(l->shards, l->shard_count);
    values_free(l);
    plan_release(&l->plan);
    rpc_channel_free(l->master);
    pthread_cond_destroy(&l->answered);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- where the shards are ---- */

/* The channel to @address, in place of the one before. */
static int connect(struct shard *s, const char *address, struct err *err)
{
    struct serve_live *l = s->live;
    const struct rpc_channel_options options = {.target = address, .credentials = l->credentials};
    struct rpc_channel *made = rpc_channel_new(&options, err), *before;
    pthread_mutex_lock(&l->lock);
    before = s->channel;
    s->channel = made;
    if (l->stopping && made != NULL) {
        rpc_channel_cancel(made);
    }
    pthread_mutex_unlock(&l->lock);
    if (before != NULL) {
        rpc_channel_free(before);
    }
    free(s->address);
    s->address = mem_strdup(address);
    return made != NULL ? 0 : err->code;
}

static int place(struct serve_live *l, size_t i, const Gradus__V1__FollowResponse *f,
                 struct err *err)
{
    const Gradus__V1__ShardLocation *at = f->shards[i];
    struct shard *s = &l->shards[i];
    s->live = l;
    if (at->shard != i || f->secret.len != SHARD_KEY_SECRET_BYTES) {
        return err_set(err, ERR_CORRUPT, "the master's shards are not in their order");
    }
    s->opening = at->opening;
    shard_key(f->secret.data, f->job, (uint32_t)i, at->opening, s->key);
    const bool there = s->channel != NULL && strcmp(s->address, at->address) == 0;
    return there ? 0 : connect(s, at->address, err);
}

static int place_all(struct serve_live *l, const Gradus__V1__FollowResponse *f, struct err *err)
{
    struct plan plan = {0};
    int rc = wire_plan_from_proto(f->plan, &plan, err);
    if (rc != 0) {
        return rc;
    }
    plan_release(&l->plan);
    l->plan = plan;
    if (f->n_shards != plan.shard_count) {
        return err_set(err, ERR_CORRUPT, "the master names %zu shards of %" PRIu32, f->n_shards,
                       plan.shard_count);
    }
    if (l->shard_count != f->n_shards) {
        struct shard *before = l->shards;
        const size_t count = l->shard_count;
        pthread_mutex_lock(&l->lock);
        l->shards = mem_new(f->n_shards, sizeof *l->shards);
        l->shard_count = f->n_shards;
        pthread_mutex_unlock(&l->lock);
        shards_free(before, count);
    }
    for (size_t i = 0; i < l->shard_count && rc == 0; i++) {
        rc = place(l, i, f, err);
    }
    return rc;
}

/* ---- pulls ---- */

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct shard *s = ctx;
    struct serve_live *l = s->live;
    pthread_mutex_lock(&l->lock);
    s->err = status->err;
    s->answer = reply != NULL ? rpc_msg_ref(reply) : NULL;
    l->missing--;
    pthread_cond_signal(&l->answered);
    pthread_mutex_unlock(&l->lock);
}

static int start(struct shard *s, const Gradus__V1__FollowResponse *f, Gradus__V1__Pull *pull,
                 struct err *err)
{
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__PullRequest q = GRADUS__V1__PULL_REQUEST__INIT;
    const struct rpc_header header = {SHARD_KEY_HEADER, s->key};
    ref.job = f->job;
    ref.shard = (uint32_t)(s - s->live->shards);
    ref.generation = f->generation;
    ref.opening = s->opening;
    q.shard = &ref;
    q.worker = SHARD_READER;
    q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    q.pull = pull;
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Pull",
                                        .body = &q.base,
                                        .response_bulk = 15,
                                        .timeout_ms = PULL_MS,
                                        .headers = &header,
                                        .header_count = 1};
    return rpc_call_start(s->channel, &request, on_done, s, err);
}

/* Pulls from all shards at once: @version, or with NULL the latest. */
static int pull(struct serve_live *l, const Gradus__V1__FollowResponse *f, const uint64_t *version,
                struct err *err)
{
    Gradus__V1__Pull what = GRADUS__V1__PULL__INIT;
    what.kind = version != NULL ? GRADUS__V1__PULL__KIND__VERSION : GRADUS__V1__PULL__KIND__LATEST;
    what.version = version != NULL ? *version : 0;
    l->missing = l->shard_count;
    for (size_t i = 0; i < l->shard_count; i++) {
        struct shard *s = &l->shards[i];
        rpc_msg_unref(s->answer);
        s->answer = NULL;
        s->err = (struct err){0};
        struct err failed = {0};
        if (start(s, f, &what, &failed) != 0) {
            pthread_mutex_lock(&l->lock);
            s->err = failed;
            l->missing--;
            pthread_mutex_unlock(&l->lock);
        }
    }
    pthread_mutex_lock(&l->lock);
    while (l->missing > 0) {
        (void)pthread_cond_wait(&l->answered, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->shard_count; i++) {
        if (l->shards[i].err.code != 0) {
            *err = l->shards[i].err;
            return err_wrap(err, "shard %zu", i);
        }
    }
    return 0;
}

static uint64_t version_of(const struct shard *s)
{
    return ((const Gradus__V1__PullResponse *)s->answer->body)->version;
}

/* Have all shards the same version? The newest one to @newest. */
static bool are_level(const struct serve_live *l, uint64_t *newest)
{
    bool level = true;
    *newest = version_of(&l->shards[0]);
    for (size_t i = 1; i < l->shard_count; i++) {
        const uint64_t v = version_of(&l->shards[i]);
        level = level && v == version_of(&l->shards[0]);
        *newest = v > *newest ? v : *newest;
    }
    return level;
}

/* All shards of a sync job at one version. One that stands still never comes to a later one, so it
 * is looked at again, after the time of a pull at the latest. */
static int pull_level(struct serve_live *l, const Gradus__V1__FollowResponse *f, uint64_t *version,
                      struct err *err)
{
    uint64_t ahead = 1;
    for (unsigned i = 0; i < TRIES_MAX; i++, ahead *= 2) {
        int rc = pull(l, f, NULL, err);
        if (rc != 0 || are_level(l, version) || !f->sync) {
            return rc;
        }
        const uint64_t wanted = *version + ahead;
        rc = pull(l, f, &wanted, err);
        if (rc == 0 || (rc != ERR_RANGE && rc != ERR_TIMEOUT)) {
            *version = wanted;
            return rc;
        }
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "the shards of job %s are never seen at one version; its steps are too short",
                   l->job);
}

/* ---- values ---- */

/* The values of shard @s into the variables. */
static int take(struct serve_live *l, size_t s, struct err *err)
{
    size_t count;
    const struct partition *p = plan_shard(&l->plan, (uint32_t)s, &count);
    struct rpc_spans *spans = l->shards[s].answer->bulk;
    for (size_t i = 0; i < count; i++) {
        float *out = l->values[p[i].variable] + p[i].first;
        if (spans == NULL || !wire_values_read(spans, VALUE_FP32, out, (size_t)p[i].count)) {
            return err_set(err, ERR_CORRUPT, "shard %zu has fewer values than the plan says", s);
        }
    }
    return 0;
}

static int take_all(struct serve_live *l, struct err *err)
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
    for (size_t s = 0; s < l->shard_count && rc == 0; s++) {
        rc = take(l, s, err);
    }
    return rc;
}

static void describe(struct serve_live *l, const Gradus__V1__FollowResponse *f, uint64_t version,
                     struct serve_live_version *out)
{
    *out = (struct serve_live_version){.job = mem_strdup(f->job),
                                       .text = mem_strdup(f->text),
                                       .encoding =
                                           f->encoding[0] == '\0' ? NULL : mem_strdup(f->encoding)};
    out->given =
        (struct saved_given){.about = {.job = out->job,
                                       .text = out->text,
                                       .encoding = out->encoding,
                                       .step = f->sync ? version - f->version_shift : f->step,
                                       .version = version},
                             .variables = l->plan.variables,
                             .values = (const float *const *)(const void *)l->values,
                             .count = l->value_count};
}

int serve_live_read(struct serve_live *l, struct serve_live_version *out, struct err *err)
{
    Gradus__V1__FollowRequest q = GRADUS__V1__FOLLOW_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    uint64_t version = 0;
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
    const Gradus__V1__FollowResponse *f = (const Gradus__V1__FollowResponse *)reply->body;
    rc = place_all(l, f, err);
    rc = rc != 0 ? rc : pull_level(l, f, &version, err);
    rc = rc != 0 ? rc : take_all(l, err);
    if (rc == 0) {
        describe(l, f, version, out);
    }
    rpc_msg_unref(reply);
    return rc;
}
