/* SPDX-License-Identifier: Apache-2.0 */
/* What changed lately, in the order of its last change: jobs, nodes and lines of the log, so that a
 * reader who knows a number is told what is newer, each thing once and as it is now. No clock and
 * no reader inside.
 *
 * Owner: the loop. Limits: FEED_THINGS_MAX, FEED_LINES of FEED_LINE_BYTES. */
#ifndef GRADUS_MASTER_SHELL_FEED_H
#define GRADUS_MASTER_SHELL_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name_index.h"

#define FEED_THINGS_MAX 20000
#define FEED_LINES 256
#define FEED_LINE_BYTES 1024

enum feed_kind { FEED_JOB, FEED_NODE, FEED_KINDS };

struct feed_thing {
    enum feed_kind kind;
    char *id;
    uint64_t changed; /* the number of its last change */
    uint64_t said;    /* of the last one that was more than progress */
    uint64_t key;     /* what is more than progress when it changes */
    uint64_t sweep;   /* when it was seen last; of who looks */
    bool gone;
    char *text; /* what it is told as, until it changes; owned; NULL: not made yet */
    struct feed_thing *older, *newer;
};

struct feed_line {
    uint64_t number;
    int64_t time_ms;
    int level;
    char *event, *text; /* owned */
};

/* Zeroed is empty. */
struct feed {
    uint32_t run;    /* numbers of another run mean nothing */
    uint64_t number; /* of the last change */
    struct feed_thing *newest;
    struct name_index things[FEED_KINDS];
    struct feed_line lines[FEED_LINES]; /* a ring */
    uint64_t line_count;                /* ever */
};

/* How far a reader is: it knows all that was said up to one number, and all progress up to
 * another. */
struct feed_place {
    uint32_t run;
    uint64_t said, progressed;
};
#define FEED_PLACE_BYTES 48

void feed_reset(struct feed *f, uint32_t run); /* forgets all */
/* The thing has changed; @key other than before: more than its progress has. Too many of them: the
 * feed is reset first, with the next run. */
struct feed_thing *feed_touch(struct feed *f, enum feed_kind kind, const char *id, uint64_t key);
/* It is no more. Not there: fine. */
void feed_remove(struct feed *f, enum feed_kind kind, const char *id);
struct feed_thing *feed_find(const struct feed *f, enum feed_kind kind, const char *id);
void feed_log(struct feed *f, int64_t time_ms, int level, const char *event, const char *text);
/* The one that changed first after @number; then its `newer`. NULL: none. */
struct feed_thing *feed_after(const struct feed *f, uint64_t number);
/* The line that was written first after @number; NULL: none. */
const struct feed_line *feed_line_after(const struct feed *f, uint64_t number);

void feed_place_format(const struct feed_place *place, char out[FEED_PLACE_BYTES]);
/* False: it is none of this feed, and the reader has to look at everything again. */
bool feed_place_parse(const struct feed *f, const char *text, struct feed_place *place);

#endif
