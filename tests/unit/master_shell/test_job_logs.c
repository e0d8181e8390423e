/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of jobs: what is kept of what the master wrote and nodes sent, what goes first, and
 * what Jobs.Logs answers. Over real gRPC, with a core that is a table. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_logs.h"
#include "os/log.h"
#include "os/log_secret.h"
#include "os/log_tail.h"

static struct shell shell;
static struct store store;
static struct rpc_server *server;
static struct rpc_channel *channel;
static struct master_settings settings;
static struct job_record record;
static struct master_node_info nodes[3];

/* ---- the core and the store ---- */

/* Jobs whose names begin with "a" are there. */
const struct job_record *master_job(struct master *m, const char *name, uint64_t now_ms)
{
    (void)m;
    (void)now_ms;
    return name[0] == 'a' ? &record : NULL;
}

const struct job_record *master_job_at(struct master *m, size_t i, uint64_t now_ms)
{
    (void)m;
    (void)i;
    (void)now_ms;
    return NULL;
}

size_t master_job_place(const struct master *m, const char *name)
{
    (void)m;
    (void)name;
    return 0;
}

bool master_node_at(struct master *m, size_t i, uint64_t now_ms, struct master_node_info *out)
{
    (void)m;
    (void)now_ms;
    if (i < 3) {
        *out = nodes[i];
    }
    return i < 3;
}

void shell_event(struct shell *s, struct master_event *e)
{
    (void)s;
    fail_msg("nobody asks the core for %d", (int)e->kind);
}

static int get(struct store *s, const char *job, struct buf *packed, struct err *err)
{
    (void)s;
    (void)packed;
    return strcmp(job, "old-1") == 0   ? 0
           : strcmp(job, "bad-1") == 0 ? err_set(err, ERR_EXHAUSTED, "the disk is full")
                                       : err_set(err, ERR_NOT_FOUND, "no row");
}

/* ---- the rig ---- */

static int set_up(void **state)
{
    (void)state;
    struct err err;
    static const struct store_ops ops = {.get = get};
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    rpc_init();
    store.ops = &ops;
    settings.heartbeat_timeout_ms = 1000;
    settings.heartbeat_interval_ms = 100;
    shell = (struct shell){.store = &store, .settings = &settings, .loop = loop_new(64)};
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__jobs__descriptor, jobs_methods,
                                    jobs_method_count, &shell, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    const struct rpc_channel_options to = {.target = rpc_server_address(server, 0)};
    channel = rpc_channel_new(&to, &err);
    assert_non_null(channel);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rpc_channel_free(channel);
    rpc_server_free(server);
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    job_record_release(&record);
    rpc_shutdown();
    return 0;
}

/* Between calls nothing is on the loop's thread: the test's may be its owner. */
static int begin(void **state)
{
    (void)state;
    job_logs_release(&shell);
    shell.logs = (struct job_logs){0};
    job_record_release(&record);
    job_record_init(&record);
    job_record_set(&record.id, "a-1");
    record.state = JOB_RUNNING;
    job_names_add(&record.ps, "ps-1");
    nodes[0] = (struct master_node_info){.id = "ps-1", .alive = true};
    nodes[1] = (struct master_node_info){.id = "worker-1"};
    nodes[2] = (struct master_node_info){.id = "idle", .alive = true};
    return 0;
}

static void own(const char *text)
{
    const struct master_log line = {.level = LOG_LEVEL_WARN, .event = "told", .text = text};
    job_logs_add_own(&shell, &line);
}

static void heard(const char *node, uint64_t number, const char *job, const char *text)
{
    char id[64], level[] = "ERROR", event[] = "printed", name[256];
    char *copy = mem_strdup(text);
    Gradus__V1__NodeRef ref = GRADUS__V1__NODE_REF__INIT;
    Gradus__V1__NodeLine line = GRADUS__V1__NODE_LINE__INIT, *lines[] = {&line};
    (void)snprintf(id, sizeof id, "%s", node);
    (void)snprintf(name, sizeof name, "%s", job);
    ref.id = id;
    ref.incarnation = 7;
    line.number = number;
    line.time_ms = (int64_t)number;
    line.level = level;
    line.job = name;
    line.event = event;
    line.text = copy;
    line.lost = 2;
    job_logs_heard(&shell, &ref, lines, 1);
    free(copy);
}

static struct err failure;

static struct rpc_msg *ask(const char *job, const char *node, uint64_t after)
{
    char id[64], name[64];
    Gradus__V1__LogsRequest q = GRADUS__V1__LOGS_REQUEST__INIT;
    (void)snprintf(id, sizeof id, "%s", job);
    (void)snprintf(name, sizeof name, "%s", node);
    q.job = id;
    q.node = name;
    q.after = after;
    const struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                        .method = "Logs",
                                        .body = &q.base,
                                        .timeout_ms = 60000,
                                        .wait_for_ready = true};
    struct rpc_msg *reply = NULL;
    failure = (struct err){0};
    (void)rpc_call_blocking(channel, &request, &reply, &failure);
    return reply;
}

static const Gradus__V1__LogsResponse *of(const struct rpc_msg *reply)
{
    if (reply == NULL) {
        fail_msg("%s", failure.msg);
    }
    return (const Gradus__V1__LogsResponse *)reply->body;
}

static void refused(const char *job, const char *node, int code, const char *says)
{
    assert_null(ask(job, node, 0));
    assert_int_equal(failure.code, code);
    if (strstr(failure.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", failure.msg, says);
    }
}

/* ---- tests ---- */

static void test_what_is_kept(void **state)
{
    (void)state;
    own("of no job");
    own("job=gone-1 x=1");
    own("job=a-1 x=1");
    heard("ps-1", 4, "gone-1", "of another");
    heard("ps-1", 4, "a-1", "four\x1b[2J\n");
    heard("ps-1", 4, "a-1", "four"); /* the answer was lost */
    heard("ps-1", 3, "a-1", "three");
    heard("worker-1", 1, "a-1", "password=hunter2hunter2");
    struct rpc_msg *reply = ask("a-1", "", 0);
    const Gradus__V1__LogsResponse *r = of(reply);
    assert_int_equal(r->n_lines, 3);
    assert_string_equal(r->lines[0]->text, LOG_SECRET_SHOWN); /* by their times */
    assert_string_equal(r->lines[0]->level, "ERROR");
    assert_string_equal(r->lines[1]->text, "four?[2J ");
    assert_string_equal(r->lines[1]->event, "printed");
    assert_int_equal(r->lines[1]->lost, 2);
    assert_int_equal(r->lines[1]->time_ms, 4);
    assert_string_equal(r->lines[2]->node, "master");
    assert_string_equal(r->lines[2]->level, "WARN");
    assert_string_equal(r->lines[2]->text, "job=a-1 x=1");
    assert_int_equal(r->n_gone, 1);
    assert_string_equal(r->gone[0], "worker-1");
    assert_false(r->complete);
    assert_false(r->forgotten);
    const uint64_t next = r->next;
    rpc_msg_unref(reply);
    heard("ps-1", 5, "a-1", "five");
    reply = ask("a-1", "", next);
    assert_int_equal(of(reply)->n_lines, 1);
    assert_string_equal(of(reply)->lines[0]->text, "five");
    assert_int_equal(of(reply)->next, next + 1);
    rpc_msg_unref(reply);
}

static void test_one_node(void **state)
{
    (void)state;
    own("job=a-1 x=1");
    heard("lost-1", 1, "a-1", "once"); /* a node that nobody knows any more */
    struct rpc_msg *reply = ask("a-1", "lost-1", 0);
    assert_int_equal(of(reply)->n_lines, 1);
    assert_int_equal(of(reply)->n_gone, 0);
    rpc_msg_unref(reply);
    reply = ask("a-1", "ps-1", 0); /* it has written nothing */
    assert_int_equal(of(reply)->n_lines, 0);
    rpc_msg_unref(reply);
    reply = ask("a-1", "master", 0);
    assert_int_equal(of(reply)->n_lines, 1);
    rpc_msg_unref(reply);
    refused("a-1", "idle", ERR_STATE, "node idle is not one of job a-1");
    refused("a-1", "ps-9", ERR_NOT_FOUND, "no node ps-9; no line of it is kept for job a-1");
    refused("none-1", "", ERR_NOT_FOUND, "no job none-1");
    refused("bad-1", "", ERR_EXHAUSTED, "the disk is full");
}

static void test_jobs_that_have_ended(void **state)
{
    (void)state;
    struct rpc_msg *reply = ask("old-1", "", 12);
    assert_int_equal(of(reply)->n_lines, 0);
    assert_int_equal(of(reply)->next, 12);
    assert_true(of(reply)->complete);
    rpc_msg_unref(reply);
    own("job=a-1 x=1");
    record.state = JOB_SUCCEEDED;
    record.finished_ms = INT64_MAX; /* of a clock that was set back, say: its nodes may have more */
    reply = ask("a-1", "", 0);
    assert_false(of(reply)->complete);
    rpc_msg_unref(reply);
    record.finished_ms = 1;
    reply = ask("a-1", "", 0);
    assert_true(of(reply)->complete);
    assert_int_equal(of(reply)->n_lines, 1);
    rpc_msg_unref(reply);
    job_logs_forget(&shell, "a-1");
    job_logs_forget(&shell, "a-1");
    assert_null(job_logs_find(&shell, "a-1"));
    assert_int_equal(shell.logs.bytes, 0);
}

static void test_a_job_has_its_share(void **state)
{
    (void)state;
    static char text[2 * LOG_TAIL_TEXT_BYTES];
    for (uint64_t i = 1; i <= JOB_LOG_LINES + 5; i++) {
        heard("ps-1", i, "a-1", "short");
    }
    const struct job_log *log = job_logs_find(&shell, "a-1");
    assert_int_equal(log->count, JOB_LOG_LINES);
    assert_int_equal(log->oldest->told, 6);
    struct rpc_msg *reply = ask("a-1", "", 0);
    assert_true(of(reply)->forgotten);
    assert_int_equal(of(reply)->n_lines, JOB_LOG_LINES);
    const uint64_t next = of(reply)->next;
    rpc_msg_unref(reply);
    reply = ask("a-1", "", next);
    assert_false(of(reply)->forgotten); /* nothing that it has not seen */
    rpc_msg_unref(reply);
    memset(text, 'x', sizeof text - 1);
    for (uint64_t i = 2000; i < 3000; i++) {
        heard("ps-1", i, "a-1", text);
    }
    assert_true(log->bytes <= JOB_LOG_BYTES && log->bytes > JOB_LOG_BYTES / 2);
    assert_true(log->count < JOB_LOG_LINES);
    assert_true(strlen(log->newest->text) < LOG_TAIL_TEXT_BYTES);
}

static void test_all_jobs_have_theirs(void **state)
{
    (void)state;
    static char text[LOG_TAIL_TEXT_BYTES];
    char job[16];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 120; i++) {
        (void)snprintf(job, sizeof job, "a-%d", i);
        for (uint64_t k = 1; k <= 200; k++) {
            heard("ps-1", k, job, text);
        }
        own("job=a-0 x=1"); /* it is never the one that was silent longest */
        assert_true(shell.logs.bytes <= JOB_LOGS_BYTES);
    }
    assert_non_null(job_logs_find(&shell, "a-0"));
    assert_non_null(job_logs_find(&shell, "a-119"));
    assert_null(job_logs_find(&shell, "a-1"));
    job_logs_release(&shell);
    assert_int_equal(shell.logs.bytes, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_kept),         TEST(test_one_node),
        TEST(test_jobs_that_have_ended), TEST(test_a_job_has_its_share),
        TEST(test_all_jobs_have_theirs),
    };
    return cmocka_run_group_tests_name("job_logs", tests, set_up, tear_down);
}
