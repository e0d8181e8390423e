/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensorboard/event.pb-c.h"

#define VERSION "brain.Event:2"
#define FILE_BYTES_MAX (64U << 20)
#define JOB_BYTES_MAX 128
#define FILES_MAX 1000 /* of one run: it went back so often */

/* Length, its check sum, data, their check sum; numbers are little-endian. */
static void add_record(const Tensorboard__Event *event, struct buf *out)
{
    const size_t n = tensorboard__event__get_packed_size(event);
    uint8_t *data = mem_new(n + 1, 1), head[8];
    (void)tensorboard__event__pack(event, data);
    for (unsigned i = 0; i < 8; i++) {
        head[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    const uint32_t sums[2] = {crc32c_masked(head, sizeof head), crc32c_masked(data, n)};
    uint8_t bytes[2][4];
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < 4; i++) {
            bytes[k][i] = (uint8_t)(sums[k] >> (8 * i));
        }
    }
    buf_add(out, head, sizeof head);
    buf_add(out, bytes[0], sizeof bytes[0]);
    buf_add(out, data, n);
    buf_add(out, bytes[1], sizeof bytes[1]);
    free(data);
}

static void add_version(const Gradus__V1__Job *job, struct buf *out)
{
    char version[] = VERSION;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)job->started_ms / 1000;
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    add_record(&event, out);
}

static void add_metrics(const Gradus__V1__Evaluation *e, Gradus__V1__MetricValue *const *metrics,
                        size_t count, struct buf *out)
{
    char epoch[] = "epoch";
    Tensorboard__Summary__Value *values = mem_new(count + 1, sizeof *values);
    Tensorboard__Summary__Value **list = mem_new(count + 1, sizeof *list);
    for (size_t i = 0; i <= count; i++) {
        tensorboard__summary__value__init(&values[i]);
        values[i].tag = i < count ? metrics[i]->name : epoch;
        values[i].simple_value = (float)(i < count ? metrics[i]->value : e->epoch);
        list[i] = &values[i];
    }
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    summary.value = list;
    summary.n_value = count + 1;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)e->time_ms / 1000;
    event.step = (int64_t)e->step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    add_record(&event, out);
    free(values);
    free(list);
}

static int append(const char *path, const char *data, size_t n, struct err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int rc = fd < 0 ? err_errno(err, errno, "open %s", path) : 0;
    while (rc == 0 && n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno != EINTR) {
            rc = err_errno(err, errno, "write %s", path);
        } else if (written > 0) {
            data += written;
            n -= (size_t)written;
        }
    }
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "write %s", path);
    }
    return rc;
}

/* Brings @path to @all, where it has the beginning of that, or is not there. *@fits: it had. */
static int bring(const char *path, const struct buf *all, bool *fits, struct err *err)
{
    struct buf there = {0};
    int rc = file_exists(path) ? file_read(path, FILE_BYTES_MAX, &there, err) : 0;
    *fits = rc == 0 && there.len <= all->len &&
            (there.len == 0 || memcmp(there.data, all->data, there.len) == 0);
    if (*fits) {
        rc = append(path, all->data + there.len, all->len - there.len, err);
    }
    buf_release(&there);
    return rc;
}

static int write_run(const char *dir, const Gradus__V1__Job *job, const struct buf *all,
                     struct err *err)
{
    int rc = file_make_dirs(dir, err);
    bool fits = false;
    for (unsigned i = 0; rc == 0 && !fits && i < FILES_MAX; i++) {
        char *path = mem_printf("%s/events.out.tfevents.%010" PRId64 ".gradus.%u", dir,
                                job->started_ms / 1000, i);
        rc = bring(path, all, &fits, err);
        free(path);
    }
    return rc == 0 && !fits
               ? err_set(err, ERR_EXISTS, "%s has %d event files of other content", dir, FILES_MAX)
               : rc;
}

int tensorboard_write(const char *dir, const Gradus__V1__Job *job, size_t count, struct err *err)
{
    int rc = text_is_name(job->id, JOB_BYTES_MAX) && job->id[0] != '\0'
                 ? 0
                 : err_set(err, ERR_INVALID, "the id of the job is no name of a directory");
    for (int test = 0; test < 2 && rc == 0; test++) {
        struct buf all = {0};
        size_t added = 0;
        add_version(job, &all);
        for (size_t i = 0; i < count && i < job->n_evaluations; i++) {
            const Gradus__V1__Evaluation *e = job->evaluations[i];
            Gradus__V1__MetricValue *const *metrics = test ? e->test : e->train;
            const size_t n = test ? e->n_test : e->n_train;
            if (n > 0) {
                add_metrics(e, metrics, n, &all);
                added++;
            }
        }
        char *run = mem_printf("%s/%s/%s", dir, job->id, test ? "test" : "train");
        rc = added > 0 ? write_run(run, job, &all, err) : 0;
        free(run);
        buf_release(&all);
    }
    return rc;
}
