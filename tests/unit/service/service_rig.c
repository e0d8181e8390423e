/* SPDX-License-Identifier: Apache-2.0 */
/* The service of the tests of service_main(). */
#include "service_rig.h"

#include "support/wait_until.h"

static const struct field toy_fields[] = {
    {.path = "flavour",
     .type = FIELD_STRING,
     .offset = offsetof(struct toy_config, flavour),
     .help = "What it tastes of"},
    {.path = "size",
     .type = FIELD_INT,
     .offset = offsetof(struct toy_config, size),
     .def = "3",
     .min = 1,
     .max = 9,
     .help = "How large it is"},
    {.path = "hang_at_end",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, hang),
     .def = "false",
     .help = "Never end by itself"},
    {.path = "sick",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, sick),
     .def = "false",
     .help = "Say that it is not well"},
    {.path = "absent",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, absent),
     .def = "false",
     .help = "Be unknown to others"},
    {.path = "stuck",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, stuck),
     .def = "false",
     .help = "Have a loop that does not turn"},
};

static int toy_check(const void *config, struct err *err)
{
    const struct toy_config *c = config;
    return strcmp(c->flavour, "soap") == 0
               ? err_set(err, ERR_INVALID, "--flavour: \"soap\" is not food")
               : 0;
}

static int toy_start(struct service_context *sc, struct err *err)
{
    const struct toy_config *c = service_config(sc);
    if (strcmp(c->flavour, "sour") == 0) {
        return err_set(err, ERR_STATE, "the milk \"is\" sour");
    }
    service_set_state(sc, strdup(c->flavour));
    if (c->stuck) {
        struct pulse *pulse = service_pulse(sc);
        pulse->name = "treadmill";
        atomic_store(&pulse->beat_ms, 1); /* once, when the machine was started */
    }
    if (c->absent) {
        service_set_absent(sc, "nobody knows the toy");
    }
    return 0;
}

int toy_ready(struct service_context *sc, struct err *err)
{
    const struct toy_config *c = service_config(sc);
    bool late = strcmp(c->flavour, "late") == 0;
    log_info("toy_waits", "late=%d", late);
    wait_until(!late || service_ending(sc));
    if (late || strcmp(c->flavour, "never") == 0) {
        return err_set(err, ERR_CANCELLED, "the toy gave up");
    }
    log_info("toy_ready", "advertised=%s http=%s", service_advertised(sc),
             service_http_advertised(sc));
    if (c->sick) {
        service_set_unhealthy(sc, "the toy is sick");
    }
    return 0;
}

void toy_drain(struct service_context *sc, int64_t grace_ms)
{
    const struct toy_config *c = service_config(sc);
    log_info("toy_drain", "grace_ms=%lld", (long long)grace_ms);
    while (c->hang) {
        pause();
    }
}

void toy_stop(struct service_context *sc)
{
    log_info("toy_stop", "state=%s", (const char *)service_state(sc));
    free(service_state(sc));
}

const struct service TOY = {
    .name = "toy",
    .summary = "a service for tests",
    .fields = toy_fields,
    .field_count = sizeof toy_fields / sizeof toy_fields[0],
    .config_bytes = sizeof(struct toy_config),
    .listen = "127.0.0.2:0", /* not what it would be anyway */
    .check = toy_check,
    .start = toy_start,
    .ready = toy_ready,
    .drain = toy_drain,
    .stop = toy_stop,
};

int child_set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = tmp_dir_make("service");
    f->log_path = file_join(f->dir, "log");
    f->config_path = file_join(f->dir, "toy.yaml");
    *state = f;
    return 0;
}

int child_tear_down(void **state)
{
    struct fixture *f = *state;
    spawn_release(&f->child);
    tmp_dir_remove(f->dir);
    free(f->log_path);
    free(f->config_path);
    free(f);
    return 0;
}

/* Start this program as @role with @flags (NULL-terminated). */
void child_start(struct fixture *f, const char *role, const char *const *flags)
{
    char *argv[FLAGS_MAX + 3] = {strdup("/proc/self/exe"), strdup(role)};
    size_t n = 2;
    for (size_t i = 0; flags[i] != NULL; i++) {
        assert_true(n < FLAGS_MAX);
        argv[n++] = strdup(flags[i]);
    }
    struct err err = {0};
    if (spawn_start(&f->child, "toy", argv, f->log_path, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < n; i++) {
        free(argv[i]);
    }
}

void child_wait_ready(struct fixture *f)
{
    struct err err = {0};
    if (spawn_ready_line(&f->child, f->line, WAIT_MS, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

const char *child_log_text(struct fixture *f)
{
    FILE *file = fopen(f->log_path, "r");
    assert_non_null(file);
    size_t n = fread(f->text, 1, sizeof f->text - 1, file);
    f->text[n] = '\0';
    (void)fclose(file);
    return f->text;
}

const char *child_stdout_text(struct fixture *f)
{
    size_t n = 0;
    for (ssize_t k = 1; k > 0; n += k > 0 ? (size_t)k : 0) {
        k = read(f->child.stdout_fd, f->text + n, sizeof f->text - 1 - n);
    }
    f->text[n] = '\0';
    return f->text;
}

void child_assert_exit(struct fixture *f, const char *expected)
{
    char how[64];
    assert_int_equal(spawn_wait(&f->child, WAIT_MS, NULL), 0);
    spawn_describe(&f->child, how, sizeof how);
    if (strcmp(how, expected) != 0) {
        fail_msg("%s instead of %s; log:\n%s", how, expected, child_log_text(f));
    }
}

void child_assert_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

/* As OpenBLAS does: a thread that was there before main() and blocks no signal. */
static void *linger(void *arg)
{
    while (pause() != 0) {
    }
    return arg;
}

void child_start_foreign_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, linger, NULL) != 0) {
        abort();
    }
    pthread_detach(thread);
}

/* A process that starts the service, passes its ready line on, and waits for its own end. */
int child_be_starter(void)
{
    struct spawn child = {0};
    char exe[] = "/proc/self/exe";
    char role[] = AS_SERVICE;
    char flavour[] = "--flavour=plum";
    char follow[] = "--exit-with-parent";
    char *const argv[] = {exe, role, flavour, follow, NULL};
    char line[SPAWN_LINE_BYTES_MAX];
    if (spawn_start(&child, "toy", argv, NULL, NULL) != 0 ||
        spawn_ready_line(&child, line, WAIT_MS, NULL) != 0) {
        return 1;
    }
    for (int i = 0; i < 8; i++) {
        child_start_foreign_thread(); /* the kernel tells of the end of each */
    }
    (void)printf("%s pid=%d\n", line, (int)child.pid);
    (void)fflush(stdout);
    for (;;) {
        pause();
    }
}
