/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all shards of a running job at once, and waits for the last answer. */
#include "serve/rpc/live_shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "wire/wire_values.h"

#define ASK_MS 10000
#define PIN_MS 30000 /* a reader that dies is missed for no longer */

/* ---- life ---- */

void live_shards_init(struct live_shards *l, const struct rpc_credentials *credentials)
{
    *l = (struct live_shards){.credentials = credentials, .table = SIZE_MAX};
    while (getrandom(&l->drawn, sizeof l->drawn, 0) != (ssize_t)sizeof l->drawn) {
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->answered, NULL);
}

static void drop_rows(struct live_shard *s)
{
    free(s->keys);
    free(s->values);
    s->keys = NULL;
    s->values = NULL;
    s->count = 0;
}

static void shards_free(struct live_shard *shards, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (shards[i].channel != NULL) {
            rpc_channel_free(shards[i].channel);
        }
        rpc_msg_unref(shards[i].answer);
        drop_rows(&shards[i]);
        free(shards[i].address);
    }
    free(shards);
}

void live_shards_release(struct live_shards *l)
{
    shards_free(l->items, l->count);
    free(l->rows);
    free(l->job);
    pthread_cond_destroy(&l->answered);
    pthread_mutex_destroy(&l->lock);
}

void live_shards_stop(struct live_shards *l)
{
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].channel != NULL) {
            rpc_channel_cancel(l->items[i].channel);
        }
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- where they are ---- */

/* The channel to @address, in place of the one before. */
static int connect(struct live_shard *s, const char *address, struct err *err)
{
    struct live_shards *l = s->all;
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

static int place(struct live_shards *l, size_t i, const Gradus__V1__FollowResponse *f,
                 struct err *err)
{
    const Gradus__V1__ShardLocation *at = f->shards[i];
    struct live_shard *s = &l->items[i];
    s->all = l;
    if (at->shard != i || f->secret.len != SHARD_KEY_SECRET_BYTES) {
        return err_set(err, ERR_CORRUPT, "the master's shards are not in their order");
    }
    s->opening = at->opening;
    shard_key(f->secret.data, f->job, (uint32_t)i, at->opening, s->key);
    const bool there = s->channel != NULL && strcmp(s->address, at->address) == 0;
    return there ? 0 : connect(s, at->address, err);
}

int live_shards_place(struct live_shards *l, const Gradus__V1__FollowResponse *f, uint32_t count,
                      struct err *err)
{
    int rc = 0;
    if (f->n_shards != count) {
        return err_set(err, ERR_CORRUPT, "the master names %zu shards of %" PRIu32, f->n_shards,
                       count);
    }
    free(l->job);
    l->job = mem_strdup(f->job);
    l->generation = f->generation;
    l->average = f->average != 0;
    if (l->count != count) {
        struct live_shard *before = l->items;
        const size_t had = l->count;
        pthread_mutex_lock(&l->lock);
        l->items = mem_new(count, sizeof *l->items);
        l->count = count;
        pthread_mutex_unlock(&l->lock);
        shards_free(before, had);
    }
    for (size_t i = 0; i < l->count && rc == 0; i++) {
        rc = place(l, i, f, err);
    }
    return rc;
}

/* ---- asking ---- */

/* A request and what it points to. */
struct ask {
    Gradus__V1__ReadRequest request;
    Gradus__V1__ReadPin pin;
    Gradus__V1__ReadValues values;
    Gradus__V1__ReadRows rows;
};

static const Gradus__V1__ReadResponse *answer_of(const struct live_shard *s)
{
    return (const Gradus__V1__ReadResponse *)s->answer->body;
}

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct live_shard *s = ctx;
    struct live_shards *l = s->all;
    pthread_mutex_lock(&l->lock);
    s->err = status->err;
    s->answer = reply != NULL ? rpc_msg_ref(reply) : NULL;
    l->missing--;
    pthread_cond_signal(&l->answered);
    pthread_mutex_unlock(&l->lock);
}

static int start(struct live_shard *s, struct ask *ask, struct err *err)
{
    struct live_shards *l = s->all;
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    const struct rpc_header header = {SHARD_KEY_HEADER, s->key};
    ref.job = l->job;
    ref.shard = (uint32_t)(s - l->items);
    ref.generation = l->generation;
    ref.opening = s->opening;
    ask->request.shard = &ref;
    ask->request.pin_id = l->pin_id;
    ask->request.pin_ms = PIN_MS;
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Read",
                                        .body = &ask->request.base,
                                        .response_bulk = 15,
                                        .timeout_ms = ASK_MS,
                                        .headers = &header,
                                        .header_count = 1};
    return rpc_call_start(s->channel, &request, on_done, s, err);
}

/* Asks those shards for which @make, which may be asked for any, makes a request. Errors: that of
 * the first shard that refuses. */
static int ask_all(struct live_shards *l, bool (*make)(void *ctx, size_t shard, struct ask *ask),
                   void *ctx, struct err *err)
{
    l->missing = l->count;
    for (size_t i = 0; i < l->count; i++) {
        struct live_shard *s = &l->items[i];
        struct err failed = {0};
        struct ask ask = {.request = GRADUS__V1__READ_REQUEST__INIT,
                          .pin = GRADUS__V1__READ_PIN__INIT,
                          .values = GRADUS__V1__READ_VALUES__INIT,
                          .rows = GRADUS__V1__READ_ROWS__INIT};
        rpc_msg_unref(s->answer);
        s->answer = NULL;
        s->err = (struct err){0};
        if (!make(ctx, i, &ask) || start(s, &ask, &failed) != 0) {
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
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].err.code != 0) {
            *err = l->items[i].err;
            return err_wrap(err, "shard %zu", i);
        }
    }
    return 0;
}

/* ---- pins ---- */

struct pinning {
    const uint64_t *version; /* NULL: the present one */
    bool average;
};

static bool make_pin(void *ctx, size_t shard, struct ask *ask)
{
    const struct pinning *p = ctx;
    (void)shard;
    ask->pin.exact = p->version != NULL;
    ask->pin.version = p->version != NULL ? *p->version : 0;
    ask->pin.average = p->average;
    ask->request.what_case = GRADUS__V1__READ_REQUEST__WHAT_PIN;
    ask->request.pin = &ask->pin;
    return true;
}

int live_shards_pin(struct live_shards *l, const uint64_t *version, struct err *err)
{
    (void)snprintf(l->pin_id, sizeof l->pin_id, "reader-%016" PRIx64 "-%" PRIu64, l->drawn,
                   ++l->pins);
    struct pinning pinning = {version, l->average};
    int rc = ask_all(l, make_pin, &pinning, err);
    l->table = SIZE_MAX;
    l->table_count = 0;
    for (size_t i = 0; i < l->count && rc == 0; i++) {
        const Gradus__V1__ReadResponse *m = answer_of(&l->items[i]);
        l->items[i].version = m->version;
        l->table_count = i == 0 ? m->n_rows : l->table_count;
        l->rows = i == 0 ? mem_resize(l->rows, m->n_rows + 1, sizeof *l->rows) : l->rows;
        for (size_t k = 0; k < m->n_rows && k < l->table_count; k++) {
            l->rows[k] = (i == 0 ? 0 : l->rows[k]) + m->rows[k];
        }
    }
    return rc;
}

bool live_shards_level(const struct live_shards *l, uint64_t *newest)
{
    bool level = true;
    *newest = l->items[0].version;
    for (size_t i = 1; i < l->count; i++) {
        const uint64_t v = l->items[i].version;
        level = level && v == l->items[0].version;
        *newest = v > *newest ? v : *newest;
    }
    return level;
}

static bool make_end(void *ctx, size_t shard, struct ask *ask)
{
    (void)ctx;
    (void)shard;
    ask->request.what_case = GRADUS__V1__READ_REQUEST__WHAT_END;
    ask->request.end = true;
    return true;
}

void live_shards_unpin(struct live_shards *l)
{
    struct err none = {0};
    (void)ask_all(l, make_end, NULL, &none); /* where it is not heard, the pin ends by itself */
    for (size_t i = 0; i < l->count; i++) {
        drop_rows(&l->items[i]);
    }
}

uint64_t live_shards_rows(const struct live_shards *l, size_t table)
{
    return table < l->table_count ? l->rows[table] : 0;
}

/* ---- values ---- */

struct reading {
    const struct live_shards *l;
    const struct plan *plan;
    uint64_t *done; /* [shards] elements that are here */
    float *const *out;
};

static bool make_values(void *ctx, size_t shard, struct ask *ask)
{
    const struct reading *r = ctx;
    ask->request.what_case = GRADUS__V1__READ_REQUEST__WHAT_VALUES;
    ask->request.values = &ask->values;
    ask->values.first = r->done[shard];
    ask->values.average = r->l->average;
    return r->done[shard] < r->plan->shard_elements[shard];
}

/* The values of a part into the variables. */
static int take_values(const struct reading *r, size_t shard, struct err *err)
{
    struct rpc_spans *spans = r->l->items[shard].answer->bulk;
    uint64_t left = spans == NULL ? 0 : rpc_spans_bytes(spans) / sizeof(float);
    if (left == 0 || left > r->plan->shard_elements[shard] - r->done[shard]) {
        return err_set(err, ERR_CORRUPT, "shard %zu answers with %" PRIu64 " values", shard, left);
    }
    while (left > 0) {
        const struct partition *p = plan_at(r->plan, (uint32_t)shard, r->done[shard]);
        const uint64_t at = r->done[shard] - p->offset;
        const uint64_t n = p->count - at < left ? p->count - at : left;
        (void)wire_values_read(spans, VALUE_FP32, r->out[p->variable] + p->first + at, (size_t)n);
        r->done[shard] += n;
        left -= n;
    }
    return 0;
}

int live_shards_values(struct live_shards *l, const struct plan *plan, float *const *out,
                       struct err *err)
{
    struct reading r = {l, plan, mem_new(l->count + 1, sizeof *r.done), out};
    bool more = true;
    int rc = 0;
    while (more && rc == 0) {
        more = false;
        rc = ask_all(l, make_values, &r, err);
        for (size_t i = 0; i < l->count && rc == 0; i++) {
            rc = l->items[i].answer != NULL ? take_values(&r, i, err) : 0;
            more = more || r.done[i] < plan->shard_elements[i];
        }
    }
    free(r.done);
    return rc;
}

/* ---- rows ---- */

static bool make_rows(void *ctx, size_t shard, struct ask *ask)
{
    const struct live_shards *l = ctx;
    ask->request.what_case = GRADUS__V1__READ_REQUEST__WHAT_ROWS;
    ask->request.rows = &ask->rows;
    ask->rows.table = (uint32_t)l->table;
    ask->rows.from = l->items[shard].next;
    return !l->items[shard].last;
}

/* A part of a table, into memory of its own. */
static int take_rows(struct live_shard *s, size_t dim, struct err *err)
{
    const Gradus__V1__ReadResponse *m = answer_of(s);
    struct rpc_spans *spans = s->answer->bulk;
    const size_t n = m->count, bytes = spans == NULL ? 0 : rpc_spans_bytes(spans);
    drop_rows(s);
    if (bytes / (sizeof *s->keys + dim * sizeof *s->values) < n || (n == 0 && !m->last)) {
        return err_set(err, ERR_CORRUPT, "shard %zu answers with %zu bytes of %zu rows",
                       (size_t)(s - s->all->items), bytes, n);
    }
    s->next = m->next;
    s->last = m->last != 0;
    if (n == 0) {
        return 0;
    }
    s->keys = mem_try_aligned(n, sizeof *s->keys, "rows of a table", err);
    s->values = s->keys == NULL
                    ? NULL
                    : mem_try_aligned(n * dim, sizeof *s->values, "rows of a table", err);
    if (s->values == NULL) {
        return ERR_EXHAUSTED;
    }
    (void)rpc_spans_read(spans, s->keys, n * sizeof *s->keys);
    (void)wire_values_read(spans, VALUE_FP32, s->values, n * dim);
    s->count = m->count;
    return 0;
}

static void begin_table(struct live_shards *l, size_t table)
{
    l->table = table;
    for (size_t i = 0; i < l->count; i++) {
        drop_rows(&l->items[i]);
        l->items[i].next = 0;
        l->items[i].last = false;
    }
}

static bool hand_out(struct live_shards *l, struct table_chunk *out)
{
    for (size_t i = 0; i < l->count; i++) {
        struct live_shard *s = &l->items[i];
        if (s->count > 0) {
            *out = (struct table_chunk){.n = s->count, .keys = s->keys, .values = s->values};
            s->count = 0; /* they stay until the next part */
            return true;
        }
    }
    *out = (struct table_chunk){0};
    return false;
}

static bool is_over(const struct live_shards *l)
{
    bool over = true;
    for (size_t i = 0; i < l->count; i++) {
        over = over && l->items[i].last;
    }
    return over;
}

int live_shards_next_rows(struct live_shards *l, size_t table, size_t dim, struct table_chunk *out,
                          struct err *err)
{
    int rc = 0;
    if (table != l->table) {
        begin_table(l, table);
    }
    while (rc == 0 && !hand_out(l, out) && !is_over(l)) {
        rc = ask_all(l, make_rows, l, err);
        for (size_t i = 0; i < l->count && rc == 0; i++) {
            rc = l->items[i].answer != NULL ? take_rows(&l->items[i], dim, err) : 0;
        }
    }
    return rc;
}
