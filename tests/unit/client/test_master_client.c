/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a master that answers, refuses, says nothing, or is not there. */
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/master_client.h"
#include "os/signals.h"

#define LONG_MS 60000
#define SHORT_MS 100

/* What the master does with a call. */
enum answer { ANSWER_JOB, ANSWER_REFUSE, ANSWER_NOTHING };

struct master {
    struct rpc_server *server;
    struct rpc_method *methods;
    pthread_mutex_t lock; /* guards what follows */
    enum answer answer;
    int refuses;     /* with this code */
    bool interrupts; /* the process, once the call is there */
    char asked[64];
    struct rpc_call *held[2]; /* which are not answered */
    size_t held_count;
};

static void set_answer(struct master *m, enum answer answer, int refuses, bool interrupts)
{
    pthread_mutex_lock(&m->lock);
    m->answer = answer;
    m->refuses = refuses;
    m->interrupts = interrupts;
    pthread_mutex_unlock(&m->lock);
}

static void assert_asked(struct master *m, const char *job)
{
    pthread_mutex_lock(&m->lock);
    assert_string_equal(m->asked, job);
    pthread_mutex_unlock(&m->lock);
}

static void on_get(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct master *m = service;
    char id[] = "a-1", reason[] = "\x1b[31mred\r\nletters";
    const Gradus__V1__GetJobRequest *q = (const Gradus__V1__GetJobRequest *)msg->body;
    pthread_mutex_lock(&m->lock);
    (void)snprintf(m->asked, sizeof m->asked, "%s", q->job);
    if (m->answer == ANSWER_JOB) {
        Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
        job.id = id;
        job.reason = reason;
        (void)rpc_reply(call, &job.base, NULL);
    } else if (m->answer == ANSWER_REFUSE) {
        struct err err;
        (void)err_set(&err, m->refuses, "not\x1b[2J today");
        (void)rpc_fail(call, &err);
    } else {
        assert_true(m->held_count < sizeof m->held / sizeof m->held[0]);
        m->held[m->held_count++] = rpc_call_ref(call);
    }
    bool interrupts = m->interrupts;
    pthread_mutex_unlock(&m->lock);
    if (interrupts) {
        assert_int_equal(kill(getpid(), SIGTERM), 0);
    }
}

static const struct rpc_method METHODS[] = {{.name = "Get", .request = on_get}};

static void not_served(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    (void)service;
    struct err err;
    (void)err_set(&err, ERR_UNSUPPORTED, "not here");
    (void)rpc_fail(call, &err);
}

/* All methods of Jobs, of which tests call one. */
static void serve(struct master *m)
{
    const char *listen = "127.0.0.1:0";
    const struct rpc_server_options options = {
        .addresses = &listen, .address_count = 1, .grace_ms = 1};
    const ProtobufCServiceDescriptor *jobs = &gradus__v1__jobs__descriptor;
    struct rpc_method *methods = calloc(jobs->n_methods, sizeof *methods);
    struct err err = {0};
    assert_non_null(methods);
    for (unsigned i = 0; i < jobs->n_methods; i++) {
        const char *name = jobs->methods[i].name;
        methods[i] = strcmp(name, "Get") == 0
                         ? METHODS[0]
                         : (struct rpc_method){.name = name, .request = not_served};
    }
    m->server = rpc_server_new(&options, &err);
    assert_non_null(m->server);
    if (rpc_server_add(m->server, jobs, methods, jobs->n_methods, m, &err) != 0 ||
        rpc_server_start(m->server, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    m->methods = methods;
}

static void begin(struct master *m, struct client *c)
{
    *m = (struct master){.answer = ANSWER_JOB, .lock = PTHREAD_MUTEX_INITIALIZER};
    *c = (struct client){0};
    serve(m);
    assert_int_equal(client_open(c, rpc_server_address(m->server, 0), NULL, NULL), 0);
    assert_non_null(c->channel);
    assert_null(c->credentials);
}

static void end(struct master *m, struct client *c)
{
    client_close(c);
    assert_null(c->channel);
    client_close(c);            /* again is fine */
    rpc_server_stop(m->server); /* no call comes any more */
    for (size_t i = 0; i < m->held_count; i++) {
        rpc_call_unref(m->held[i]);
    }
    rpc_server_free(m->server);
    free(m->methods);
}

static int get(struct client *c, unsigned timeout_ms, struct rpc_msg **reply, struct err *err)
{
    char id[] = "a-1";
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = id;
    return client_call(c, "Get", &q.base, timeout_ms, reply, err);
}

static int get_last(struct client *c, unsigned timeout_ms, struct rpc_msg **reply, bool *stopped,
                    struct err *err)
{
    char id[] = "a-2";
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = id;
    return client_call_last(c, "Get", &q.base, timeout_ms, reply, stopped, err);
}

static void assert_plain_job(struct rpc_msg *reply)
{
    assert_non_null(reply);
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)reply->body;
    assert_string_equal(job->id, "a-1");
    assert_string_equal(job->reason, "?[31mred \nletters");
    rpc_msg_unref(reply);
}

static void assert_says(const struct err *err, const char *says)
{
    if (strstr(err->msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err->msg, says);
    }
}

/* Nothing of what a master says reaches a terminal as it is. */
static void test_answers_are_plain(void **state)
{
    (void)state;
    struct master m;
    struct client c;
    struct rpc_msg *reply = NULL;
    bool stopped = true;
    struct err err = {0};
    begin(&m, &c);
    assert_int_equal(get(&c, LONG_MS, &reply, &err), 0);
    assert_asked(&m, "a-1");
    assert_plain_job(reply);
    assert_int_equal(get(&c, LONG_MS, NULL, &err), 0); /* who wants no answer */
    reply = NULL;
    assert_int_equal(get_last(&c, LONG_MS, &reply, &stopped, &err), 0);
    assert_false(stopped);
    assert_null(c.channel); /* it was the last one */
    assert_asked(&m, "a-2");
    assert_plain_job(reply);
    end(&m, &c);
}

/* A code that would mean that nobody is there means something else when somebody says it. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        int said, comes;
    } CODES[] = {{ERR_NOT_FOUND, ERR_NOT_FOUND},
                 {ERR_STATE, ERR_STATE},
                 {ERR_UNAVAILABLE, ERR_UNKNOWN},
                 {ERR_TIMEOUT, ERR_UNKNOWN}};
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        struct master m;
        struct client c;
        struct rpc_msg *reply = NULL;
        bool stopped = true;
        struct err err = {0}, last = {0};
        begin(&m, &c);
        set_answer(&m, ANSWER_REFUSE, CODES[i].said, false);
        assert_int_equal(get(&c, LONG_MS, &reply, &err), CODES[i].comes);
        assert_int_equal(err.code, CODES[i].comes);
        assert_says(&err, "not?[2J today");
        assert_null(strstr(err.msg, "cannot be reached"));
        assert_int_equal(get_last(&c, LONG_MS, &reply, &stopped, &last), CODES[i].comes);
        assert_int_equal(last.code, CODES[i].comes);
        assert_says(&last, "not?[2J today");
        assert_false(stopped);
        assert_null(reply);
        end(&m, &c);
    }
}

static void test_a_master_that_says_nothing(void **state)
{
    (void)state;
    struct master m;
    struct client c;
    struct rpc_msg *reply = NULL;
    bool stopped = true;
    struct err err = {0};
    begin(&m, &c);
    assert_int_equal(get(&c, LONG_MS, NULL, &err), 0); /* so it is connected */
    set_answer(&m, ANSWER_NOTHING, 0, false);
    assert_int_equal(get(&c, SHORT_MS, &reply, &err), ERR_TIMEOUT);
    assert_says(&err, "the master has not answered in time");
    assert_null(reply);
    err = (struct err){0};
    assert_int_equal(get_last(&c, SHORT_MS, &reply, &stopped, &err), ERR_TIMEOUT);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_false(stopped);
    assert_null(reply);
    end(&m, &c);
}

/* Whoever waits for long may be told to stop. */
static void test_a_signal_ends_a_call(void **state)
{
    (void)state;
    struct master m;
    struct client c;
    struct rpc_msg *reply = NULL;
    bool stopped = false;
    struct err err = {0};
    const sigset_t set = client_signals();
    begin(&m, &c);
    set_answer(&m, ANSWER_NOTHING, 0, true);
    assert_int_equal(get_last(&c, 0, &reply, &stopped, &err), 0);
    assert_true(stopped);
    assert_null(reply);
    assert_null(c.channel);
    end(&m, &c);
    int fd = signals_open(&set, NULL); /* it waits for whoever asks what it was */
    assert_true(fd >= 0);
    assert_int_equal(signals_read(fd), SIGTERM);
    assert_int_equal(signals_read(fd), 0);
    (void)close(fd);
}

/* That nobody is there, and where, is said; who asks may have to wait for it. */
static void test_nobody_is_there(void **state)
{
    (void)state;
    struct client c = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    assert_int_equal(client_open(&c, "127.0.0.1:1", NULL, &err), 0);
    int rc = get(&c, SHORT_MS, &reply, &err);
    assert_true(rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT);
    assert_int_equal(err.code, rc);
    assert_says(&err, "the master cannot be reached at 127.0.0.1:1");
    assert_null(reply);
    client_close(&c);
}

static void test_addresses_and_files_that_cannot_be(void **state)
{
    (void)state;
    struct client c = {0};
    struct err err = {0};
    char missing[] = "/no/such/file.pem", none[] = "";
    const struct tls_settings tls = {.cert = missing,
                                     .key = missing,
                                     .ca = missing,
                                     .name = none,
                                     .token_file = none,
                                     .token = none};
    assert_int_equal(client_open(&c, "non:sense", NULL, &err), ERR_INVALID);
    assert_says(&err, "non:sense");
    assert_null(c.channel);
    err = (struct err){0};
    assert_int_not_equal(client_open(&c, "127.0.0.1:1", &tls, &err), 0);
    assert_says(&err, missing);
    assert_null(c.channel);
    client_close(&c); /* there is nothing to close */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_plain),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_master_that_says_nothing),
        cmocka_unit_test(test_a_signal_ends_a_call),
        cmocka_unit_test(test_nobody_is_there),
        cmocka_unit_test(test_addresses_and_files_that_cannot_be),
    };
    const sigset_t set = client_signals();
    signals_block(&set);
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
