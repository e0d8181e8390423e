/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a streamed data set, for the files that make one. */
#ifndef GRADUS_DATA_STREAM_STATE_H
#define GRADUS_DATA_STREAM_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "data/dataset_state.h"
#include "data/digest.h"
#include "data/encoding_given.h"
#include "data/fingerprint.h"
#include "data/stream_index.h"
#include "data/stream_part.h"
#include "data/stream_source.h"

#define STREAM_TRAIN 0
#define STREAM_TEST 1

/* One part: what is known about all of its records. */
struct stream_view {
    struct stream_part part;
    size_t source;
    uint64_t fingerprint;
    struct sparse_summary *summary;
    uint64_t *class_counts; /* [classes]; NULL of real labels; of those that the sample keeps */
    struct sample *sample;  /* the train records that are kept; NULL: all */
    /* While it is made. */
    struct fingerprint *print;
    uint64_t added;
    struct dataset *last; /* a block, which has the shape of all */
};

struct dataset_stream {
    atomic_uint refs;
    struct data_spec spec; /* a copy */
    bool label_is_class;
    uint64_t memory;
    struct stream_source sources[2];
    size_t source_count;
    struct stream_view views[2];
    size_t view_count;
    struct digest digest;
    bool digest_begun;
    char *tested; /* a file of test records, and whether they have weights; NULL: none was seen */
    bool tested_weighted;
    struct encoding_given *given; /* NULL: the encoding is measured */
    struct encoding encoding;
    struct buf news; /* of the given encoding */
    char *index_path;
    int index; /* -1: not open */
    char *note;
    char *settings; /* a text of everything that decides what is read, but for the files' content */
    /* While it is made: notes are taken, or made and written with the entries. */
    bool making;
    struct stream_index_writer writer;
    struct buf made;
    struct buf taken;
    struct notes notes;
};

/* A stream of a copy of @spec, with one owner, that knows nothing of its files yet. */
struct dataset_stream *dataset_stream_new(const struct data_spec *spec, bool label_is_class);
/* Find out everything by reading all records, and write the index. Errors: as
 * dataset_stream_open(). */
int dataset_stream_make(struct dataset_stream *st, struct err *err);
/* Take everything from the index. Errors: ERR_NOT_FOUND there is none; ERR_STATE it is of other
 * data, with the difference; ERR_CORRUPT it cannot be used. */
int dataset_stream_recall(struct dataset_stream *st, struct err *err);
/* Finds out which records the parts have. Errors: ERR_INVALID a part has none. */
int dataset_stream_views(struct dataset_stream *st, struct err *err);
/* The number of classes; 0: labels are real. Known with the encoding. */
size_t dataset_stream_classes(const struct dataset_stream *st);
/* Records of a source as their format reads them. */
int dataset_stream_raw(struct dataset_stream *st, size_t source, const uint64_t *records,
                       size_t count, struct records *out, struct err *err);
/* The encoding, by walking over the records or with the sums of the notes. */
int dataset_stream_fit(struct dataset_stream *st, struct err *err);
/* Raw records, which are taken, become a data set in memory. */
int dataset_stream_encode(const struct dataset_stream *st, size_t source, struct records *r,
                          struct dataset **out, struct err *err);

#endif
