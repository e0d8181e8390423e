/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the data set of drawn digits for `gradus generate`: gzipped IDX files, drawn in chunks
 * by two threads. None of the four files gets its name before all are written. */
#include "data/digits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "data/gzip_file.h"
#include "os/file.h"

#define CHUNK_IMAGES 4096 /* drawn by two threads, then written: 3 MB */

/* A range of images for one thread. */
struct drawing {
    uint64_t seed;
    enum digits_part part;
    uint64_t first, count;
    uint8_t *pixels; /* [count × DIGITS_PIXELS] */
};

static void *draw_range(void *arg)
{
    const struct drawing *d = arg;
    for (uint64_t i = 0; i < d->count; i++) {
        digits_draw(d->seed, d->part, d->first + i, d->pixels + i * DIGITS_PIXELS);
    }
    return NULL;
}

/* Draws @all in two threads, or in one when no second can be started. */
static void draw_chunk(const struct drawing *all)
{
    struct drawing a = *all, b = *all;
    a.count = all->count / 2;
    b.count = all->count - a.count;
    b.first += a.count;
    b.pixels += a.count * DIGITS_PIXELS;
    pthread_t helper;
    bool helped = pthread_create(&helper, NULL, draw_range, &b) == 0;
    (void)draw_range(&a);
    if (helped) {
        pthread_join(helper, NULL);
    } else {
        (void)draw_range(&b);
    }
}

static int open_idx(const char *dir, const char *name, uint8_t rank, uint64_t count,
                    struct gzip_file **out, struct err *err)
{
    const uint8_t header[16] = {
        0,
        0,
        8,
        rank,
        (uint8_t)(count >> 24),
        (uint8_t)(count >> 16),
        (uint8_t)(count >> 8),
        (uint8_t)count,
        0,
        0,
        0,
        DIGITS_SIDE,
        0,
        0,
        0,
        DIGITS_SIDE,
    };
    char *path = file_join(dir, name);
    int rc = gzip_file_open(path, out, err);
    free(path);
    return rc != 0 ? rc : gzip_file_add(*out, header, 4 + 4 * (size_t)rank, err);
}

static int write_images(struct gzip_file *file, uint64_t seed, enum digits_part part,
                        uint64_t count, struct err *err)
{
    uint8_t *pixels = mem_new(CHUNK_IMAGES, DIGITS_PIXELS);
    int rc = 0;
    for (uint64_t first = 0; rc == 0 && first < count; first += CHUNK_IMAGES) {
        uint64_t n = count - first < CHUNK_IMAGES ? count - first : CHUNK_IMAGES;
        draw_chunk(&(struct drawing){seed, part, first, n, pixels});
        rc = gzip_file_add(file, pixels, (size_t)n * DIGITS_PIXELS, err);
    }
    free(pixels);
    return rc;
}

static int write_labels(struct gzip_file *file, uint64_t seed, enum digits_part part,
                        uint64_t count, struct err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        uint8_t label = digits_label(seed, part, i);
        rc = gzip_file_add(file, &label, 1, err);
    }
    return rc;
}

int digits_generate(const char *dir, uint64_t train_count, uint64_t test_count, uint64_t seed,
                    struct err *err)
{
    static const char *const names[2][2] = {
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
        {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"},
    };
    const uint64_t counts[2] = {train_count, test_count};
    struct gzip_file *files[4] = {NULL};
    int rc = 0;
    for (size_t p = 0; rc == 0 && p < 2; p++) {
        if (counts[p] < 1 || counts[p] > DIGITS_COUNT_MAX) {
            rc = err_set(err, ERR_INVALID, "%" PRIu64 " %s images; allowed are 1 to %d", counts[p],
                         p == 0 ? "train" : "test", DIGITS_COUNT_MAX);
        }
    }
    if (rc == 0) {
        rc = file_make_dirs(dir, err);
    }
    for (size_t p = 0; rc == 0 && p < 2; p++) {
        enum digits_part part = p == 0 ? DIGITS_TRAIN : DIGITS_TEST;
        rc = open_idx(dir, names[p][0], 3, counts[p], &files[2 * p], err);
        if (rc == 0) {
            rc = open_idx(dir, names[p][1], 1, counts[p], &files[2 * p + 1], err);
        }
        if (rc == 0) {
            rc = write_images(files[2 * p], seed, part, counts[p], err);
        }
        if (rc == 0) {
            rc = write_labels(files[2 * p + 1], seed, part, counts[p], err);
        }
    }
    for (size_t i = 0; i < 4; i++) { /* all files are complete, or none stays */
        if (rc == 0) {
            rc = gzip_file_commit(files[i], err);
        } else {
            gzip_file_abort(files[i]);
        }
    }
    return rc == 0 ? 0 : err_wrap(err, "generate digits");
}
