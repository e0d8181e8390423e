/* SPDX-License-Identifier: Apache-2.0 */
/* What changed lately, in the order of its last change: jobs, nodes and lines of the log, so that a
 * reader who knows a number is told what is newer, each thing once and as it is now. No clock and
 * no reader inside.
 *
 * Owner: the loop. Limits: NEWS_THINGS_MAX, NEWS_LINES of NEWS_LINE_BYTES. */
#ifndef GRADUS_MASTER_SHELL_NEWS_H
#define GRADUS_MASTER_SHELL_NEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name_index.h"

#define NEWS_THINGS_MAX 20000
#define NEWS_LINES 256
#define NEWS_LINE_BYTES 1024

enum news_kind { NEWS_JOB, NEWS_NODE, NEWS_KINDS };

struct news_thing {
    enum news_kind kind;
    char *id;
    uint64_t changed; /* the number of its last change */
    uint64_t said;    /* of the last one that was more than progress */
    uint64_t key;     /* what is more than progress when it changes */
    uint64_t sweep;   /* when it was seen last; of who looks */
    bool gone;
    char *text; /* what it is told as, until it changes; owned; NULL: not made yet */
    struct news_thing *older, *newer;
};

struct news_line {
    uint64_t number;
    int64_t time_ms;
    int level;
    char *event, *text; /* owned */
};

/* Zeroed is empty. */
struct news {
    uint32_t run;    /* numbers of another run mean nothing */
    uint64_t number; /* of the last change */
    struct news_thing *newest;
    struct name_index things[NEWS_KINDS];
    struct news_line lines[NEWS_LINES]; /* a ring */
    uint64_t line_count;                /* ever */
};

/* How far a reader is: it knows all that was said up to one number, and all progress up to
 * another. */
struct news_place {
    uint32_t run;
    uint64_t said, progressed;
};
#define NEWS_PLACE_BYTES 48

void news_reset(struct news *f, uint32_t run); /* forgets all */
/* The thing has changed; @key other than before: more than its progress has. Too many of them: the
 * news is forgotten first, and the next run begins. */
struct news_thing *news_touch(struct news *f, enum news_kind kind, const char *id, uint64_t key);
/* It is no more. Not there: fine. */
void news_remove(struct news *f, enum news_kind kind, const char *id);
struct news_thing *news_find(const struct news *f, enum news_kind kind, const char *id);
void news_log(struct news *f, int64_t time_ms, int level, const char *event, const char *text);
/* The one that changed first after @number; then its `newer`. NULL: none. */
struct news_thing *news_after(const struct news *f, uint64_t number);
/* The line that was written first after @number; NULL: none. */
const struct news_line *news_line_after(const struct news *f, uint64_t number);

void news_place_format(const struct news_place *place, char out[NEWS_PLACE_BYTES]);
/* False: it is none of these, and the reader has to look at everything again. */
bool news_place_parse(const struct news *f, const char *text, struct news_place *place);

#endif
