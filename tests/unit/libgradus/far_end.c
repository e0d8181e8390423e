/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/libgradus/far_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_TEXT "name: mine\n"

void far_end_open(struct far_end *f)
{
    int ends[2];
    assert_int_equal(program_channel_pair(ends, NULL), 0);
    *f = (struct far_end){
        .socket = ends[0], .parameters = {.fd = -1}, .gradients = {.fd = -1}, .batch = {.fd = -1}};
    char number[16];
    (void)snprintf(number, sizeof number, "%d", ends[1]);
    assert_int_equal(setenv(PROGRAM_SOCKET_ENVIRONMENT, number, 1), 0);
    assert_int_equal(gradus_worker_open("mine", &f->worker), GRADUS_OK);
    struct program_message hello = far_end_heard(f, PROGRAM_HELLO, NULL);
    assert_int_equal(hello.hello.abi, GRADUS_WORKER_ABI);
    assert_string_equal(hello.hello.name, "mine");
}

void far_end_hang_up(struct far_end *f)
{
    assert_int_equal(close(f->socket), 0);
    f->socket = -1;
}

void far_end_close(struct far_end *f)
{
    gradus_worker_close(f->worker);
    if (f->socket >= 0) {
        far_end_hang_up(f);
    }
    program_memory_release(&f->parameters);
    program_memory_release(&f->gradients);
    program_memory_release(&f->batch);
}

void far_end_send(struct far_end *f, struct program_message *m, int fd)
{
    assert_int_equal(program_send(f->socket, m, fd, NULL), 0);
}

struct program_message far_end_heard(struct far_end *f, enum program_kind kind, int *fd)
{
    struct program_message m;
    int came = -1;
    struct err err = {.msg = ""};
    if (program_receive(f->socket, 0, 60000, &m, &came, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.number, f->number);
    if (fd != NULL) {
        *fd = came;
    } else {
        assert_int_equal(came, -1);
    }
    return m;
}

void far_end_job(struct far_end *f, const char *id)
{
    struct program_memory text;
    assert_int_equal(program_memory_new(sizeof JOB_TEXT - 1, &text, NULL), 0);
    memcpy(text.bytes, JOB_TEXT, sizeof JOB_TEXT - 1);
    struct program_message m;
    program_message_init(&m, PROGRAM_JOB, ++f->number);
    m.job = (struct program_job){.text_bytes = sizeof JOB_TEXT - 1,
                                 .seed = 11,
                                 .batch_records = FAR_RECORDS,
                                 .evaluation_records = 2 * FAR_RECORDS};
    (void)snprintf(m.job.id, sizeof m.job.id, "%s", id);
    (void)snprintf(m.job.program, sizeof m.job.program, "tiny");
    far_end_send(f, &m, text.fd);
    program_memory_release(&text);
}

void far_end_start(struct far_end *f, bool has_data, bool has_classes)
{
    struct program_message m;
    program_message_init(&m, PROGRAM_START, ++f->number);
    m.start.has_data = has_data;
    m.start.has_classes = has_classes;
    m.start.feature_rank = 2;
    m.start.feature_dims[0] = 2;
    m.start.feature_dims[1] = FAR_FEATURES / 2;
    far_end_send(f, &m, -1);
}

void far_end_array(struct far_end *f, uint32_t number, struct program_memory *memory, size_t bytes)
{
    program_memory_release(memory);
    assert_int_equal(program_memory_new(bytes, memory, NULL), 0);
    struct program_message m;
    program_message_init(&m, PROGRAM_ARRAY, 0);
    m.array = (struct program_array){.array = number, .bytes = bytes};
    far_end_send(f, &m, memory->fd);
}

void far_end_work(struct far_end *f, enum program_kind kind, uint64_t count)
{
    struct program_message m;
    program_message_init(&m, kind, ++f->number);
    m.work = (struct program_work){.parameters = FAR_PARAMETERS,
                                   .gradients = FAR_GRADIENTS,
                                   .batch = FAR_BATCH,
                                   .replica = 2,
                                   .records_at = 64,
                                   .features_at = 256,
                                   .targets_at = 1024,
                                   .classes_at = 2048,
                                   .count = count,
                                   .epoch = 5,
                                   .step = 77,
                                   .seed = UINT64_MAX};
    far_end_send(f, &m, -1);
}

struct gradus_work far_end_next(struct far_end *f, int kind)
{
    struct gradus_work work;
    if (gradus_worker_next(f->worker, &work) != GRADUS_OK) {
        fail_msg("%s", gradus_worker_error(f->worker));
    }
    assert_int_equal(work.kind, kind);
    return work;
}

struct gradus_description far_end_model(void)
{
    static const uint64_t two_by_three[] = {2, 3}, sixteen[] = {16};
    static const float a[6] = {1, 2, 3, 4, 5, 6}, b[1] = {-7}, c[16] = {[15] = 8};
    static const struct gradus_variable variables[] = {
        {.name = "a", .dims = two_by_three, .rank = 2, .initial = a},
        {.name = "b", .initial = b},
        {.name = "c", .dims = sixteen, .rank = 1, .kind = GRADUS_STATISTIC, .initial = c},
    };
    return (struct gradus_description){.size = sizeof(struct gradus_description),
                                       .variables = variables,
                                       .variable_count = 3,
                                       .train_records = 100,
                                       .test_records = 10,
                                       .fingerprint = 42};
}

void far_end_job_begins(struct far_end *f, bool has_data, bool has_classes)
{
    far_end_job(f, "mine-1");
    (void)far_end_next(f, GRADUS_WORK_JOB);
    struct gradus_description d = far_end_model();
    assert_int_equal(gradus_worker_describe(f->worker, &d), GRADUS_OK);
    int fd = -1;
    (void)far_end_heard(f, PROGRAM_DESCRIBE, &fd);
    assert_int_equal(close(fd), 0);
    far_end_start(f, has_data, has_classes);
    far_end_array(f, FAR_PARAMETERS, &f->parameters, FAR_FLOATS * sizeof(float));
    far_end_array(f, FAR_GRADIENTS, &f->gradients, FAR_FLOATS * sizeof(float));
    far_end_array(f, FAR_BATCH, &f->batch, 4096);
}
