/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint is served: the newest one, each opened once, and the one before as long as a
 * newer one cannot be opened. */
#include "unit/saved/saved_rig.h"

#include <pthread.h>

#include "serve/rpc/serve.h"
#include "serve/rpc/serve_follow.h"
#include "os/log.h"
#include "support/wait_until.h"

struct following {
    struct meter_registry *meters;
    struct serve *serve;
    struct serve_follow *follow;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned served;
};

static void on_served(void *ctx)
{
    struct following *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->served++;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void begin(struct following *f, const struct saved_rig *r, const char *data_dir,
                  int64_t every_ms)
{
    *f = (struct following){.meters = meter_registry_new()};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    const struct serve_options options = {
        .threads = 2, .batch_max = 4, .waiting_max = 8, .meters = f->meters};
    assert_int_equal(serve_new(&options, &f->serve, NULL), 0);
    const struct serve_follow_options follow = {.serve = f->serve,
                                                .where = r->checkpoints,
                                                .data_dir = data_dir,
                                                .cache_dir = NULL,
                                                .batch_max = 4,
                                                .threads = 2,
                                                .every_ms = every_ms,
                                                .served = on_served,
                                                .ctx = f,
                                                .meters = f->meters};
    f->follow = serve_follow_new(&follow);
}

static void end(struct following *f)
{
    serve_follow_free(f->follow);
    serve_free(f->serve);
    meter_registry_free(f->meters);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

static char *checkpoint(struct saved_rig *r, uint64_t step)
{
    saved_rig_file(r, "train", "a,price\n1,100\n3,300\n5,800\n");
    char *text =
        saved_rig_job(r, "csv", ", label: price, scale: none",
                      "layers: [{dense: {units: 1}}], loss: mean_squared_error", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, step, 0);
    free(text);
    return path;
}

static void assert_served(struct following *f, const char *version, uint64_t number)
{
    struct serve_model *m = serve_current(f->serve);
    assert_non_null(m);
    assert_string_equal(m->version, version);
    assert_int_equal(m->number, number);
    assert_int_equal(m->slots, 2);
    assert_int_equal(m->batch_max, 4);
    serve_model_unref(m);
}

/* Another last byte, or none at all. */
static void break_file(const char *dir, const char *name, bool empty)
{
    char *path = file_join(dir, name);
    FILE *out = fopen(path, empty ? "w" : "r+b");
    assert_non_null(out);
    if (!empty) {
        assert_int_equal(fseek(out, -1, SEEK_END), 0);
        assert_int_equal(fputc(0x55, out), 0x55);
    }
    assert_int_equal(fclose(out), 0);
    free(path);
}

static void test_the_newest_is_served(void **state)
{
    struct saved_rig *r = *state;
    struct following f;
    struct err err;
    begin(&f, r, "", 1000);
    assert_int_equal(serve_follow_look(f.follow, &err), ERR_NOT_FOUND);
    assert_false(serve_ready(f.serve));
    char *path = checkpoint(r, 3);
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    assert_served(&f, "3", 1);
    assert_true(serve_ready(f.serve));
    assert_int_equal(f.served, 1);
    struct serve_model *first = serve_current(f.serve);
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    struct serve_model *again = serve_current(f.serve);
    assert_ptr_equal(first, again); /* it is not opened again */
    serve_model_unref(again);
    free(path);
    path = checkpoint(r, 12);
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    assert_served(&f, "12", 2);
    again = serve_current(f.serve);
    assert_ptr_equal(again->inputs.encoder, first->inputs.encoder);
    serve_model_unref(again);
    serve_model_unref(first);
    free(path);
    path = checkpoint(r, 13);
    break_file(path, "shard-0-of-2.safetensors", true); /* it is no complete one */
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    assert_served(&f, "12", 2);
    free(path);
    path = checkpoint(r, 14);
    break_file(path, "shard-0-of-2.safetensors", false);
    assert_int_equal(serve_follow_look(f.follow, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "shard-0-of-2"));
    assert_served(&f, "12", 2);
    free(path);
    path = checkpoint(r, 15); /* what failed counts as no version */
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    assert_served(&f, "15", 3);
    assert_int_equal(f.served, 1);
    free(path);
    end(&f);
}

/* The train data are where the setting says, not where the job file does. */
static void test_data_of_another_place(void **state)
{
    struct saved_rig *r = *state;
    struct following f;
    struct err err;
    char *path = checkpoint(r, 3);
    char *old = file_join(r->dir, "train"), *dir = file_join(r->dir, "moved");
    char *new = file_join(dir, "train");
    assert_int_equal(file_make_dirs(dir, &err), 0);
    assert_int_equal(rename(old, new), 0);
    begin(&f, r, "", 1000);
    assert_int_equal(serve_follow_look(f.follow, &err), ERR_NOT_FOUND);
    assert_null(serve_current(f.serve));
    end(&f);
    begin(&f, r, dir, 1000);
    assert_int_equal(serve_follow_look(f.follow, &err), 0);
    assert_served(&f, "3", 1);
    end(&f);
    free(new);
    free(dir);
    free(old);
    free(path);
}

/* A thread looks again and again, finds what comes later, and ends when it is told. */
static void test_a_thread_follows(void **state)
{
    struct saved_rig *r = *state;
    struct following f;
    struct err err;
    begin(&f, r, "", 1);
    assert_int_equal(serve_follow_start(f.follow, &err), 0);
    char *path = checkpoint(r, 3);
    pthread_mutex_lock(&f.lock);
    wait_until_signalled(f.served != 0, &f.changed, &f.lock);
    pthread_mutex_unlock(&f.lock);
    assert_served(&f, "3", 1);
    free(path);
    end(&f);
    begin(&f, r, "", 86400000); /* it does not wait for the next round */
    assert_int_equal(serve_follow_start(f.follow, &err), 0);
    end(&f);
}

static unsigned told_shard, told_nothing, told_manifest;

static void on_told(enum log_level level, const char *event, const char *text)
{
    (void)level;
    if (strcmp(event, "no_newer_checkpoint") == 0) {
        told_shard += strstr(text, "shard-0-of-2") != NULL;
        told_manifest += strstr(text, "does not end") != NULL;
        told_nothing += strstr(text, "No such file") != NULL;
    }
}

static void look_often(struct following *f, unsigned shard, unsigned nothing, unsigned manifest)
{
    for (size_t i = 0; i < 3; i++) {
        serve_follow_round(f->follow);
        assert_int_equal(told_shard, shard);
        assert_int_equal(told_nothing, nothing);
        assert_int_equal(told_manifest, manifest);
    }
}

/* Each reason is told once, and the next one also where it has the same code. */
static void test_another_reason_is_told(void **state)
{
    struct saved_rig *r = *state;
    struct following f;
    char *path = checkpoint(r, 3), *away = file_join(r->dir, "away");
    break_file(path, "shard-0-of-2.safetensors", false);
    log_tell(on_told);
    begin(&f, r, "", 1000);
    look_often(&f, 1, 0, 0);
    assert_int_equal(rename(r->checkpoints, away), 0);
    look_often(&f, 1, 1, 0);
    assert_int_equal(rename(away, r->checkpoints), 0);
    look_often(&f, 2, 1, 0);
    break_file(path, "manifest.json", false);
    look_often(&f, 2, 1, 1);
    end(&f);
    log_tell(NULL);
    free(away);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_is_served, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_data_of_another_place, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_thread_follows, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_another_reason_is_told, saved_rig_setup,
                                        saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
