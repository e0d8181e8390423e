/* SPDX-License-Identifier: Apache-2.0 */
/* 5,000 pulls wait on one parameter server, a process of its own: test_ps_parked GRADUS-PS
 *
 * They are held as data, so they cost neither threads nor much memory, and each is answered with
 * the version it waited for. Prints what was measured. */
#include "unit/ps/ps_rig.h"

#include <dirent.h>

#include "base/vector.h"
#include "os/chrono.h"
#include "service/spawn.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"

#define PULLS 5000
#define CHANNELS 8 /* a connection carries 1024 calls at once */
#define VERSIONS 4 /* that they wait for, in turn */
#define RSS_MIB_MAX 200
#define THREADS_MORE_MAX 8 /* gRPC starts some when a burst keeps its own busy */
#define WAIT_MS_MAX 60000

static const char *program;

/* ---- the process ---- */

static size_t count_threads(pid_t pid)
{
    char *path = mem_printf("/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t n = 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(dir);
    free(path);
    return n;
}

/* "VmRSS" or "VmHWM" (the most it ever was), in MiB. */
static double memory_mib(pid_t pid, const char *what)
{
    char *path = mem_printf("/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[256];
    double kib = -1;
    while (kib < 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, what, strlen(what)) == 0) {
            kib = strtod(line + strlen(what) + 1, NULL);
        }
    }
    (void)fclose(f);
    free(path);
    assert_true(kib > 0);
    return kib / 1024;
}

static void start_process(struct spawn *s, char *dir, char *target, size_t target_bytes)
{
    struct err err = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    char *argv[] = {mem_strdup(program),
                    (char[]){"--master"},
                    (char[]){"127.0.0.1:1"},
                    (char[]){"--checkpoint-dir"},
                    dir,
                    NULL};
    char *log = mem_printf("%s/log", dir);
    if (spawn_start(s, "gradus-ps", argv, log, &err) != 0 ||
        spawn_ready_line(s, line, WAIT_MS_MAX, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(spawn_line_value(line, "grpc", target, target_bytes));
    free(log);
    free(argv[0]);
}

/* ---- the pulls ---- */

struct waiting {
    uint64_t version;
    struct tally *tally;
};

struct tally {
    struct waiting pulls[PULLS];
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    size_t answered, wrong;
    int code; /* of one that was wrong */
};

static void on_answer(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct waiting *w = ctx;
    bool fine = status->err.code == 0 &&
                ((const Gradus__V1__PullResponse *)reply->body)->version == w->version &&
                rpc_spans_bytes(reply->bulk) == ELEMENTS * sizeof(float);
    pthread_mutex_lock(&w->tally->lock);
    if (!fine) {
        w->tally->code = status->err.code;
        w->tally->wrong++;
    }
    w->tally->answered++;
    pthread_cond_signal(&w->tally->changed);
    pthread_mutex_unlock(&w->tally->lock);
}

/* Each of them ends by its own deadline, whatever happens. */
static void wait_answers(struct tally *t, size_t count)
{
    pthread_mutex_lock(&t->lock);
    wait_until_signalled(t->answered >= count, &t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void start_pull(struct rpc_channel *channel, char *job, struct waiting *w)
{
    Gradus__V1__PullRequest r = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    struct err err;
    pull.kind = GRADUS__V1__PULL__KIND__VERSION;
    pull.version = w->version;
    r.shard = &ref;
    r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    r.pull = &pull;
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = "Pull",
                                  .body = &r.base,
                                  .response_bulk = VALUES,
                                  .timeout_ms = 2 * WAIT_MS_MAX,
                                  .wait_for_ready = true};
    assert_int_equal(rpc_call_start(channel, &request, on_answer, w, &err), 0);
}

static uint64_t count_parked(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    uint64_t n = ((const Gradus__V1__StatsResponse *)reply->body)->shards[0]->requests_parked;
    rpc_msg_unref(reply);
    return n;
}

static void test_five_thousand_wait(void **state)
{
    (void)state;
    static struct tally tally = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER};
    static float values[ELEMENTS];
    struct spawn s = {0};
    struct err err;
    char *dir = tmp_dir_make("parked");
    char target[64];
    char job[] = "a-1";
    struct rpc_channel *channels[CHANNELS];
    start_process(&s, dir, target, sizeof target);
    for (size_t i = 0; i < CHANNELS; i++) {
        struct rpc_channel_options options = {.target = target, .own_connection = true};
        channels[i] = rpc_channel_new(&options, &err);
        assert_non_null(channels[i]);
    }
    struct ps_rig rig = {.channel = channels[0]};
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    for (size_t i = 0; i < CHANNELS; i++) {
        assert_int_equal(rpc_channel_wait_ready(channels[i], WAIT_MS_MAX, &err), 0);
    }
    assert_int_equal(count_parked(&rig), 0);
    size_t threads_before = count_threads(s.pid);
    double rss_before = memory_mib(s.pid, "VmRSS");
    uint64_t began_ms = chrono_now_ms();
    for (size_t i = 0; i < PULLS; i++) {
        tally.pulls[i] = (struct waiting){1 + i / (PULLS / VERSIONS), &tally};
        start_pull(channels[i % CHANNELS], job, &tally.pulls[i]);
    }
    wait_until(count_parked(&rig) >= PULLS);
    size_t threads = count_threads(s.pid);
    double rss = memory_mib(s.pid, "VmRSS");
    uint64_t parked_ms = chrono_now_ms() - began_ms;
    pthread_mutex_lock(&tally.lock);
    size_t early = tally.answered;
    pthread_mutex_unlock(&tally.lock);
    for (uint64_t step = 0; step < VERSIONS; step++) {
        ps_rig_expect(ps_rig_push(&rig, job, step, 0, 1, values, ELEMENTS, 1, NULL, &err), 0, &err,
                      "");
        wait_answers(&tally, (step + 1) * PULLS / VERSIONS);
    }
    double peak = memory_mib(s.pid, "VmHWM");
    print_message(
        "%d pulls waiting: threads %zu -> %zu, memory %.1f -> %.1f MiB, %.1f MiB at most; "
        "all waiting after %.2f s, all answered after %.2f s\n",
        PULLS, threads_before, threads, rss_before, rss, peak, (double)parked_ms * 1e-3,
        (double)(chrono_now_ms() - began_ms) * 1e-3);
    assert_int_equal(early, 0);
    assert_int_equal(tally.code, 0);
    assert_int_equal(tally.wrong, 0);
    assert_int_equal(count_parked(&rig), 0);
    assert_true(threads <= threads_before + THREADS_MORE_MAX);
#ifndef VECTOR_SANITIZED /* their own memory is many times ours */
    assert_true(peak < RSS_MIB_MAX);
#endif
    for (size_t i = 0; i < CHANNELS; i++) {
        rpc_channel_free(channels[i]);
    }
    assert_true(spawn_end(&s, WAIT_MS_MAX));
    spawn_release(&s);
    tmp_dir_remove(dir);
}

static int setup(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fputs("usage: test_ps_parked GRADUS-PS\n", stderr);
        return 2;
    }
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_thousand_wait),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
