/* SPDX-License-Identifier: Apache-2.0 */
/* What train records have beside numbers, in the form of records: each different text of their
 * labels and categories once, and the columns. Classes and vocabularies are made of it. */
#ifndef GRADUS_DATA_DIGEST_H
#define GRADUS_DATA_DIGEST_H

#include "base/buf.h"
#include "base/err.h"
#include "data/records.h"
#include "data/stream_index.h"

struct digest {
    struct records records; /* without numbers; `count` is large enough for all texts */
    bool sparse;            /* the records come as sparse rows */
    size_t place_capacity;
};

/* Begin with records of the right kind, which are taken. */
void digest_begin(struct digest *d, struct records *like);
/* Errors: ERR_EXHAUSTED too many different texts. */
int digest_add(struct digest *d, const struct data_spec *spec, const struct records *block,
               struct err *err);
/* Call when all records were added; records have @numbers numbers. */
void digest_end(struct digest *d, size_t numbers);
void digest_release(struct digest *d); /* zeroed struct is fine */
/* Texts and where the labels are, and back in place of digest_add(). */
void digest_note(const struct digest *d, struct buf *notes);
void digest_recall(struct digest *d, struct notes *notes);

#endif
