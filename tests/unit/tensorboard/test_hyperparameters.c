/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a job: which keys of its file it has, and how it grows. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"
#include "support/tmp_dir.h"
#include "tensorboard/event_record.h"
#include "tensorboard/hparams.pb-c.h"
#include "tensorboard/hyperparameters.h"

#define EVENTS_MAX 4

static const char text[] = "name: digits\n"
                           "priority: 3\n"
                           "data:\n"
                           "  dir: /data\n"
                           "  train:\n"
                           "    file: [s3://secret/a.csv, b.csv]\n"
                           "    labels: /labels\n"
                           "    limit: 100\n"
                           "  test: {file: c.csv, labels: /d}\n"
                           "  columns:\n"
                           "    - {column: file, vocabulary_file: words.txt}\n"
                           "  test_fraction: 0.25\n"
                           "model:\n"
                           "  input: []\n"
                           "  onnx: s3://bucket/model.onnx\n"
                           "  layers:\n"
                           "    - dense:\n"
                           "        name: in\n"
                           "        units: 8\n"
                           "        use_bias: true\n"
                           "    - relu:\n"
                           "        name: relu_1\n"
                           "  metrics: [loss, accuracy]\n"
                           "update:\n"
                           "  rule: adam\n"
                           "  epsilon: 1.0e-08\n"
                           "  variables:\n"
                           "    - match: \"*\"\n"
                           "      l2: 0.5\n"
                           "training:\n"
                           "  tensorboard: /boards\n"
                           "  checkpoint_every: never\n"
                           "  evaluate_every: 1 epoch\n"
                           "  split: \"8\"\n"
                           "cluster:\n"
                           "  workers: 2..4\n"
                           "from:\n"
                           "  checkpoint: /checkpoints/digits-0\n"
                           "  safetensors: a.safetensors\n"
                           "  onnx: b.onnx\n"
                           "  strict: false\n";

struct sample {
    Gradus__V1__Job job;
    char id[16], *dir, *path;
};

static int set_up(void **state)
{
    struct sample *s = mem_new(1, sizeof *s);
    gradus__v1__job__init(&s->job);
    strcpy(s->id, "digits-1");
    s->job.id = s->id;
    s->job.started_ms = 1700000000500;
    s->job.state = GRADUS__V1__JOB_STATE__RUNNING;
    s->dir = tmp_dir_make("session");
    s->path = file_join(s->dir, "events.out.tfevents.1700000000.gradus.0");
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct sample *s = *state;
    free(s->path);
    tmp_dir_remove(s->dir);
    free(s);
    return 0;
}

static void write_session(struct sample *s, const char *of)
{
    struct err err = {0};
    assert_int_equal(hyperparameters_write(s->dir, &s->job, of, &err), 0);
}

static void read_file(const char *path, struct buf *out)
{
    struct err err = {0};
    buf_reset(out);
    assert_int_equal(file_read(path, 1 << 20, out, &err), 0);
}

/* The plug-in's messages of the file behind the version; how many there are. */
static size_t read_session(const struct sample *s, Tensorboard__Hparams__HParamsPluginData **out)
{
    struct buf file = {0};
    struct event_record r;
    Tensorboard__Event *event;
    size_t count = 0;
    read_file(s->path, &file);
    for (size_t at = 0, i = 0; at < file.len; at += r.bytes, i++) {
        assert_int_equal(event_record_read(&file, at, &r, &event), 1);
        assert_int_equal(event_record_is_version(event), i == 0);
        if (i > 0) {
            assert_true(i <= EVENTS_MAX);
            const Tensorboard__Summary__Value *v = event->summary->value[0];
            const ProtobufCBinaryData *content = &v->metadata->plugin_data->content;
            assert_string_equal(v->metadata->plugin_data->plugin_name, "hparams");
            out[count] = tensorboard__hparams__hparams_plugin_data__unpack(NULL, content->len,
                                                                           content->data);
            assert_non_null(out[count]);
            assert_string_equal(
                v->tag, out[count]->data_case ==
                                TENSORBOARD__HPARAMS__HPARAMS_PLUGIN_DATA__DATA_SESSION_START_INFO
                            ? "_hparams_/session_start_info"
                            : "_hparams_/session_end_info");
            count++;
        }
        tensorboard__event__free_unpacked(event, NULL);
    }
    buf_release(&file);
    return count;
}

static void release(Tensorboard__Hparams__HParamsPluginData **all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tensorboard__hparams__hparams_plugin_data__free_unpacked(all[i], NULL);
    }
}

static void assert_entry(const Tensorboard__Hparams__SessionStartInfo__Entry *e, const char *wanted)
{
    char *told = e->value->kind_case == TENSORBOARD__HPARAMS__VALUE__KIND_NUMBER_VALUE
                     ? mem_printf("%s=%g", e->key, e->value->number_value)
                 : e->value->kind_case == TENSORBOARD__HPARAMS__VALUE__KIND_BOOL_VALUE
                     ? mem_printf("%s=%s", e->key, e->value->bool_value ? "yes" : "no")
                     : mem_printf("%s='%s'", e->key, e->value->string_value);
    assert_string_equal(told, wanted);
    free(told);
}

static void keys_of_the_job_file(void **state)
{
    static const char *const wanted[] = {"update.rule='adam'",
                                         "update.epsilon=1e-08",
                                         "update.variables.0.match='*'",
                                         "update.variables.0.l2=0.5",
                                         "training.evaluate_every='1 epoch'",
                                         "training.split='8'",
                                         "model.layers.in.units=8",
                                         "model.layers.in.use_bias=yes",
                                         "model.metrics='loss, accuracy'",
                                         "data.train.limit=100",
                                         "data.columns.0.column='file'",
                                         "data.test_fraction=0.25",
                                         "cluster.workers='2..4'",
                                         "from.strict=no"};
    struct sample *s = *state;
    Tensorboard__Hparams__HParamsPluginData *all[EVENTS_MAX];
    write_session(s, text);
    assert_int_equal(read_session(s, all), 1);
    const Tensorboard__Hparams__SessionStartInfo *start = all[0]->session_start_info;
    assert_true(start->start_time_secs == 1700000000.5);
    assert_int_equal(start->n_hparams, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < start->n_hparams; i++) {
        assert_entry(start->hparams[i], wanted[i]);
    }
    release(all, 1);
}

/* Of more than there is room for, those of the data are left out. */
static void there_are_many_keys(void **state)
{
    struct sample *s = *state;
    struct buf many = {0};
    Tensorboard__Hparams__HParamsPluginData *all[EVENTS_MAX];
    buf_add_str(&many, "data:\n");
    for (int i = 0; i < 1200; i++) {
        buf_printf(&many, "  column_%d: %d\n", i, i);
    }
    buf_add_str(&many, "update: {learning_rate: 0.5}\ntraining: {epochs: 3}\n");
    write_session(s, buf_str(&many));
    assert_int_equal(read_session(s, all), 1);
    const Tensorboard__Hparams__SessionStartInfo *start = all[0]->session_start_info;
    assert_int_equal(start->n_hparams, 1000);
    assert_entry(start->hparams[0], "update.learning_rate=0.5");
    assert_entry(start->hparams[1], "training.epochs=3");
    assert_entry(start->hparams[999], "data.column_997=997");
    release(all, 1);
    buf_release(&many);
}

/* Who reads the file goes on: what is there stays. */
static void the_end_is_appended(void **state)
{
    struct sample *s = *state;
    struct buf first = {0}, then = {0};
    Tensorboard__Hparams__HParamsPluginData *all[EVENTS_MAX];
    write_session(s, text);
    read_file(s->path, &first);
    write_session(s, text);
    read_file(s->path, &then);
    assert_int_equal(then.len, first.len);
    s->job.finished_ms = 1700000009250;
    s->job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    write_session(s, text);
    write_session(s, text);
    read_file(s->path, &then);
    assert_true(then.len > first.len && memcmp(then.data, first.data, first.len) == 0);
    assert_int_equal(read_session(s, all), 2);
    assert_int_equal(all[1]->session_end_info->status,
                     TENSORBOARD__HPARAMS__STATUS__STATUS_SUCCESS);
    assert_true(all[1]->session_end_info->end_time_secs == 1700000009.25);
    release(all, 2);
    buf_release(&first);
    buf_release(&then);
}

/* Readers take the first values that they find, so other ones take their place. */
static void a_change_is_written_anew(void **state)
{
    struct sample *s = *state;
    Tensorboard__Hparams__HParamsPluginData *all[EVENTS_MAX];
    s->job.state = GRADUS__V1__JOB_STATE__CANCELLED;
    write_session(s, text);
    assert_int_equal(read_session(s, all), 2);
    assert_int_equal(all[1]->session_end_info->status,
                     TENSORBOARD__HPARAMS__STATUS__STATUS_FAILURE);
    release(all, 2);
    s->job.state = GRADUS__V1__JOB_STATE__RUNNING; /* it was resumed */
    write_session(s, "update: {learning_rate: 0.5}\n");
    assert_int_equal(read_session(s, all), 1);
    assert_int_equal(all[0]->session_start_info->n_hparams, 1);
    assert_entry(all[0]->session_start_info->hparams[0], "update.learning_rate=0.5");
    release(all, 1);
}

/* Wherever a kill or a full disk has cut the file off, the next call makes it whole; what is not
 * ours stays. */
static void what_was_cut_off_is_written_again(void **state)
{
    struct sample *s = *state;
    struct err err = {0};
    struct buf whole = {0}, now = {0};
    char *other = file_join(s->dir, "events.out.tfevents.1700000000.gradus.1");
    s->job.state = GRADUS__V1__JOB_STATE__FAILED;
    write_session(s, text);
    read_file(s->path, &whole);
    for (size_t n = 0; n < whole.len; n++) {
        assert_int_equal(file_write_atomic(s->path, whole.data, n, &err), 0);
        write_session(s, n % 2 == 0 ? text : "update: {rule: sgd}\n");
        write_session(s, text);
        read_file(s->path, &now);
        assert_int_equal(now.len, whole.len);
        assert_memory_equal(now.data, whole.data, whole.len);
    }
    assert_false(file_exists(other));
    now.data[whole.len / 2] = (char)(now.data[whole.len / 2] ^ 1);
    assert_int_equal(file_write_atomic(s->path, now.data, now.len, &err), 0);
    write_session(s, text);
    read_file(other, &now);
    assert_memory_equal(now.data, whole.data, whole.len);
    buf_release(&whole);
    buf_release(&now);
    free(other);
}

static void a_text_that_is_no_job_file(void **state)
{
    struct sample *s = *state;
    struct err err = {0};
    assert_int_equal(hyperparameters_write(s->dir, &s->job, "a: [", &err), ERR_INVALID);
    assert_string_equal(err.msg, "the job file of digits-1 cannot be read");
    assert_false(file_exists(s->path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_of_the_job_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_many_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_is_appended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_is_written_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_cut_off_is_written_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_is_no_job_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
