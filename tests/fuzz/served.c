/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of rpc/rpc.h, execution/loop.h and execution/pool.h: one queue of what was posted,
 * and calls that count whether they are answered as they must be. Linked before the rooms, so that
 * none of their files with these functions is. */
#include "fuzz/served.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execution/loop.h"
#include "execution/pool.h"
#include "rpc/rpc_codec.h"

#define PIECES_MAX 64
#define NOW_MS UINT64_C(1000000)
#define UNSENT_BYTES 1000 /* what rpc_queued_bytes() says */

/* ---- the clock stands still ---- */

uint64_t __wrap_chrono_now_ms(void);
uint64_t __wrap_chrono_now_ns(void);
int64_t __wrap_chrono_wall_ms(void);

uint64_t __wrap_chrono_now_ms(void)
{
    return NOW_MS;
}

uint64_t __wrap_chrono_now_ns(void)
{
    return NOW_MS * 1000000;
}

int64_t __wrap_chrono_wall_ms(void)
{
    return 1700000000000;
}

/* ---- what was posted ---- */

struct task {
    struct task *next;
    void (*run)(void *ctx);
    void *ctx;
};

static struct task *first, **last = &first;

static int post(void (*run)(void *ctx), void *ctx)
{
    struct task *t = mem_new(1, sizeof *t);
    *t = (struct task){.run = run, .ctx = ctx};
    *last = t;
    last = &t->next;
    return 0;
}

void served_run(void)
{
    while (first != NULL) {
        struct task *t = first;
        first = t->next;
        last = first == NULL ? &first : last;
        t->run(t->ctx);
        free(t);
    }
}

struct loop {
    int unused;
};
struct pool {
    int unused;
};

struct loop *loop_new(size_t capacity)
{
    (void)capacity;
    return mem_new(1, sizeof(struct loop));
}

void loop_free(struct loop *loop)
{
    free(loop);
}

int loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    (void)loop;
    (void)err;
    return post(fn, ctx);
}

int loop_call(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    (void)loop;
    (void)err;
    fn(ctx);
    return 0;
}

bool loop_discarding(const struct loop *loop)
{
    (void)loop;
    return false;
}

size_t loop_waiting(struct loop *loop)
{
    (void)loop;
    return 0;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ms,
                    void (*fn)(void *ctx), void *ctx)
{
    (void)loop;
    *timer = (struct loop_timer){.deadline_ms = deadline_ms, .slot = 1, .fn = fn, .ctx = ctx};
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    (void)loop;
    timer->slot = 0;
}

void loop_run(struct loop *loop)
{
    (void)loop;
}

int loop_start(struct loop *loop, const char *name, struct err *err)
{
    (void)loop;
    (void)name;
    (void)err;
    return 0;
}

void loop_join(struct loop *loop)
{
    (void)loop;
}

void loop_stop(struct loop *loop)
{
    (void)loop;
}

struct pool *pool_new(unsigned threads, size_t queue, const char *name, struct err *err)
{
    (void)threads;
    (void)queue;
    (void)name;
    (void)err;
    return mem_new(1, sizeof(struct pool));
}

int pool_post(struct pool *p, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    (void)p;
    (void)err;
    return post(fn, ctx);
}

void pool_drain(struct pool *p)
{
    (void)p;
    served_run();
}

void pool_free(struct pool *p)
{
    pool_drain(p);
    free(p);
}

/* ---- calls ---- */

struct rpc_call {
    unsigned refs;
    const struct served_method *method;
    void *data;
    bool streams, over, paused, again;
    unsigned answers;
    struct rpc_msg *waiting; /* comes again */
};

static struct rpc_call *calls[SERVED_CALLS_MAX];
static size_t call_count;
static const char *key = "";
static bool is_local;
static struct auth_identity caller;

void served_caller(const char *metadata, bool local)
{
    key = metadata;
    is_local = local;
    auth_identity_open(&caller);
}

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    call->refs++;
    return call;
}

void rpc_call_unref(struct rpc_call *call)
{
    fuzz_require(call->refs > 0, "nobody returns what he has not");
    if (--call->refs == 0) {
        free(call);
    }
}

static void blob_gone(const struct rpc_blob *blob)
{
    if (blob != NULL && blob->release != NULL) {
        blob->release(blob->ctx);
    }
}

/* What leaves is packed, as it would be: all of it is there. */
static int answer(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob,
                  bool ends)
{
    int rc = call->over ? ERR_STATE : 0;
    size_t n = protobuf_c_message_get_packed_size(msg);
    uint8_t *packed = mem_new(n + 1, 1);
    (void)protobuf_c_message_pack(msg, packed);
    free(packed);
    for (size_t i = 0; blob != NULL && i < blob->piece_count; i++) {
        volatile uint8_t seen = 0;
        for (size_t k = 0; k < blob->pieces[i].bytes; k += 64) {
            seen = ((const uint8_t *)blob->pieces[i].data)[k];
        }
        (void)seen;
    }
    blob_gone(blob);
    fuzz_require(!ends || !call->over, "a call is answered once");
    call->over = call->over || ends;
    call->answers++;
    return rc;
}

int rpc_reply(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob)
{
    return answer(call, msg, blob, true);
}

int rpc_send(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob)
{
    return answer(call, msg, blob, false);
}

int rpc_finish(struct rpc_call *call)
{
    int rc = call->over ? ERR_STATE : 0;
    call->over = true;
    return rc;
}

int rpc_fail(struct rpc_call *call, const struct err *err)
{
    fuzz_require(call->streams || !call->over, "a call is answered once");
    fuzz_require(err->code < 0 && err->msg[0] != '\0', "a refusal says what was wrong");
    return rpc_finish(call);
}

int rpc_abandon(struct rpc_call *call, const struct err *err)
{
    return rpc_fail(call, err);
}

int rpc_fail_detail(struct rpc_call *call, const struct err *err, const ProtobufCMessage *detail)
{
    (void)detail;
    return rpc_fail(call, err);
}

void rpc_pause(struct rpc_call *call)
{
    call->paused = true;
}

void rpc_pause_again(struct rpc_call *call)
{
    call->paused = call->again = true;
}

void rpc_resume(struct rpc_call *call)
{
    call->paused = false;
}

bool rpc_cancelled(const struct rpc_call *call)
{
    (void)call;
    return false;
}

int64_t rpc_time_left_ms(const struct rpc_call *call)
{
    (void)call;
    return 10000;
}

const char *rpc_peer(struct rpc_call *call)
{
    (void)call;
    return is_local ? "unix:" : "ipv4:192.0.2.1:40000";
}

const char *rpc_method_name(const struct rpc_call *call)
{
    return call->method->row->name;
}

const struct auth_identity *rpc_caller(const struct rpc_call *call)
{
    (void)call;
    return &caller;
}

size_t rpc_queued_bytes(struct rpc_call *call)
{
    (void)call;
    return UNSENT_BYTES;
}

void rpc_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_data(const struct rpc_call *call)
{
    return call->data;
}

bool rpc_metadata(const struct rpc_call *call, const char *name, char *out, size_t n)
{
    (void)call;
    (void)name;
    out[0] = '\0';
    strncat(out, key, n - 1);
    return key[0] != '\0';
}

int rpc_set_header(struct rpc_call *call, const char *name, const char *value, struct err *err)
{
    (void)call;
    (void)name;
    (void)value;
    (void)err;
    return 0;
}

/* ---- from bytes to a handler ---- */

void served_methods(const ProtobufCServiceDescriptor *service, const struct rpc_method *rows,
                    size_t row_count, void *ctx, struct served_method *out, unsigned *count)
{
    for (size_t i = 0; i < row_count; i++) {
        const ProtobufCMethodDescriptor *m =
            protobuf_c_service_descriptor_get_method_by_name(service, rows[i].name);
        fuzz_require(m != NULL, "the table and the proto agree");
        out[(*count)++] =
            (struct served_method){.row = &rows[i], .input = m->input, .service = ctx};
    }
}

/* Slices of @piece bytes, with memory of their own, so that who reads behind one is seen. */
struct slices {
    struct rpc_piece pieces[PIECES_MAX];
    size_t count;
};

static void slices_release(void *ctx)
{
    struct slices *s = ctx;
    for (size_t i = 0; i < s->count; i++) {
        union {
            const void *in;
            void *out;
        } data = {.in = s->pieces[i].data};
        free(data.out);
    }
    free(s);
}

static struct rpc_msg *decode(const struct served_method *m, const uint8_t *data, size_t n,
                              size_t piece)
{
    struct slices *s = mem_new(1, sizeof *s);
    for (size_t at = 0; at < n || s->count == 0;) {
        size_t bytes = s->count == PIECES_MAX - 1 || piece == 0 || n - at < piece ? n - at : piece;
        void *copy = malloc(bytes);
        if (bytes > 0) {
            memcpy(copy, data + at, bytes);
        }
        s->pieces[s->count++] = (struct rpc_piece){copy, bytes};
        at += bytes;
    }
    const struct rpc_frame frame = {.pieces = s->pieces,
                                    .piece_count = s->count,
                                    .bytes = n,
                                    .release = slices_release,
                                    .ctx = s};
    const struct rpc_decoding how = {.type = m->input, .bulk_field = m->row->request_bulk};
    struct err err = {0};
    struct rpc_msg *msg = rpc_msg_decode(&how, &frame, &err);
    fuzz_require_error(msg == NULL ? err.code : 0, &err);
    return msg;
}

static struct rpc_call *call_for(const struct served_method *m)
{
    for (size_t i = 0; i < call_count; i++) {
        if (calls[i]->streams && calls[i]->method->row == m->row) {
            return calls[i];
        }
    }
    if (call_count == SERVED_CALLS_MAX) {
        return NULL;
    }
    struct rpc_call *call = mem_new(1, sizeof *call);
    *call = (struct rpc_call){.refs = 1, .method = m, .streams = m->row->open != NULL};
    calls[call_count++] = call;
    if (call->streams) {
        m->row->open(call, m->service);
        served_run();
    }
    return call;
}

/* A message, and again as long as the handler wants that and has been told to go on. */
static void deliver(struct rpc_call *call, struct rpc_msg *msg)
{
    do {
        call->again = call->paused = false;
        call->method->row->request(call, msg, call->method->service);
        served_run();
    } while (call->again && !call->paused);
    if (call->again) {
        call->waiting = rpc_msg_ref(msg);
    }
}

bool served_call(const struct served_method *m, const uint8_t *data, size_t n, size_t piece)
{
    struct rpc_msg *msg = decode(m, data, n, piece);
    struct rpc_call *call = msg == NULL ? NULL : call_for(m);
    if (call != NULL && !(call->streams && (call->over || call->waiting != NULL))) {
        deliver(call, msg);
    }
    rpc_msg_unref(msg);
    for (size_t i = 0; i < call_count; i++) { /* somebody has made room for those that wait */
        struct rpc_msg *waiting = calls[i]->waiting;
        if (waiting != NULL && !calls[i]->paused) {
            calls[i]->waiting = NULL;
            deliver(calls[i], waiting);
            rpc_msg_unref(waiting);
        }
    }
    return msg != NULL;
}

void served_end(void)
{
    for (size_t i = 0; i < call_count; i++) {
        struct rpc_call *call = calls[i];
        const struct rpc_method *row = call->method->row;
        if (call->streams && !call->over && row->half_close != NULL && call->waiting == NULL) {
            row->half_close(call, call->method->service);
            served_run();
        }
        bool cancelled = !call->over;
        call->over = call->over || row->done != NULL; /* nobody answers it after that */
        if (row->done != NULL) {
            row->done(call, cancelled, call->method->service);
        }
        served_run();
        rpc_msg_unref(call->waiting);
        rpc_call_unref(call);
    }
    call_count = 0;
    served_run();
}
