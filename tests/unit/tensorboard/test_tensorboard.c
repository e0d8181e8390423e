/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: what TensorBoard finds in them, and how they grow. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "os/file.h"
#include "base/mem.h"
#include "tensorboard/tensorboard.h"
#include "support/tmp_dir.h"
#include "tensorboard/event.pb-c.h"

#define EVALUATIONS 4

struct sample {
    Gradus__V1__Job job;
    Gradus__V1__Evaluation evaluations[EVALUATIONS], *list[EVALUATIONS];
    Gradus__V1__MetricValue metrics[EVALUATIONS], *values[EVALUATIONS];
    char id[16], loss[8];
};

static void sample_of(struct sample *s)
{
    *s = (struct sample){.id = "digits-1", .loss = "loss"};
    gradus__v1__job__init(&s->job);
    s->job.id = s->id;
    s->job.started_ms = 1700000000500;
    for (size_t i = 0; i < EVALUATIONS; i++) {
        gradus__v1__metric_value__init(&s->metrics[i]);
        s->metrics[i].name = s->loss;
        s->metrics[i].value = 1.0 / (double)(i + 1);
        s->values[i] = &s->metrics[i];
        gradus__v1__evaluation__init(&s->evaluations[i]);
        s->evaluations[i].step = 100 * (i + 1);
        s->evaluations[i].epoch = (double)i + 1;
        s->evaluations[i].time_ms = 1700000001000 + 250 * (int64_t)i;
        s->evaluations[i].test = &s->values[i];
        s->evaluations[i].n_test = 1;
        s->list[i] = &s->evaluations[i];
    }
    s->job.evaluations = s->list;
    s->job.n_evaluations = EVALUATIONS;
}

static uint64_t little(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

/* The events of @file; their number. Each is the caller's to free. */
static size_t read_events(const struct buf *file, Tensorboard__Event **events, size_t max)
{
    const uint8_t *p = (const uint8_t *)file->data, *end = p + file->len;
    size_t count = 0;
    while (p < end) {
        assert_true(end - p >= 16);
        const uint64_t n = little(p, 8);
        assert_int_equal(little(p + 8, 4), crc32c_masked(p, 8));
        assert_true(n <= (uint64_t)(end - p) - 16);
        assert_int_equal(little(p + 12 + n, 4), crc32c_masked(p + 12, n));
        if (count < max) {
            events[count] = tensorboard__event__unpack(NULL, n, p + 12);
            assert_non_null(events[count]);
        }
        count++;
        p += 16 + n;
    }
    return count;
}

static char *file_of(const char *dir, const char *run, unsigned number)
{
    return mem_printf("%s/digits-1/%s/events.out.tfevents.1700000000.gradus.%u", dir, run, number);
}

static void each_evaluation_is_an_event(void **state)
{
    (void)state;
    struct sample s;
    struct err err = {0};
    struct buf file = {0};
    Tensorboard__Event *events[8];
    char *dir = tmp_dir_make("events");
    sample_of(&s);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 2, &err), 0);
    char *path = file_of(dir, "test", 0), *train = file_of(dir, "train", 0);
    assert_false(file_exists(train)); /* it has no such metrics */
    assert_int_equal(file_read(path, 1 << 20, &file, &err), 0);
    assert_int_equal(read_events(&file, events, 8), 3);
    assert_string_equal(events[0]->file_version, "brain.Event:2");
    assert_true(events[0]->wall_time == 1700000000.5);
    const Tensorboard__Summary *second = events[2]->summary;
    assert_int_equal(events[2]->step, 200);
    assert_true(events[2]->wall_time == 1700000001.25);
    assert_int_equal(second->n_value, 2);
    assert_string_equal(second->value[0]->tag, "loss");
    assert_true(second->value[0]->simple_value == 0.5F);
    assert_string_equal(second->value[1]->tag, "epoch");
    assert_true(second->value[1]->simple_value == 2);
    for (size_t i = 0; i < 3; i++) {
        tensorboard__event__free_unpacked(events[i], NULL);
    }
    buf_release(&file);
    free(path);
    free(train);
    tmp_dir_remove(dir);
}

static void files_grow(void **state)
{
    (void)state;
    struct sample s;
    struct err err = {0};
    struct buf first = {0}, then = {0};
    Tensorboard__Event *none[1];
    char *dir = tmp_dir_make("events"), *path = file_of(dir, "test", 0),
         *other = file_of(dir, "test", 1);
    sample_of(&s);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 2, &err), 0);
    assert_int_equal(file_read(path, 1 << 20, &first, &err), 0);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 2, &err), 0); /* nothing is new */
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 4, &err), 0);
    assert_int_equal(file_read(path, 1 << 20, &then, &err), 0);
    assert_true(then.len > first.len && memcmp(then.data, first.data, first.len) == 0);
    assert_int_equal(read_events(&then, none, 0), 5);
    assert_false(file_exists(other));

    s.metrics[1].value = 7; /* it went back, and came to something else */
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 4, &err), 0);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 4, &err), 0);
    buf_reset(&then);
    assert_int_equal(file_read(path, 1 << 20, &then, &err), 0);
    Tensorboard__Event *events[9];
    assert_int_equal(read_events(&then, events, 9), 9);
    assert_int_equal(events[5]->what_case, TENSORBOARD__EVENT__WHAT_SESSION_LOG);
    assert_int_equal(events[5]->step, 200); /* from there on what came before counts no more */
    assert_true(events[6]->step == 200 && events[6]->summary->value[0]->simple_value == 7);
    assert_int_equal(events[8]->step, 400);
    for (size_t i = 0; i < 9; i++) {
        tensorboard__event__free_unpacked(events[i], NULL);
    }
    assert_false(file_exists(other));
    buf_release(&first);
    buf_release(&then);
    free(path);
    free(other);
    tmp_dir_remove(dir);
}

/* A job knows its last evaluations alone; the file keeps those before them. */
static void the_first_ones_are_kept(void **state)
{
    (void)state;
    struct sample s;
    struct err err = {0};
    struct buf file = {0};
    Tensorboard__Event *none[1];
    char *dir = tmp_dir_make("events"), *path = file_of(dir, "test", 0);
    sample_of(&s);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 3, &err), 0);
    s.job.evaluations = s.list + 2;
    s.job.n_evaluations = EVALUATIONS - 2;
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, EVALUATIONS - 2, &err), 0);
    assert_int_equal(file_read(path, 1 << 20, &file, &err), 0);
    assert_int_equal(read_events(&file, none, 0), 1 + EVALUATIONS);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 1, &err), 0); /* the file is ahead */
    buf_reset(&file);
    assert_int_equal(file_read(path, 1 << 20, &file, &err), 0);
    assert_int_equal(read_events(&file, none, 0), 1 + EVALUATIONS);
    buf_release(&file);
    free(path);
    tmp_dir_remove(dir);
}

/* Whoever wrote was killed, or the disk was full: wherever the file ends, the next call makes it
 * whole. Other content is left as it is. */
static void what_was_cut_off_is_written_again(void **state)
{
    (void)state;
    struct sample s;
    struct err err = {0};
    struct buf whole = {0}, now = {0};
    char *dir = tmp_dir_make("events"), *path = file_of(dir, "test", 0),
         *other = file_of(dir, "test", 1);
    sample_of(&s);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, EVALUATIONS, &err), 0);
    assert_int_equal(file_read(path, 1 << 20, &whole, &err), 0);
    for (size_t n = 0; n < whole.len; n++) {
        assert_int_equal(file_write_atomic(path, whole.data, n, &err), 0);
        assert_int_equal(tensorboard_write(dir, &s.job, NULL, EVALUATIONS, &err), 0);
        buf_reset(&now);
        assert_int_equal(file_read(path, 1 << 20, &now, &err), 0);
        assert_int_equal(now.len, whole.len);
        assert_memory_equal(now.data, whole.data, whole.len);
    }
    assert_false(file_exists(other));
    now.data[whole.len / 2] = (char)(now.data[whole.len / 2] ^ 1);
    assert_int_equal(file_write_atomic(path, now.data, now.len, &err), 0);
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, EVALUATIONS, &err), 0);
    buf_reset(&now);
    assert_int_equal(file_read(other, 1 << 20, &now, &err), 0);
    assert_int_equal(now.len, whole.len);
    buf_release(&whole);
    buf_release(&now);
    free(path);
    free(other);
    tmp_dir_remove(dir);
}

static void what_cannot_be_written_is_told(void **state)
{
    (void)state;
    struct sample s;
    struct err err = {0};
    char *dir = tmp_dir_make("events"), *file = file_join(dir, "file");
    sample_of(&s);
    assert_int_equal(file_write_atomic(file, "x", 1, &err), 0);
    assert_int_not_equal(tensorboard_write(file, &s.job, NULL, 1, &err), 0);
    assert_non_null(strstr(err.msg, file));
    strcpy(s.id, "../escape");
    err = (struct err){0};
    assert_int_equal(tensorboard_write(dir, &s.job, NULL, 1, &err), ERR_INVALID);
    free(file);
    tmp_dir_remove(dir);
}

/* With GRADUS_TEST_DATA: files that TensorFlow wrote read as ours do. */
static void the_format_is_that_of_tensorflow(void **state)
{
    (void)state;
    const char *data = getenv("GRADUS_TEST_DATA");
    struct buf file = {0};
    struct err err = {0};
    Tensorboard__Event *events[8];
    if (data == NULL) {
        skip();
    }
    char *path = mem_printf("%s/events/eval/events.out.tfevents.1476472058.localhost", data);
    if (!file_exists(path)) {
        free(path);
        skip();
    }
    assert_int_equal(file_read(path, 1 << 20, &file, &err), 0);
    assert_int_equal(read_events(&file, events, 8), 5);
    assert_string_equal(events[0]->file_version, "brain.Event:2");
    bool loss = false;
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; events[i]->what_case == TENSORBOARD__EVENT__WHAT_SUMMARY &&
                           k < events[i]->summary->n_value;
             k++) {
            loss |= strcmp(events[i]->summary->value[k]->tag, "loss") == 0 &&
                    events[i]->step >= 1000 && events[i]->step <= 3000 &&
                    events[i]->summary->value[k]->simple_value > 0;
        }
        tensorboard__event__free_unpacked(events[i], NULL);
    }
    assert_true(loss);
    buf_release(&file);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_evaluation_is_an_event),
        cmocka_unit_test(files_grow),
        cmocka_unit_test(the_first_ones_are_kept),
        cmocka_unit_test(what_was_cut_off_is_written_again),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(the_format_is_that_of_tensorflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
