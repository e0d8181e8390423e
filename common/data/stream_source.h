/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one source (all files of data.train or data.test) in their files: read from the
 * first to the last in blocks, or single ones at any place, by the offset of one record in every
 * few. No more than a block is in memory.
 *
 * Made by one thread; afterwards any thread may read records.
 *
 * A batch of streamed records is a small file (decision 53): the text of its lines, cut out of the
 * files by an index and handed to the reader of the format, then to the code that encodes records
 * in memory. So there is one decoder, and the bits are the same by construction. Sums over train
 * records are added block by block in the order of records (measure.h), and memory is the case of
 * one block. The index has one offset for a few KiB of records, as reading that much costs what
 * reading one record costs, and is itself read where it lies: nothing in memory grows with the
 * data. One index is for all that a job's settings say about its data, because what is measured
 * depends on all of them. */
#ifndef GRADUS_DATA_STREAM_SOURCE_H
#define GRADUS_DATA_STREAM_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/data_spec.h"
#include "data/format.h"
#include "data/ranged_file.h"
#include "data/row_cut.h"

/* The offset of the first record of a group is in the index. This bit of it: between its records
 * are lines that are none, or records are several lines. */
#define STREAM_UNEVEN (UINT64_C(1) << 63)
#define STREAM_GROUP_BYTES 4096U /* a group has as many records as fit, by the first ones */
#define STREAM_GROUP_MAX 64U
#define STREAM_OPEN_MAX 128U /* files that stay open */

struct stream_file {
    char *path;
    struct ranged_stamp stamp;
    uint64_t first_record, records; /* of the source */
    uint64_t first_group;           /* of the index */
    uint64_t begin, end, line;      /* bytes of its rows, and the number of the first line */
    bool header;
    char *first_row; /* first row of a table, which names its columns */
    size_t first_row_bytes;
    uint64_t first_row_line;
    struct ranged_file *open; /* NULL: opened when it is read */
};

struct stream_source {
    struct data_spec spec; /* borrows what it points to; its header is decided */
    const struct data_source *source;
    const char *key; /* "train" or "test" */
    bool label_is_class;
    const struct format *format;
    char *choice;      /* the choice in the words of dataset_format() */
    char *doubt;       /* why data.format: auto took it, where that may be wrong; or NULL */
    char *labels_path; /* or NULL */
    struct row_kind rows;
    struct stream_file *files;
    size_t file_count;
    char *where;
    uint64_t records, groups, group; /* group: records of each */
    uint64_t bad_count, skipped;
    char *bad_first;
    char *foreign;      /* foreign_text.h */
    size_t numbers;     /* numbers of a record; of sparse rows the most */
    bool scanned;       /* everything above is known */
    size_t block_bytes; /* bytes of text that are read at once */
    uint64_t block_records;
    struct frame_cache *cache; /* of packed files */
    pthread_mutex_t lock;      /* of the open files */
    size_t open_count;
};

/* Records that follow each other in a file. */
struct stream_block {
    struct records records; /* as the format read them; the visitor may take them */
    uint64_t first;         /* number of the first */
};
typedef int stream_visit(void *context, struct stream_block *block, struct err *err);
/* The next entry of the index. */
typedef int stream_entry(void *context, uint64_t entry, struct err *err);

/* List the files, choose their format and look at their stamps. @s is zeroed and to be released in
 * any case; @spec must outlive it. @memory: of data.memory. Errors: ERR_UNSUPPORTED what can only
 * be read as a whole; as dataset_open(). */
int stream_source_open(struct stream_source *s, const struct data_spec *spec, const char *key,
                       bool label_is_class, uint64_t memory, struct err *err);
void stream_source_release(struct stream_source *s);
/* Go over all files for the first time: checks every record, counts, and makes the index. Errors:
 * as dataset_open(). */
int stream_source_scan(struct stream_source *s, stream_visit *visit, stream_entry *add,
                       void *context, struct err *err);
/* Go over all records again, in the same order. Errors: of reading. */
int stream_source_walk(struct stream_source *s, stream_visit *visit, void *context,
                       struct err *err);
/* Read the given records. @index: where the entries are, of which those of this source begin at
 * @entries_at. @out (zeroed) is as the format read them. Errors: of reading; ERR_CORRUPT a file has
 * been changed. */
int stream_source_read(struct stream_source *s, int index, uint64_t entries_at,
                       const uint64_t *records, size_t count, struct records *out, struct err *err);

/* ---- for its own files ---- */

/* Rows of a file that are in memory. */
struct stream_text {
    const char *bytes;
    size_t count;
    uint64_t line, offset; /* as struct format_part */
};
/* Read rows of file @i. @allowed: how many bad ones are left out. */
int stream_source_parse(const struct stream_source *s, size_t i, const struct stream_text *text,
                        uint64_t limit, uint64_t allowed, struct records *out, struct err *err);
/* Finds where the rows of file @i begin, and the first row of a table, by the file's first bytes;
 * @last: these are all of the file. False: more of them are needed. */
bool stream_source_begin(const struct stream_source *s, struct stream_file *f, const char *text,
                         size_t n, bool last);
/* The file @i for reading, and back. Errors: as ranged_file_open(); ERR_CORRUPT it has been
 * changed. */
int stream_source_take(struct stream_source *s, size_t i, struct ranged_file **out,
                       struct err *err);
void stream_source_give(struct stream_source *s, size_t i, struct ranged_file *f);

#endif
