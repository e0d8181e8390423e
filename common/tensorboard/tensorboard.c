/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensorboard/event.pb-c.h"

#define VERSION "brain.Event:2"
#define FILE_BYTES_MAX (64U << 20) /* about half a million evaluations */
#define JOB_BYTES_MAX 128
#define FILES_MAX 1000        /* of one run: so many are of others */
#define RECORD_BYTES_LEAST 16 /* length, its sum, no data, their sum */

/* ---- records ---- */

/* An evaluation in a file, or one that is to be there. */
struct place {
    int64_t step;
    uint32_t sum;     /* of the record's data */
    size_t at, bytes; /* of the whole record, in its buffer */
};
struct places {
    struct place *items;
    size_t count, capacity;
};

static void add_place(struct places *all, const struct place *p)
{
    all->items = mem_grow(all->items, &all->capacity, all->count + 1, sizeof *all->items);
    all->items[all->count++] = *p;
}

static uint64_t little(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

static void add_little(uint64_t v, unsigned n, struct buf *out)
{
    for (unsigned i = 0; i < n; i++) {
        buf_add_char(out, (char)(uint8_t)(v >> (8 * i)));
    }
}

/* Length, its check sum, data, their check sum; numbers are little-endian. */
static struct place add_record(const Tensorboard__Event *event, struct buf *out)
{
    const size_t n = tensorboard__event__get_packed_size(event);
    uint8_t *data = mem_new(n + 1, 1);
    struct place p = {.step = event->step, .at = out->len, .bytes = n + RECORD_BYTES_LEAST};
    (void)tensorboard__event__pack(event, data);
    p.sum = crc32c_masked(data, n);
    add_little(n, 8, out);
    add_little(crc32c_masked(out->data + p.at, 8), 4, out);
    buf_add(out, data, n);
    add_little(p.sum, 4, out);
    free(data);
    return p;
}

static void add_version(const Gradus__V1__Job *job, struct buf *out)
{
    char version[] = VERSION;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)job->started_ms / 1000;
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    (void)add_record(&event, out);
}

/* What came before with @step or a later one counts no more. */
static void add_restart(int64_t step, int64_t time_ms, struct buf *out)
{
    Tensorboard__SessionLog log = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    log.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    event.wall_time = (double)time_ms / 1000;
    event.step = step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    (void)add_record(&event, out);
}

static struct place add_metrics(const Gradus__V1__Evaluation *e,
                                Gradus__V1__MetricValue *const *metrics, size_t count,
                                struct buf *out)
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
    const struct place p = add_record(&event, out);
    free(values);
    free(list);
    return p;
}

/* ---- what a file has ---- */

struct content {
    struct places live; /* evaluations that count */
    size_t bytes;       /* of whole records */
    size_t record_count;
};

/* Takes the data of one record. False: no file of ours has it. */
static bool take(struct content *c, const uint8_t *data, const struct place *p)
{
    Tensorboard__Event *event =
        tensorboard__event__unpack(NULL, p->bytes - RECORD_BYTES_LEAST, data);
    bool ours = event != NULL;
    struct place here = *p;
    if (ours && c->record_count == 0) {
        ours = event->what_case == TENSORBOARD__EVENT__WHAT_FILE_VERSION &&
               strcmp(event->file_version, VERSION) == 0;
    } else if (ours && event->what_case == TENSORBOARD__EVENT__WHAT_SESSION_LOG) {
        while (c->live.count > 0 && c->live.items[c->live.count - 1].step >= event->step) {
            c->live.count--;
        }
    } else if (ours) {
        here.step = event->step;
        add_place(&c->live, &here);
    }
    if (event != NULL) {
        tensorboard__event__free_unpacked(event, NULL);
    }
    return ours;
}

/* False: it is none of our files. A record that is cut off at the end is left out. */
static bool read_content(const struct buf *file, struct content *c)
{
    const uint8_t *bytes = (const uint8_t *)file->data;
    while (file->len - c->bytes >= RECORD_BYTES_LEAST) {
        const uint8_t *head = bytes + c->bytes, *data = head + 12;
        const uint64_t n = little(head, 8);
        if (little(head + 8, 4) != crc32c_masked(head, 8)) {
            return false;
        }
        if (n > file->len - c->bytes - RECORD_BYTES_LEAST) {
            return true;
        }
        const struct place p = {.sum = crc32c_masked(data, (size_t)n),
                                .at = c->bytes,
                                .bytes = (size_t)n + RECORD_BYTES_LEAST};
        if (little(data + n, 4) != p.sum || !take(c, data, &p)) {
            return false;
        }
        c->record_count++;
        c->bytes += p.bytes;
    }
    return true;
}

/* ---- writing ---- */

/* The evaluations of a job on its train or its test data. */
struct wanted {
    const Gradus__V1__Job *job;
    struct buf records;
    struct places places; /* [1] at least */
};

/* What is to be appended to a file with @c. The job knows its last evaluations alone: what the file
 * has before them stays. */
static void add_missing(const struct wanted *w, const struct content *c, struct buf *out)
{
    const struct place *live = c->live.items, *now = w->places.items;
    size_t i = 0, same = 0;
    while (i < c->live.count && live[i].step < now[0].step) {
        i++;
    }
    while (i < c->live.count && same < w->places.count && live[i].step == now[same].step &&
           live[i].sum == now[same].sum && live[i].bytes == now[same].bytes) {
        i++;
        same++;
    }
    if (c->record_count == 0) {
        add_version(w->job, out);
    }
    if (same == w->places.count) {
        return; /* the file may be ahead */
    }
    if (i < c->live.count) {
        const int64_t step = live[i].step < now[same].step ? live[i].step : now[same].step;
        add_restart(step, w->job->started_ms, out);
    }
    buf_add(out, w->records.data + now[same].at, w->records.len - now[same].at);
}

static int write_all(int fd, const char *path, const struct buf *all, struct err *err)
{
    const char *data = all->data;
    size_t n = all->len;
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno != EINTR) {
            return err_errno(err, errno, "write %s", path);
        }
        data += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
    char block[16 << 10];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) != 0) {
        if (n < 0 && errno != EINTR) {
            return err_errno(err, errno, "read %s", path);
        }
        if (n > 0 && out->len + (size_t)n > FILE_BYTES_MAX) {
            return err_set(err, ERR_EXHAUSTED, "%s has more than %u MiB already", path,
                           FILE_BYTES_MAX >> 20);
        }
        buf_add(out, block, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* Adds to the file of @fd, which is held against other processes. */
static int bring_open(int fd, const char *path, const struct wanted *w, bool *ours, struct err *err)
{
    struct buf there = {0}, more = {0};
    struct content c = {.bytes = 0};
    int rc = read_all(fd, path, &there, err);
    *ours = rc == 0 && read_content(&there, &c);
    if (*ours && c.bytes < there.len && ftruncate(fd, (off_t)c.bytes) != 0) {
        rc = err_errno(err, errno, "shorten %s", path);
    }
    if (rc == 0 && *ours) {
        add_missing(w, &c, &more);
        rc = write_all(fd, path, &more, err);
    }
    buf_release(&there);
    buf_release(&more);
    free(c.live.items);
    return rc;
}

static int bring(const char *path, const struct wanted *w, bool *ours, struct err *err)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int fd = open(path, flags, 0666);
    struct stat st;
    int rc = fd < 0 ? err_errno(err, errno, "open %s", path) : 0;
    if (rc == 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        rc = err_set(err, ERR_INVALID, "%s is no regular file", path);
    }
    if (rc == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        rc = errno == EWOULDBLOCK
                 ? err_set(err, ERR_UNAVAILABLE, "another process writes %s just now", path)
                 : err_errno(err, errno, "lock %s", path);
    }
    rc = rc == 0 ? bring_open(fd, path, w, ours, err) : rc;
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "write %s", path);
    }
    return rc;
}

static int write_run(const char *dir, const struct wanted *w, struct err *err)
{
    int rc = file_make_dirs(dir, err);
    bool ours = false;
    for (unsigned i = 0; rc == 0 && !ours && i < FILES_MAX; i++) {
        char *path = mem_printf("%s/events.out.tfevents.%010" PRId64 ".gradus.%u", dir,
                                w->job->started_ms / 1000, i);
        rc = bring(path, w, &ours, err);
        free(path);
    }
    return rc == 0 && !ours
               ? err_set(err, ERR_EXISTS, "%s has %d event files of other content", dir, FILES_MAX)
               : rc;
}

int tensorboard_write(const char *dir, const Gradus__V1__Job *job, size_t count, struct err *err)
{
    int rc = text_is_name(job->id, JOB_BYTES_MAX) && job->id[0] != '\0'
                 ? 0
                 : err_set(err, ERR_INVALID, "the id of the job is no name of a directory");
    for (int test = 0; test < 2 && rc == 0; test++) {
        struct wanted w = {.job = job};
        for (size_t i = 0; i < count && i < job->n_evaluations; i++) {
            const Gradus__V1__Evaluation *e = job->evaluations[i];
            const size_t n = test ? e->n_test : e->n_train;
            if (n > 0) {
                const struct place p = add_metrics(e, test ? e->test : e->train, n, &w.records);
                add_place(&w.places, &p);
            }
        }
        char *run = mem_printf("%s/%s/%s", dir, job->id, test ? "test" : "train");
        rc = w.places.count > 0 ? write_run(run, &w, err) : 0;
        free(run);
        buf_release(&w.records);
        free(w.places.items);
    }
    return rc;
}
