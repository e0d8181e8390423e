/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a data set, for the files that make one. */
#ifndef GRADUS_DATA_DATASET_STATE_H
#define GRADUS_DATA_DATASET_STATE_H

#include <stdatomic.h>

#include "data/dataset.h"
#include "data/encoding.h"
#include "data/sample.h"
#include "data/scaling.h"
#include "data/dataset_stream.h"
#include "data/sparse_summary.h"

struct dataset {
    atomic_uint refs;
    struct dataset_info info;
    size_t width;                /* features of a record that lie in bytes or values */
    uint8_t *bytes;              /* [records × width], scaled when read; or NULL */
    float *values;               /* [records × width], scaled already; or NULL */
    struct sparse_fields fields; /* lists, or columns that are made when read, behind the others */
    struct scaling scaling;      /* of bytes */
    int32_t *classes;            /* [records], or NULL for real labels */
    float *targets;              /* [records], or NULL for class labels */
    float *weights;              /* [records], or NULL */
    const char **field_names;    /* [fields.count], they point into fields */
    char **class_names;          /* [classes], or NULL */
    uint64_t bad_count;
    char *bad_first;
    char *format;
    char *measured;        /* encoding_json.h; NULL: of the test part */
    char *foreign;         /* foreign_text.h */
    char *news;            /* what a given encoding did not know of the train records; or NULL */
    struct sample *sample; /* info.records are the kept ones of all; NULL: all are */
    /* Of records that are read from their files when they are asked for; the arrays above are
     * NULL, and fields have no lists. */
    struct dataset_stream *stream;
    size_t stream_view;             /* train or test */
    struct sparse_summary *summary; /* of the lists */
};

/* Make a dataset of @r, encoded, whose numbers it takes; without its fingerprint. Errors:
 * ERR_INVALID a label that is none. */
int dataset_of_records(const struct encoding *e, const struct data_spec *spec, const char *format,
                       struct records *r, struct dataset **out, struct err *err);
/* Reads @records, numbers among all that are in memory, whatever a sample keeps. */
void dataset_read_memory(const struct dataset *d, const uint64_t *records, size_t count,
                         struct batch *b);
/* Takes @s, which says which records of @d the data set keeps, and adapts the fingerprint. */
void dataset_take_sample(struct dataset *d, struct sample *s);
/* As dataset_open(), of records that are all to be in memory. */
int dataset_memory_open(const struct data_spec *spec, enum data_label_kind label_kind,
                        struct dataset **train, struct dataset **test, struct err *err);
/* True if the records should stay in their files, where that is possible. */
bool dataset_wants_stream(const struct data_spec *spec);
/* Features and columns of sparse fields together; of those fields that the layers do not read.
 * @second may be NULL. */
int dataset_settle_fields(const struct data_spec *spec, struct records *first,
                          struct records *second, struct err *err);

#endif
