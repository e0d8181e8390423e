/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that the shell of the master stores, and nodes that are gone. */
#include "shell_files_rig.h"

#include "base/release.h"
#include "support/held_port.h"

static struct store_row row; /* the last one that was put */
static char row_id[64], row_name[64], row_request[64];

static struct buf row_job;

static int put_code;

static int fake_put(struct store *s, const struct store_row *in, struct err *err)
{
    (void)s;
    row = *in;
    (void)snprintf(row_id, sizeof row_id, "%s", in->id);
    (void)snprintf(row_name, sizeof row_name, "%s", in->name);
    (void)snprintf(row_request, sizeof row_request, "%s", in->request_id);
    buf_reset(&row_job);
    buf_add(&row_job, in->job, in->job_bytes);
    return put_code == 0 ? 0 : err_set(err, put_code, "told to");
}

/* The row that was put, a damaged one, one of another job, and one whose file cannot be read. */
static int fake_load(struct store *s, size_t finished_limit,
                     int (*each)(void *ctx, const struct store_row *row, struct err *err),
                     void *ctx, struct err *err)
{
    (void)s;
    assert_int_equal(finished_limit, 77);
    struct store_row good = row, damaged = row, other = row, state_of = row;
    good.id = row_id;
    good.request_id = row_request;
    good.job = row_job.data;
    good.job_bytes = row_job.len;
    damaged = other = state_of = good;
    damaged.damage = "it is damaged";
    other.id = "demo-9";
    state_of.state = JOB_FAILED;
    const struct store_row *const rows[] = {&damaged, &other, &state_of, &good};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(each(ctx, rows[i], err), 0);
    }
    return put_code == 0 ? 0 : err_set(err, put_code, "told to");
}

/* The owner of a job whose row does not say: one of an earlier version. */
static int fake_get_text(struct store *s, const char *key, struct buf *out, struct err *err)
{
    (void)s;
    (void)err;
    assert_string_equal(key, "owner:de-mo-41");
    buf_add_str(out, "ann");
    return 0;
}

static struct store_trim trimmed;
static size_t trims, removed_first;

static int fake_trim(struct store *s, const struct store_trim *what, size_t *removed,
                     struct err *err)
{
    (void)s;
    trimmed = *what;
    *removed = trims++ == 0 ? removed_first : 0;
    return put_code == 0 ? 0 : err_set(err, put_code, "told to");
}

static const struct store_ops OPS = {
    .put = fake_put, .load = fake_load, .trim = fake_trim, .get_text = fake_get_text};

static void rows_say_all(void **state)
{
    (void)state;
    struct store store = {.ops = &OPS};
    static const struct master_settings settings = {
        .finished_max = 77, .finished_rows_max = 500, .finished_rows_age = 3600000};
    struct meter_registry *meters = meter_registry_new();
    struct err err = {0};
    files_shell.store = &store;
    files_shell.settings = &settings;
    files_shell.store_well = true;
    shell_meters_init(&files_shell, meters);
    job_record_set(&files_record.id, "de-mo-41");
    job_record_set(&files_record.name, "de-mo");
    job_record_set(&files_record.request_id, "r-5");
    job_record_set(&files_record.text, files_spec.text);
    files_record.state = JOB_RUNNING;
    assert_int_equal(shell_store_put(&files_shell, &files_record, &err), 0);
    assert_string_equal(row_id, "de-mo-41");
    assert_string_equal(row_name, "de-mo");
    assert_string_equal(row_request, "r-5");
    assert_int_equal(row.number, 41);
    assert_int_equal(row.state, JOB_RUNNING);
    assert_int_equal(row.submitted_ms, 7);
    assert_int_equal(row.ended_ms, 0);
    struct job_record back;
    assert_int_equal(job_wire_unpack(row_job.data, row_job.len, &back, &err), 0);
    assert_string_equal(back.id, "de-mo-41");
    job_record_release(&back);
    put_code = ERR_EXHAUSTED;
    assert_int_equal(shell_store_put(&files_shell, &files_record, &err), ERR_EXHAUSTED);

    /* Restored is what can be read; the rest is counted and stays where it is. */
    assert_int_equal(shell_restore(&files_shell, &err), ERR_EXHAUSTED);
    assert_int_equal(heard.count, 0);
    put_code = 0;
    trims = 0;
    removed_first = STORE_TRIM_MAX; /* there may be more */
    assert_int_equal(shell_restore(&files_shell, &err), 0);
    assert_int_equal(trims, 2);
    assert_int_equal(trimmed.listed, 77);
    assert_int_equal(trimmed.rows_max, 500);
    assert_int_equal(trimmed.old_ms, trimmed.now_ms - 3600000);
    assert_int_equal(trimmed.settled_ms, trimmed.now_ms - 3600000);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.kind, MASTER_RESTORE);
    assert_string_equal(heard.restored.id, "de-mo-41");
    assert_string_equal(heard.restored.request_id, "r-5");
    assert_string_equal(heard.restored.owner, "ann");
    assert_true(heard.has_spec);
    assert_true(meter_value(files_shell.meters.rows_unreadable) == 3);
    job_record_set(&files_record.text, "name: [");
    assert_int_equal(shell_store_put(&files_shell, &files_record, &err), 0);
    assert_int_equal(shell_restore(&files_shell, &err), 0);
    assert_false(heard.has_spec);
    assert_non_null(strstr(heard.text, "de-mo-41:2:1: ")); /* why */
    files_record.state = JOB_FAILED;                       /* nobody asks for its file any more */
    files_record.finished_ms = 9;
    assert_int_equal(shell_store_put(&files_shell, &files_record, &err), 0);
    assert_int_equal(row.ended_ms, 9);
    row.state = JOB_RUNNING; /* the good one becomes the one with another state */
    assert_int_equal(shell_restore(&files_shell, &err), 0);
    assert_false(heard.has_spec);
    assert_string_equal(heard.text, "");

    (void)err_set(&err, ERR_EXHAUSTED, "the disk is full");
    shell_store_is(&files_shell, &err);
    assert_string_equal(health, "the state of jobs cannot be stored: the disk is full");
    assert_true(meter_value(files_shell.meters.store_writable) == 0);
    (void)strcpy(files_shell.root_problem, "no root");
    shell_health(&files_shell);
    assert_string_equal(health, "the state of jobs cannot be stored: the disk is full; no root");
    shell_store_is(&files_shell, NULL);
    assert_string_equal(health, "no root");
    assert_true(meter_value(files_shell.meters.store_writable) == 1);
    files_shell.root_problem[0] = '\0';
    shell_health(&files_shell);
    assert_string_equal(health, "");
    meter_registry_free(meters);
    buf_release(&row_job);
}

static int listen_somewhere(char *out, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(out, n, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    return fd;
}

static void join(const char *address, uint64_t incarnation, uint64_t now_ms)
{
    struct master_event e = {.kind = MASTER_JOIN, .now_ms = now_ms, .wall_ms = 1};
    e.join = (struct master_join_event){.role = MASTER_WORKER,
                                        .incarnation = incarnation,
                                        .name = "",
                                        .address = address,
                                        .http_address = "",
                                        .version = release_version(),
                                        .protocol = RELEASE_PROTOCOL,
                                        .host = ""};
    master_step(files_shell.master, &e, &files_shell.actions);
}

static void begin_probes(void *ctx)
{
    probes_begin(ctx);
}

/* Of nodes whose heartbeats are late, the one where nobody listens is told of, and no other. */
static void who_is_gone_is_told_of(void **state)
{
    (void)state;
    char alive[64];
    struct held_port gone;
    const struct master_config config = {.heartbeat_timeout_ms = 60000, .jobs_max = 1};
    int listening = listen_somewhere(alive, sizeof alive);
    held_port_take(&gone);
    files_shell.master = master_new(&config);
    uint64_t now_ms = chrono_now_ms();
    assert_true(now_ms > 40000);
    join(alive, 81, now_ms - 40000);
    join(gone.address, 82, now_ms - 40000);
    assert_int_equal(loop_call(files_shell.loop, begin_probes, &files_shell, NULL), 0);
    for (size_t round = 1; round <= 2; round++) { /* until it is heard of, again and again */
        files_wait_events(round);
        assert_int_equal(heard.kind, MASTER_UNREACHABLE);
        assert_int_equal(heard.incarnation, 82);
        assert_string_equal(heard.text, "worker-2");
    }
    atomic_store(&files_shell.ending, true);
    (void)close(listening);
    held_port_release(&gone);
    pool_free(files_shell.probes);
    files_shell.probes = NULL;
    loop_stop(files_shell.loop);
    loop_join(files_shell.loop);
    loop_free(files_shell.loop);
    files_shell.loop = loop_new(64);
    assert_int_equal(loop_start(files_shell.loop, "test", NULL), 0);
    master_actions_release(&files_shell.actions);
    master_free(files_shell.master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_say_all),
        TEST(who_is_gone_is_told_of),
    };
    return cmocka_run_group_tests_name("shell_rows", tests, NULL, NULL);
}
