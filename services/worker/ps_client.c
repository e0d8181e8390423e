#include "worker/ps_client.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"

#define CHUNK_ELEMENTS (PS_CLIENT_CHUNK_BYTES / sizeof(float))
#define SEND_WAIT_MS 30000 /* a server that takes nothing for so long is as good as gone */
#define VALUES_FIELD 15

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_ANSWERED };

/* One exchange. OPEN belongs to the stream's callbacks (under the shard's mutex), ANSWERED to the
 * loop. */
struct pending {
    enum slot_state state;
    struct shard_link *link;
    float *values;
    uint64_t received;
    struct ps_answer answer;
};

struct shard_link {
    struct ps_client *client;
    uint32_t shard;
    const struct partition *partitions;
    size_t partition_count;
    uint64_t elements;
    struct rpc_channel *channel;
    pthread_mutex_t mutex;
    struct rpc_stream *stream; /* the job's thread opens and frees */
    bool broken;               /* `done` came: the stream is to be freed */
    struct pending pending[PS_CLIENT_EXCHANGES_MAX];
};

/* Counts the messages that still refer to one gradient. */
struct sending {
    const float *gradient;
    uint64_t count;
};

struct ps_client {
    char *job, *worker;
    const struct plan *plan;
    const uint64_t *variable_offsets;
    struct rpc_loop *rpc_loop;
    struct loop *loop;
    void (*answered)(void *ctx, const struct ps_answer *answer);
    void *ctx;
    struct shard_link *links;
    uint32_t link_count;
    pthread_mutex_t sending_mutex;
    pthread_cond_t sending_cond;
    struct sending sending[WORKER_SLOTS_MAX];
};

/* ---- what is being sent ---- */

struct sent {
    struct ps_client *client;
    const float *gradient;
};

static void sending_change(struct ps_client *c, const float *gradient, int64_t by)
{
    pthread_mutex_lock(&c->sending_mutex);
    struct sending *found = NULL;
    for (size_t i = 0; i < WORKER_SLOTS_MAX; i++) {
        struct sending *s = &c->sending[i];
        if (s->gradient == gradient || (s->gradient == NULL && found == NULL)) {
            found = s;
            if (s->gradient == gradient) {
                break;
            }
        }
    }
    if (found != NULL) {
        found->gradient = gradient;
        found->count = (uint64_t)((int64_t)found->count + by);
        if (found->count == 0) {
            pthread_cond_broadcast(&c->sending_cond);
        }
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

static void on_sent(void *ctx)
{
    struct sent *sent = ctx;
    sending_change(sent->client, sent->gradient, -1);
    free(sent);
}

void ps_client_wait_sent(struct ps_client *c, const float *gradient)
{
    pthread_mutex_lock(&c->sending_mutex);
    for (size_t i = 0; i < WORKER_SLOTS_MAX; i++) {
        if (c->sending[i].gradient == gradient) {
            while (c->sending[i].count > 0) {
                pthread_cond_wait(&c->sending_cond, &c->sending_mutex);
            }
            break;
        }
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

/* gRPC may hold a slice a little longer than the call that it belonged to. */
static void wait_all_sent(struct ps_client *c)
{
    pthread_mutex_lock(&c->sending_mutex);
    for (size_t i = 0; i < WORKER_SLOTS_MAX; i++) {
        while (c->sending[i].count > 0) {
            pthread_cond_wait(&c->sending_cond, &c->sending_mutex);
        }
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

/* ---- answers ---- */

static void deliver(void *ctx)
{
    struct pending *p = ctx;
    struct shard_link *link = p->link;
    struct ps_client *c = link->client;
    struct ps_answer answer = p->answer;
    pthread_mutex_lock(&link->mutex);
    p->state = SLOT_FREE;
    pthread_mutex_unlock(&link->mutex);
    if (!loop_discarding(c->loop)) {
        c->answered(c->ctx, &answer);
    }
}

/* Under the link's mutex. A full mailbox cannot happen: it holds more messages than there are
 * slots. */
static void answer(struct pending *p)
{
    p->state = SLOT_ANSWERED;
    if (loop_post(p->link->client->loop, deliver, p, NULL) != 0) {
        p->state = SLOT_FREE; /* the loop has ended */
    }
}

static void answer_error(struct pending *p, int code, const char *message)
{
    p->answer.code = code == 0 ? ERR_INTERNAL : code;
    text_copy(p->answer.message, sizeof p->answer.message, message);
    answer(p);
}

static struct pending *pending_find(struct shard_link *link, uint64_t exchange)
{
    for (size_t i = 0; i < PS_CLIENT_EXCHANGES_MAX; i++) {
        if (link->pending[i].state == SLOT_OPEN && link->pending[i].answer.exchange == exchange) {
            return &link->pending[i];
        }
    }
    return NULL;
}

/* Copy elements [first, first + count) of the shard from @spans to where they belong in @values. */
static bool scatter(const struct shard_link *link, uint64_t first, uint64_t count,
                    struct rpc_spans *spans, float *values)
{
    const struct ps_client *c = link->client;
    for (size_t i = 0; i < link->partition_count && count > 0; i++) {
        const struct partition *p = &link->partitions[i];
        if (first >= p->offset + p->count) {
            continue;
        }
        uint64_t skip = first - p->offset;
        uint64_t n = p->count - skip < count ? p->count - skip : count;
        float *to = values + c->variable_offsets[p->variable] + p->first + skip;
        if (!rpc_spans_read_floats(spans, to, n)) {
            return false;
        }
        first += n;
        count -= n;
    }
    return count == 0;
}

/* Checks one message of an answer and takes its values in; ERR_* and a message when it cannot be
 * right. */
static int take_values(struct shard_link *link, const struct pending *p,
                       const Gradus__V1__ExchangeResponse *r, struct rpc_spans *spans,
                       uint64_t *taken, struct err *err)
{
    uint64_t n = rpc_spans_bytes(spans) / sizeof(float);
    *taken = n;
    if (r->total == 0 && n == 0 && (p->values == NULL || link->elements == 0)) {
        return 0;
    }
    if (p->values == NULL || r->total != link->elements || r->offset != p->received || n == 0 ||
        n > link->elements - p->received || rpc_spans_bytes(spans) % sizeof(float) != 0) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered elements %" PRIu64 "+%" PRIu64 " of %" PRIu64
                       ", expected %" PRIu64 " on of %" PRIu64,
                       link->shard, r->offset, n, r->total, p->received, link->elements);
    }
    if (!scatter(link, r->offset, n, spans, p->values)) {
        return err_set(err, ERR_INTERNAL, "shard %" PRIu32 ": the values end early", link->shard);
    }
    return 0;
}

/* An error of the shard's. Its number comes from the wire: only those of gRPC mean something. */
static int take_refusal(const struct shard_link *link, const Gradus__V1__ExchangeResponse *r,
                        struct err *err)
{
    bool known = r->code > 0 && r->code <= -ERR_UNAUTHENTICATED;
    return err_set(err, known ? -r->code : ERR_UNKNOWN, "shard %" PRIu32 ": %s", link->shard,
                   r->message);
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct shard_link *link = ctx;
    const Gradus__V1__ExchangeResponse *r = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&link->mutex);
    struct pending *p = pending_find(link, r->exchange);
    pthread_mutex_unlock(&link->mutex);
    if (p == NULL) {
        return;
    }
    struct err err = {0};
    uint64_t taken = 0;
    int rc = r->code != 0 ? take_refusal(link, r, &err)
                          : take_values(link, p, r, msg->bulk, &taken, &err);
    pthread_mutex_lock(&link->mutex);
    if (rc != 0) {
        answer_error(p, rc, err.msg);
    } else {
        p->received += taken;
        p->answer.version = r->version;
        p->answer.progress = r->progress;
        if (p->received == r->total) {
            p->answer.code = 0;
            answer(p);
        }
    }
    pthread_mutex_unlock(&link->mutex);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct shard_link *link = ctx;
    pthread_mutex_lock(&link->mutex);
    link->broken = true;
    for (size_t i = 0; i < PS_CLIENT_EXCHANGES_MAX; i++) {
        if (link->pending[i].state == SLOT_OPEN) {
            answer_error(&link->pending[i], ERR_UNAVAILABLE,
                         status->err.code != 0 ? status->err.msg : "the stream was closed");
        }
    }
    pthread_mutex_unlock(&link->mutex);
}

/* ---- requests ---- */

static int link_open(struct shard_link *link, struct err *err)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    pthread_mutex_lock(&link->mutex);
    struct rpc_stream *old = link->broken ? link->stream : NULL;
    if (old != NULL) {
        link->stream = NULL;
    }
    link->broken = false;
    pthread_mutex_unlock(&link->mutex);
    if (old != NULL) {
        rpc_stream_free(old);
    }
    if (link->stream != NULL) {
        return 0;
    }
    struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Exchange",
        .request_bulk = VALUES_FIELD,
        .response_bulk = VALUES_FIELD,
    };
    link->stream = rpc_stream_open(link->channel, &request, &events, link, err);
    return link->stream == NULL ? (err->code != 0 ? err->code : ERR_UNAVAILABLE) : 0;
}

/* The pieces of the gradient that make up elements [first, first + count) of the shard. */
static size_t gather(const struct shard_link *link, uint64_t first, uint64_t count,
                     const float *gradient, struct rpc_piece *pieces)
{
    const struct ps_client *c = link->client;
    size_t n = 0;
    for (size_t i = 0; i < link->partition_count && count > 0; i++) {
        const struct partition *p = &link->partitions[i];
        if (first >= p->offset + p->count) {
            continue;
        }
        uint64_t skip = first - p->offset;
        uint64_t k = p->count - skip < count ? p->count - skip : count;
        pieces[n].data = gradient + c->variable_offsets[p->variable] + p->first + skip;
        pieces[n].bytes = k * sizeof(float);
        n++;
        first += k;
        count -= k;
    }
    return n;
}

static int send_one(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                    const struct rpc_blob *blob, struct err *err)
{
    int rc = rpc_stream_send(link->stream, &message->base, blob, err);
    while (rc == ERR_EXHAUSTED) {
        rc = rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
        if (rc == 0) {
            rc = rpc_stream_send(link->stream, &message->base, blob, err);
        }
    }
    return rc;
}

static int send_chunks(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                       const float *gradient, struct err *err)
{
    struct rpc_piece *pieces = mem_new(link->partition_count, sizeof *pieces);
    int rc = 0;
    message->total = link->elements;
    for (uint64_t at = 0; at < link->elements && rc == 0; at += CHUNK_ELEMENTS) {
        uint64_t n = link->elements - at < CHUNK_ELEMENTS ? link->elements - at : CHUNK_ELEMENTS;
        message->offset = at;
        struct sent *sent = mem_new(1, sizeof *sent);
        *sent = (struct sent){link->client, gradient};
        sending_change(link->client, gradient, 1);
        struct rpc_blob blob = {
            .pieces = pieces,
            .piece_count = gather(link, at, n, gradient, pieces),
            .release = on_sent,
            .ctx = sent,
        };
        rc = rpc_stream_send(link->stream, &message->base, &blob, err);
        if (rc == ERR_EXHAUSTED) {
            /* The blob was released; once the queue has room it goes as a copy. */
            blob.release = NULL;
            rc = rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
            if (rc == 0) {
                rc = send_one(link, message, &blob, err);
            }
        }
        message->shard = NULL;
        message->push = NULL;
        message->pull = NULL;
    }
    free(pieces);
    return rc;
}

static void fill_push(Gradus__V1__Push *push, const struct worker_action *a)
{
    push->step = a->step;
    push->replica_first = a->replica_first;
    push->replica_end = a->replica_end;
    push->epoch = a->batch.epoch;
    push->split = a->batch.split;
    push->batch = a->batch.batch;
    push->examples = a->examples;
    push->base_version = a->base_version;
}

static void fill_pull(Gradus__V1__Pull *pull, const struct worker_action *a)
{
    static const Gradus__V1__Pull__Kind kinds[] = {
        [WORKER_PULL_LATEST] = GRADUS__V1__PULL__KIND__LATEST,
        [WORKER_PULL_VERSION] = GRADUS__V1__PULL__KIND__VERSION,
        [WORKER_PULL_PINNED] = GRADUS__V1__PULL__KIND__PINNED,
    };
    pull->kind = kinds[a->pull];
    pull->version = a->version;
    /* The message borrows and is only read. */
    memcpy(&pull->pin_id, &(const char *){a->pin_id}, sizeof pull->pin_id);
    pull->progress = a->progress;
    pull->epoch = a->batch.epoch;
    pull->split = a->batch.split;
}

static int send_request(struct shard_link *link, const struct worker_action *a,
                        const float *gradient, struct err *err)
{
    struct ps_client *c = link->client;
    Gradus__V1__ShardRef shard = GRADUS__V1__SHARD_REF__INIT;
    shard.job = c->job;
    shard.shard = link->shard;
    shard.generation = a->generation;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    Gradus__V1__ExchangeRequest message = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    message.exchange = a->exchange;
    message.shard = &shard;
    message.worker = c->worker;
    message.idle = a->idle;
    if (a->push) {
        fill_push(&push, a);
        message.push = &push;
    }
    if (a->pull != WORKER_PULL_NONE) {
        fill_pull(&pull, a);
        message.pull = &pull;
    }
    if (a->push && gradient != NULL && link->elements > 0) {
        return send_chunks(link, &message, gradient, err);
    }
    return send_one(link, &message, NULL, err);
}

static struct pending *pending_take(struct shard_link *link, uint64_t exchange, float *values)
{
    for (size_t i = 0; i < PS_CLIENT_EXCHANGES_MAX; i++) {
        struct pending *p = &link->pending[i];
        if (p->state == SLOT_FREE) {
            *p = (struct pending){.state = SLOT_OPEN, .link = link, .values = values};
            p->answer.exchange = exchange;
            return p;
        }
    }
    return NULL;
}

void ps_client_exchange(struct ps_client *c, const struct worker_action *request, float *values,
                        const float *gradient)
{
    struct shard_link *link = &c->links[request->shard];
    struct err err = {0};
    int rc = link_open(link, &err);
    pthread_mutex_lock(&link->mutex);
    struct pending *p = pending_take(link, request->exchange, values);
    if (p != NULL && (rc != 0 || link->broken)) {
        answer_error(p, ERR_UNAVAILABLE, rc != 0 ? err.msg : "the stream was closed");
        p = NULL;
    } else if (p == NULL) {
        rc = ERR_EXHAUSTED;
    }
    pthread_mutex_unlock(&link->mutex);
    if (p == NULL) {
        if (rc == ERR_EXHAUSTED) {
            struct ps_answer full = {.exchange = request->exchange, .code = ERR_EXHAUSTED};
            (void)snprintf(full.message, sizeof full.message,
                           "shard %" PRIu32 ": %d exchanges are open already", link->shard,
                           PS_CLIENT_EXCHANGES_MAX);
            c->answered(c->ctx, &full);
        }
        return;
    }
    rc = send_request(link, request, gradient, &err);
    if (rc != 0) {
        /* A stream that takes no more is over, or must be: it may hold half a request. */
        rpc_stream_cancel(link->stream);
    }
}

/* ---- life ---- */

static int link_init(struct shard_link *link, struct ps_client *c, uint32_t shard,
                     const struct ps_client_options *o, struct err *err)
{
    link->client = c;
    link->shard = shard;
    link->partitions = plan_shard(o->plan, shard, &link->partition_count);
    link->elements = o->plan->shard_elements[shard];
    struct rpc_channel_options options = {
        .target = o->addresses[shard],
        .loop = c->rpc_loop,
        .message_bytes_max = o->message_bytes_max,
        .own_connection = true,
    };
    link->channel = rpc_channel_new(&options, err);
    if (link->channel == NULL) {
        return err->code != 0 ? err->code : ERR_INVALID;
    }
    return 0;
}

int ps_client_new(const struct ps_client_options *o, struct ps_client **out, struct err *err)
{
    struct err local = {0};
    struct ps_client *c = mem_new(1, sizeof *c);
    c->job = mem_strdup(o->job);
    c->worker = mem_strdup(o->worker);
    c->plan = o->plan;
    c->variable_offsets = o->variable_offsets;
    c->loop = o->loop;
    c->answered = o->answered;
    c->ctx = o->ctx;
    pthread_mutex_init(&c->sending_mutex, NULL);
    pthread_cond_init(&c->sending_cond, NULL);
    c->rpc_loop = rpc_loop_new(&local);
    int rc = c->rpc_loop == NULL ? local.code : 0;
    c->links = mem_new(o->plan->shard_count, sizeof *c->links);
    c->link_count = o->plan->shard_count;
    for (uint32_t s = 0; s < c->link_count; s++) {
        pthread_mutex_init(&c->links[s].mutex, NULL);
    }
    for (uint32_t s = 0; s < c->link_count && rc == 0; s++) {
        rc = link_init(&c->links[s], c, s, o, &local);
    }
    if (rc != 0) {
        err_set(err, rc, "%s", local.msg);
        ps_client_close(c);
        ps_client_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void ps_client_cancel(struct ps_client *c)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        rpc_channel_cancel(c->links[s].channel);
    }
}

void ps_client_close(struct ps_client *c)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct shard_link *link = &c->links[s];
        if (link->stream != NULL) {
            rpc_stream_free(link->stream);
            link->stream = NULL;
        }
        if (link->channel != NULL) {
            rpc_channel_free(link->channel);
            link->channel = NULL;
        }
    }
    wait_all_sent(c);
    if (c->rpc_loop != NULL) {
        rpc_loop_free(c->rpc_loop);
        c->rpc_loop = NULL;
    }
}

void ps_client_free(struct ps_client *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        pthread_mutex_destroy(&c->links[s].mutex);
    }
    free(c->links);
    pthread_mutex_destroy(&c->sending_mutex);
    pthread_cond_destroy(&c->sending_cond);
    free(c->job);
    free(c->worker);
    free(c);
}
