/* SPDX-License-Identifier: Apache-2.0 */
/* How a client calls the master: connect, send one request, wait for the answer. Control characters
 * are taken out of every answer before anybody sees it. */
#include "client/master_client.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "client/plain.h"
#include "os/chrono.h"
#include "os/signals.h"
#include "service/address.h"
#include "service/service.h"
#include "service/tls_settings.h"

#define AGAIN_MS 100 /* between calls to several masters, while none of them serves */

static unsigned patience_ms = CLIENT_TIMEOUT_MS;

void client_set_timeout(unsigned timeout_ms)
{
    patience_ms = timeout_ms;
}

unsigned client_timeout_ms(void)
{
    return patience_ms;
}

unsigned client_at_least_ms(unsigned timeout_ms)
{
    return timeout_ms > patience_ms ? timeout_ms : patience_ms;
}

char *client_text(const char *text)
{
    const union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

char **client_texts(const char *const *texts)
{
    const union {
        const char *const *in;
        char **out;
    } both = {.in = texts};
    return both.out;
}

/* Of several masters, "a,b:7001", each. Returns owned. */
static char *with_ports(const char *masters)
{
    struct buf out = {0};
    for (const char *at = masters; at != NULL;) {
        const size_t n = strcspn(at, ",");
        char *one = mem_printf("%.*s", (int)n, at);
        char *whole = address_with_port(one, SERVICE_MASTER_PORT);
        buf_printf(&out, "%s%s", out.len > 0 ? "," : "", whole);
        free(whole);
        free(one);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return buf_take(&out);
}

int client_open(struct client *c, const char *master, const struct tls_settings *tls,
                struct err *err)
{
    struct rpc_credentials *credentials = NULL;
    rpc_init();
    int rc = tls != NULL ? tls_settings_open(tls, false, &credentials, err) : 0;
    if (rc == 0) {
        char *target = with_ports(master);
        struct rpc_channel_options options = {.target = target, .credentials = credentials};
        c->channel = rpc_channel_new(&options, err);
        rc = c->channel == NULL ? ERR_INVALID : 0;
        free(target);
    }
    if (rc != 0) {
        rpc_credentials_free(credentials);
        rpc_shutdown();
        return rc;
    }
    c->credentials = credentials;
    c->several = strchr(master, ',') != NULL;
    return 0;
}

void client_close(struct client *c)
{
    if (c->channel != NULL) {
        rpc_channel_free(c->channel);
        rpc_credentials_free(c->credentials);
        *c = (struct client){0};
        rpc_shutdown();
    }
}

static int unreachable(const struct client *c, struct err *err)
{
    const char *target = rpc_channel_target(c->channel);
    return tls_explain(c->credentials, target, err)
               ? err->code
               : err_wrap(err, "the master cannot be reached at %s", target);
}

/* Words the error of a call for people: no answer at that address, an answer that takes too long,
 * and a refusal of the master are three different things. */
static int explain(const struct client *c, const struct rpc_status *status, struct err *err)
{
    plain_err(err);
    if (err->code != ERR_TIMEOUT && err->code != ERR_UNAVAILABLE) {
        return err->code;
    }
    if (status->answered) {
        err->code = ERR_UNKNOWN;
        return err->code;
    }
    return err->code == ERR_TIMEOUT && status->connected
               ? err_wrap(err, "the master has not answered in time")
               : unreachable(c, err);
}

/* Is there to be another call, since the channel leads to another master now, or will in a moment?
 */
static bool try_again(const struct client *c, const struct rpc_status *status, uint64_t until_ms)
{
    const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000L};
    if (!status->moved || (!status->answered && !c->several) ||
        chrono_now_ms() + AGAIN_MS >= until_ms) {
        return false;
    }
    (void)nanosleep(&pause, NULL);
    return true;
}

int client_call(struct client *c, const char *method, const ProtobufCMessage *body,
                unsigned timeout_ms, struct rpc_msg **reply, struct err *err)
{
    struct rpc_status status = {.details = NULL};
    struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor,
        .method = method,
        .body = body,
        .timeout_ms = timeout_ms,
        .wait_for_ready = !c->several,
        .terse = true,
        .status = &status,
    };
    const uint64_t until_ms = chrono_now_ms() + timeout_ms;
    int rc = rpc_call_blocking(c->channel, &request, reply, err);
    while (rc != 0 && try_again(c, &status, until_ms)) {
        const uint64_t now_ms = chrono_now_ms();
        request.timeout_ms = now_ms < until_ms ? (unsigned)(until_ms - now_ms) : 1;
        rpc_status_release(&status);
        rc = rpc_call_blocking(c->channel, &request, reply, err);
    }
    plain_reply(rc == 0 && reply != NULL ? *reply : NULL);
    rc = rc != 0 ? explain(c, &status, err) : 0;
    rpc_status_release(&status);
    return rc;
}

/* ---- calls that are waited for ---- */

/* The result of a call, which the callback leaves for the main thread. */
struct outcome {
    pthread_mutex_t mutex;
    bool done;
    struct rpc_status status; /* without its details */
    struct rpc_msg *reply;
    int event_fd;
};

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct outcome *o = ctx;
    pthread_mutex_lock(&o->mutex);
    o->done = true;
    o->status = *status;
    o->status.details = NULL;
    o->reply = status->err.code == 0 ? rpc_msg_ref(reply) : NULL;
    pthread_mutex_unlock(&o->mutex);
    uint64_t one = 1;
    ssize_t n = write(o->event_fd, &one, sizeof one);
    (void)n; /* a full counter is readable all the same */
}

static bool is_done(struct outcome *o)
{
    pthread_mutex_lock(&o->mutex);
    bool done = o->done;
    pthread_mutex_unlock(&o->mutex);
    return done;
}

/* Waits for the result; false: a signal came first. */
static bool wait_done(struct outcome *o, int signal_fd)
{
    struct pollfd fds[2] = {
        {.fd = o->event_fd, .events = POLLIN},
        {.fd = signal_fd, .events = POLLIN},
    };
    while (!is_done(o)) {
        int ready = poll(fds, 2, -1);
        if (ready > 0 && (fds[1].revents & POLLIN) != 0) {
            return is_done(o);
        }
    }
    return true;
}

sigset_t client_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    /* SIGHUP, when the terminal closes, unless the program was started with nohup(1). */
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
        sigaddset(&set, SIGHUP);
    }
    return set;
}

static int call_and_wait(struct client *c, const struct rpc_request *request, struct outcome *o,
                         bool *stopped, struct err *err)
{
    const sigset_t signals = client_signals();
    if (rpc_channel_wait_ready(c->channel, patience_ms, err) != 0) {
        return unreachable(c, err);
    }
    int signal_fd = signals_open(&signals, err);
    if (signal_fd < 0) {
        return signal_fd;
    }
    int rc = rpc_call_start(c->channel, request, on_done, o, err);
    *stopped = rc == 0 && !wait_done(o, signal_fd);
    (void)close(signal_fd);
    return rc;
}

int client_call_last(struct client *c, const char *method, const ProtobufCMessage *body,
                     unsigned timeout_ms, struct rpc_msg **reply, bool *stopped, struct err *err)
{
    struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                  .method = method,
                                  .body = body,
                                  .timeout_ms = timeout_ms,
                                  .terse = true};
    struct outcome o = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                        .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    *stopped = false;
    int rc = call_and_wait(c, &request, &o, stopped, err);
    if (rc == 0 && !*stopped && o.status.err.code != 0) {
        *err = o.status.err;
        rc = explain(c, &o.status, err);
    }
    client_close(c); /* no callback comes after it */
    plain_reply(o.reply);
    if (rc == 0 && !*stopped) {
        *reply = rpc_msg_ref(o.reply);
    }
    rpc_msg_unref(o.reply);
    (void)close(o.event_fd);
    pthread_mutex_destroy(&o.mutex);
    return rc;
}
