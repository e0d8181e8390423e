/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint directory: made once, remembered, and looked after; who loses its disk is told. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/claim.h"
#include "master/shell/shell.h"
#include "os/file.h"
#include "support/wait_until.h"

static struct shell shell;
static struct master_settings settings;
static char dir[64], none[] = "";

/* ---- in place of the core, of the service and of the store ---- */

void shell_event(struct shell *s, struct master_event *e)
{
    (void)s;
    fail_msg("event %d", (int)e->kind);
}

static struct {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    size_t told;
    char health[1200];
    bool hangs, hanging; /* the disk: shall it, does it? */
} rig = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void service_set_unhealthy(struct service_context *sc, const char *why)
{
    (void)sc;
    pthread_mutex_lock(&rig.lock);
    (void)snprintf(rig.health, sizeof rig.health, "%s", why == NULL ? "" : why);
    rig.told++;
    pthread_cond_broadcast(&rig.changed);
    pthread_mutex_unlock(&rig.lock);
}

static struct {
    char key[32], value[256];
} texts[3];
static size_t text_count, job_count;
static int get_code, put_code;

static int get_text(struct store *s, const char *key, struct buf *value, struct err *err)
{
    (void)s;
    if (get_code != 0) {
        return err_set(err, get_code, "a torn page");
    }
    for (size_t i = 0; i < text_count; i++) {
        if (strcmp(texts[i].key, key) == 0) {
            buf_add_str(value, texts[i].value);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "no %s", key);
}

static int put_text(struct store *s, const char *key, const char *value, struct err *err)
{
    (void)s;
    if (put_code != 0) {
        return err_set(err, put_code, "the disk is full");
    }
    assert_in_range(text_count, 0, 2);
    (void)snprintf(texts[text_count].key, sizeof texts->key, "%s", key);
    (void)snprintf(texts[text_count++].value, sizeof texts->value, "%s", value);
    return 0;
}

static int load(struct store *s, size_t finished_limit,
                int (*each)(void *ctx, const struct store_row *row, struct err *err), void *ctx,
                struct err *err)
{
    (void)s;
    (void)finished_limit;
    const struct store_row rows[] = {{.id = "a-1"}, {.id = "a-2"}, {.id = "a-3"}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < job_count; i++) {
        rc = each(ctx, &rows[i], err);
    }
    return rc;
}

/* ---- the rig ---- */

static int set_up(void **state)
{
    (void)state;
    static const struct store_ops ops = {.load = load, .get_text = get_text, .put_text = put_text};
    static struct store store = {&ops};
    struct err err;
    (void)snprintf(dir, sizeof dir, "/tmp/gradus-root-XXXXXX");
    assert_non_null(mkdtemp(dir));
    settings = (struct master_settings){.state_dir = dir, .checkpoint_dir = none};
    shell = (struct shell){.settings = &settings, .store = &store, .store_well = true};
    shell.loop = loop_new(64);
    shell.files = pool_new(1, 4, "files", &err);
    assert_non_null(shell.files);
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    text_count = job_count = 0;
    get_code = put_code = 0;
    rig.told = 0;
    rig.health[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_free(shell.files);
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    free(shell.checkpoints.root);
    return file_remove_tree(dir, NULL);
}

static void open_well(void)
{
    struct err err = {0};
    free(shell.checkpoints.root);
    shell.checkpoints.root = NULL;
    if (shell_root_open(&shell, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

/* ---- opening ---- */

static void the_root_is_made_once(void **state)
{
    (void)state;
    char owner[CLAIM_OWNER_BYTES];
    char *root = file_join(dir, "checkpoints"), *mark = file_join(root, CLAIM_ROOT_MARK);
    open_well();
    assert_string_equal(shell.checkpoints.root, root);
    assert_true(file_exists(mark));
    assert_int_equal(text_count, 2);
    assert_string_equal(texts[0].key, "owner");
    assert_string_equal(texts[0].value, shell.checkpoints.owner);
    assert_int_equal(strspn(texts[0].value, "0123456789abcdef"), 32);
    assert_string_equal(texts[1].key, "checkpoint_root");
    assert_string_equal(texts[1].value, root);

    (void)snprintf(owner, sizeof owner, "%s", shell.checkpoints.owner);
    shell.checkpoints.owner[0] = '\0';
    open_well(); /* another start */
    assert_string_equal(shell.checkpoints.owner, owner);
    assert_int_equal(text_count, 2);
    assert_int_equal(rig.told, 0);

    assert_int_equal(file_remove_tree(root, NULL), 0);
    open_well(); /* its disk is gone: it is not made on the one below */
    assert_false(file_exists(root));
    assert_string_equal(shell.checkpoints.root, root);
    assert_non_null(strstr(shell.root_problem, "is not there: is its disk mounted?"));
    assert_string_equal(rig.health, shell.root_problem);
    free(mark);
    free(root);
}

static void a_root_of_somebodys_choice(void **state)
{
    (void)state;
    char here[256], *real = file_join(dir, "real"), *link = file_join(dir, "link");
    char relative[] = "a/b", *below = file_join(dir, relative);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    settings.checkpoint_dir = relative;
    open_well();
    assert_string_equal(shell.checkpoints.root, below);
    assert_int_equal(chdir(here), 0);

    assert_int_equal(file_make_dirs(real, NULL), 0);
    assert_int_equal(symlink("real", link), 0);
    text_count = 1;
    settings.checkpoint_dir = link;
    open_well();
    assert_string_equal(shell.checkpoints.root, real);
    assert_string_equal(texts[1].value, link); /* as it was said */
    free(below);
    free(link);
    free(real);
}

static void refused(int code, const char *says)
{
    struct err err = {0};
    assert_int_equal(shell_root_open(&shell, &err), code);
    assert_string_equal(err.msg, says);
    free(shell.checkpoints.root);
    shell.checkpoints.root = NULL;
}

static void the_store_may_fail(void **state)
{
    (void)state;
    char *root = file_join(dir, "checkpoints");
    get_code = ERR_CORRUPT;
    refused(ERR_CORRUPT, "whose the checkpoints are: a torn page");
    get_code = 0;
    put_code = ERR_EXHAUSTED;
    refused(ERR_EXHAUSTED, "whose the checkpoints are: the disk is full");
    assert_false(file_exists(root)); /* nobody would know whose it is */
    text_count = 1;
    (void)strcpy(texts[0].key, "owner");
    refused(ERR_EXHAUSTED, "the disk is full");
    free(root);
}

/* Its jobs keep their checkpoints. */
static void an_owner_that_was_lost_is_found(void **state)
{
    (void)state;
    static const char OWNER[] = "0123456789abcdef0123456789abcdef";
    char *root = file_join(dir, "checkpoints");
    assert_int_equal(claim_root_make(root, NULL), 0);
    assert_int_equal(claim_make(root, "a-2", OWNER, 0, NULL), 0); /* a-1 has no checkpoint */
    open_well();
    assert_string_not_equal(shell.checkpoints.owner, OWNER); /* a new store: somebody else's */
    text_count = 0;
    job_count = 3;
    open_well();
    assert_string_equal(shell.checkpoints.owner, OWNER);
    assert_string_equal(texts[0].value, OWNER);
    assert_int_equal(file_remove_tree(root, NULL), 0);
    text_count = 0;
    struct err err = {0};
    free(shell.checkpoints.root);
    assert_int_equal(shell_root_open(&shell, &err), ERR_UNAVAILABLE); /* no new one meanwhile */
    assert_non_null(strstr(err.msg, "is its disk mounted?"));
    assert_int_equal(text_count, 0);
    assert_int_equal(claim_root_make(root, NULL), 0);
    open_well(); /* nobody knows it any more */
    assert_int_equal(strspn(shell.checkpoints.owner, "0123456789abcdef"), 32);
    assert_string_not_equal(shell.checkpoints.owner, OWNER);
    free(root);
}

/* ---- watching ---- */

static void watch(void *ctx)
{
    (void)ctx;
    shell_root_watch(&shell);
}

static void wait_told(size_t count, const char *says)
{
    pthread_mutex_lock(&rig.lock);
    wait_until_signalled(rig.told >= count, &rig.changed, &rig.lock);
    assert_int_equal(rig.told, count);
    if (says[0] == '\0' ? rig.health[0] != '\0' : strstr(rig.health, says) == NULL) {
        fail_msg("'%s' does not say '%s'", rig.health, says);
    }
    pthread_mutex_unlock(&rig.lock);
}

static void run_on_loop(void (*run)(void *ctx))
{
    assert_int_equal(loop_call(shell.loop, run, NULL, NULL), 0);
}

static void a_lost_disk_is_told_and_comes_back(void **state)
{
    (void)state;
    open_well();
    char *mark = file_join(shell.checkpoints.root, CLAIM_ROOT_MARK);
    assert_int_equal(unlink(mark), 0);
    run_on_loop(watch);
    wait_told(1, "is not there: is its disk mounted?");
    assert_int_equal(claim_root_make(shell.checkpoints.root, NULL), 0);
    run_on_loop(watch);
    wait_told(2, "");
    free(mark);
}

static void hang(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&rig.lock);
    rig.hanging = true;
    pthread_cond_broadcast(&rig.changed);
    wait_until_signalled(!rig.hangs, &rig.changed, &rig.lock);
    rig.hanging = false;
    pthread_mutex_unlock(&rig.lock);
}

static void is_silent(void *ctx)
{
    (void)ctx;
    assert_true(shell.root.asked);
    shell.root.asked_ms -= 9000;
    shell_root_watch(&shell);
    assert_int_equal(rig.told, 0); /* it may still answer */
    shell.root.asked_ms -= 1001;
    shell_root_watch(&shell);
}

static void is_asked(void *ctx)
{
    *(bool *)ctx = shell.root.asked;
}

static void a_disk_that_hangs_is_told(void **state)
{
    (void)state;
    struct err err;
    bool asked = true;
    open_well();
    rig.hangs = true;
    assert_int_equal(pool_post(shell.files, hang, NULL, &err), 0);
    run_on_loop(watch);
    run_on_loop(is_silent);
    wait_told(1, "has not answered for 10 s");
    assert_non_null(strstr(rig.health, shell.checkpoints.root));
    pthread_mutex_lock(&rig.lock);
    rig.hangs = false;
    pthread_cond_broadcast(&rig.changed);
    pthread_mutex_unlock(&rig.lock);
    wait_told(2, ""); /* what was asked once is answered once */
    assert_int_equal(loop_call(shell.loop, is_asked, &asked, NULL), 0);
    assert_false(asked);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_root_is_made_once),
        TEST(a_root_of_somebodys_choice),
        TEST(an_owner_that_was_lost_is_found),
        TEST(the_store_may_fail),
        TEST(a_lost_disk_is_told_and_comes_back),
        TEST(a_disk_that_hangs_is_told),
    };
    return cmocka_run_group_tests_name("shell_root", tests, NULL, NULL);
}
