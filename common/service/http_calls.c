/* SPDX-License-Identifier: Apache-2.0 */
/* A call has two owners: the library, until the request is completed, and who is to answer it. */
#include "service/http_calls.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "service/http_gzip.h"

#define STREAM_BLOCK_BYTES ((size_t)8 << 10) /* as large as the library's room for a connection */

struct http_calls {
    struct http_pages pages;
    int wake_fd;
    size_t bodies;        /* bytes of requests without an answer; of the HTTP thread */
    pthread_mutex_t gate; /* held while the service is asked; guards closed */
    bool closed;
    pthread_mutex_t lock; /* guards what calls say is guarded, and streams */
    size_t streams;
};

struct http_call {
    struct http_calls *all;
    struct MHD_Connection *connection;
    char *method, *path;
    const char *row;
    struct auth_identity who;
    char peer[HTTP_PEER_BYTES];
    struct buf body;
    struct err refusal;
    bool asked; /* the service has it, or had it; of the HTTP thread */
    bool gzip;  /* the client takes it, and the answer may be packed */
    int fd;
    /* Guarded by the lock. */
    bool answered, suspended;
    unsigned owners;
    unsigned status;
    const char *type;
    char *header, *more;
    struct buf answer;        /* a stream: what was not sent yet, from @sent on */
    bool streams, over, gone; /* gone: the library has no connection for it any more */
    size_t sent;
};

struct http_calls *http_calls_new(const struct http_pages *pages)
{
    const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0) {
        return NULL;
    }
    struct http_calls *cs = mem_new(1, sizeof *cs);
    cs->wake_fd = wake_fd;
    cs->pages = pages != NULL ? *pages : (struct http_pages){.prefix = NULL};
    pthread_mutex_init(&cs->gate, NULL);
    pthread_mutex_init(&cs->lock, NULL);
    return cs;
}

int http_calls_fd(const struct http_calls *cs)
{
    return cs->wake_fd;
}

void http_calls_look(struct http_calls *cs)
{
    uint64_t times;
    ssize_t n = read(cs->wake_fd, &times, sizeof times);
    (void)n; /* nothing to read is fine */
}

void http_calls_free(struct http_calls *cs)
{
    if (cs == NULL) {
        return;
    }
    (void)close(cs->wake_fd);
    pthread_mutex_destroy(&cs->gate);
    pthread_mutex_destroy(&cs->lock);
    free(cs);
}

void http_calls_close(struct http_calls *cs)
{
    pthread_mutex_lock(&cs->gate);
    cs->closed = true;
    pthread_mutex_unlock(&cs->gate);
}

bool http_calls_has(const struct http_calls *cs, const char *path, const char **row)
{
    const size_t n = cs->pages.prefix == NULL ? 0 : strlen(cs->pages.prefix);
    if (n == 1) {
        *row = cs->pages.row(cs->pages.ctx, path);
        return *row != NULL;
    }
    if (n == 0 || strncmp(path, cs->pages.prefix, n) != 0 || (path[n] != '\0' && path[n] != '/')) {
        return false;
    }
    *row = cs->pages.row(cs->pages.ctx, path);
    return true;
}

enum http_deed http_calls_deed(const struct http_calls *cs, const char *method, const char *path)
{
    const bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    return posts && cs->pages.deed != NULL ? cs->pages.deed(cs->pages.ctx, path) : HTTP_LOOKS;
}

struct http_call *http_calls_begin(struct http_calls *cs, struct MHD_Connection *c,
                                   const struct http_asked *asked)
{
    struct http_call *call = mem_new(1, sizeof *call);
    call->all = cs;
    call->connection = c;
    call->method = mem_strdup(asked->method);
    call->path = mem_strdup(asked->path);
    call->row = asked->row;
    call->who = asked->who;
    memcpy(call->peer, asked->peer, sizeof call->peer);
    call->refusal = asked->refusal;
    call->gzip = http_gzip_taken(
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    call->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    call->owners = 1;
    return call;
}

static void forget_body(struct http_call *call)
{
    call->all->bodies -= call->body.len;
    buf_release(&call->body);
}

/* Too much is read to its end and thrown away, so that the client reads why. */
static void take_part(struct http_call *call, const char *upload, size_t n)
{
    struct http_calls *cs = call->all;
    if (call->refusal.code == 0 && n > cs->pages.body_bytes_max - call->body.len) {
        err_set(&call->refusal, ERR_EXHAUSTED, "the body has more than %zu bytes",
                cs->pages.body_bytes_max);
    } else if (call->refusal.code == 0 && n > cs->pages.bodies_bytes_max - cs->bodies) {
        err_set(&call->refusal, ERR_EXHAUSTED,
                "the requests in hand have %zu bytes already; try again later", cs->bodies);
    }
    if (call->refusal.code != 0) {
        forget_body(call);
        return;
    }
    buf_add(&call->body, upload, n);
    cs->bodies += n;
}

/* Called when all of before was sent. Without anything to send, the connection is put aside. */
static ssize_t read_stream(void *ctx, uint64_t at, char *to, size_t max)
{
    (void)at;
    struct http_call *call = ctx;
    struct http_calls *cs = call->all;
    pthread_mutex_lock(&cs->lock);
    const size_t left = call->answer.len - call->sent, n = left < max ? left : max;
    ssize_t result = (ssize_t)n;
    if (n > 0) {
        memcpy(to, call->answer.data + call->sent, n);
        call->sent += n;
        if (n == left) {
            buf_release(&call->answer);
            call->sent = 0;
        }
    } else if (call->over) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        call->suspended = true;
        MHD_suspend_connection(call->connection);
    }
    pthread_mutex_unlock(&cs->lock);
    return result;
}

static struct MHD_Response *make_response(struct http_call *call)
{
    if (call->streams) {
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream,
                                                 call, NULL);
    }
    call->gzip = call->gzip && http_gzip(&call->answer);
    const size_t n = call->answer.len;
    char *data = call->answer.data != NULL ? buf_take(&call->answer) : mem_strdup("");
    struct MHD_Response *r = MHD_create_response_from_buffer(n, data, MHD_RESPMEM_MUST_FREE);
    if (r == NULL) {
        free(data);
    } else if (call->gzip) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    return r;
}

static enum MHD_Result send_answer(struct http_call *call)
{
    struct MHD_Response *r = make_response(call);
    if (r == NULL) {
        return MHD_NO;
    }
    enum MHD_Result result = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, call->type);
    if (result == MHD_YES && call->header != NULL) {
        result = MHD_add_response_header(r, call->header, call->more);
    }
    if (result == MHD_YES) {
        result = MHD_queue_response(call->connection, call->status, r);
    }
    MHD_destroy_response(r);
    return result;
}

/* Hand it to the service; false: that is closed. */
static bool ask_service(struct http_call *call)
{
    struct http_calls *cs = call->all;
    pthread_mutex_lock(&cs->gate);
    const bool open = !cs->closed;
    if (open) {
        call->owners++;
        cs->pages.request(cs->pages.ctx, call);
    }
    pthread_mutex_unlock(&cs->gate);
    return open;
}

enum MHD_Result http_calls_go_on(struct http_call *call, const char *upload, size_t *upload_bytes)
{
    struct http_calls *cs = call->all;
    if (*upload_bytes > 0) {
        take_part(call, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    const bool open = call->asked || ask_service(call);
    call->asked = true;
    if (!open) {
        return MHD_NO; /* the process ends */
    }
    pthread_mutex_lock(&cs->lock);
    const bool answered = call->answered;
    if (!answered) {
        call->suspended = true;
        MHD_suspend_connection(call->connection);
    }
    pthread_mutex_unlock(&cs->lock);
    return answered ? send_answer(call) : MHD_YES;
}

static void drop(struct http_call *call)
{
    struct http_calls *cs = call->all;
    pthread_mutex_lock(&cs->lock);
    const bool last = --call->owners == 0;
    pthread_mutex_unlock(&cs->lock);
    if (last) {
        free(call->method);
        free(call->path);
        free(call->header);
        free(call->more);
        buf_release(&call->body);
        buf_release(&call->answer);
        free(call);
    }
}

bool http_calls_streams(struct http_call *call)
{
    pthread_mutex_lock(&call->all->lock);
    const bool streams = call->streams && !call->over;
    pthread_mutex_unlock(&call->all->lock);
    return streams;
}

void http_calls_end(struct http_call *call)
{
    pthread_mutex_lock(&call->all->lock);
    call->gone = true;
    call->suspended = false;
    pthread_mutex_unlock(&call->all->lock);
    call->all->bodies -= call->body.len; /* the code that answers may still read it */
    drop(call);
}

/* ---- for who answers ---- */

const char *http_call_method(const struct http_call *call)
{
    return call->method;
}

const char *http_call_path(const struct http_call *call)
{
    return call->path;
}

const char *http_call_header(const struct http_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

const struct buf *http_call_body(const struct http_call *call)
{
    return &call->body;
}

const struct auth_identity *http_call_who(const struct http_call *call)
{
    return &call->who;
}

const char *http_call_peer(const struct http_call *call)
{
    return call->peer;
}

const char *http_call_row(const struct http_call *call)
{
    return call->row;
}

const struct err *http_call_refusal(const struct http_call *call)
{
    return call->refusal.code != 0 ? &call->refusal : NULL;
}

/* With the lock. */
static void wake(struct http_call *call)
{
    if (call->suspended) {
        call->suspended = false;
        MHD_resume_connection(call->connection);
        const uint64_t one = 1;
        ssize_t n = write(call->all->wake_fd, &one, sizeof one);
        (void)n; /* a full counter wakes as well */
    }
}

/* With the lock. */
static void take_answer(struct http_call *call, const struct http_answer *answer)
{
    assert(!call->answered);
    call->status = answer->status;
    call->type = answer->type;
    call->gzip = call->gzip && answer->text;
    call->header = answer->header != NULL ? mem_strdup(answer->header) : NULL;
    call->more = answer->header != NULL ? mem_strdup(answer->more) : NULL;
    call->answered = true;
    wake(call);
}

void http_call_answer(struct http_call *call, const struct http_answer *answer)
{
    struct http_calls *cs = call->all;
    pthread_mutex_lock(&cs->lock);
    call->answer = *answer->body;
    *answer->body = (struct buf){0};
    take_answer(call, answer);
    pthread_mutex_unlock(&cs->lock);
    drop(call);
}

/* ---- streams ---- */

bool http_call_stream(struct http_call *call, const struct http_answer *head)
{
    struct http_calls *cs = call->all;
    pthread_mutex_lock(&cs->lock);
    const bool room = cs->streams < HTTP_STREAMS_MAX;
    if (room) {
        cs->streams++;
        call->streams = true;
        take_answer(call, head);
    }
    pthread_mutex_unlock(&cs->lock);
    return room;
}

bool http_stream_send(struct http_call *stream, const void *data, size_t n)
{
    struct http_calls *cs = stream->all;
    pthread_mutex_lock(&cs->lock);
    const size_t left = stream->answer.len - stream->sent;
    const bool well = !stream->gone && n <= HTTP_STREAM_BYTES_MAX - left;
    if (well && stream->sent > left) { /* seldom enough to cost nothing */
        memmove(stream->answer.data, stream->answer.data + stream->sent, left);
        stream->answer.len = left;
        stream->sent = 0;
    }
    if (well) {
        buf_add(&stream->answer, data, n);
        wake(stream);
    }
    pthread_mutex_unlock(&cs->lock);
    return well;
}

size_t http_stream_unsent(struct http_call *stream)
{
    pthread_mutex_lock(&stream->all->lock);
    const size_t left = stream->answer.len - stream->sent;
    pthread_mutex_unlock(&stream->all->lock);
    return left;
}

void http_stream_end(struct http_call *stream)
{
    struct http_calls *cs = stream->all;
    pthread_mutex_lock(&cs->lock);
    stream->over = true;
    cs->streams--;
    if (!stream->gone && !stream->suspended) {
        (void)shutdown(stream->fd, SHUT_RDWR); /* the library sees it and closes */
    }
    wake(stream);
    pthread_mutex_unlock(&cs->lock);
    drop(stream);
}
