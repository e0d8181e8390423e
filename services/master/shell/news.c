/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/news.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

static void thing_free(struct news_thing *t)
{
    free(t->id);
    free(t->text);
    free(t);
}

void news_reset(struct news *f, uint32_t run)
{
    for (struct news_thing *t = f->newest, *older; t != NULL; t = older) {
        older = t->older;
        thing_free(t);
    }
    for (size_t i = 0; i < NEWS_KINDS; i++) {
        name_index_release(&f->things[i]);
    }
    for (size_t i = 0; i < NEWS_LINES; i++) {
        free(f->lines[i].event);
        free(f->lines[i].text);
    }
    *f = (struct news){.run = run};
}

struct news_thing *news_find(const struct news *f, enum news_kind kind, const char *id)
{
    return name_index_find(&f->things[kind], id);
}

static void unlink_thing(struct news *f, struct news_thing *t)
{
    if (t->newer != NULL) {
        t->newer->older = t->older;
    } else if (f->newest == t) {
        f->newest = t->older;
    }
    if (t->older != NULL) {
        t->older->newer = t->newer;
    }
}

/* It is the newest from now on. */
static void renew(struct news *f, struct news_thing *t)
{
    unlink_thing(f, t);
    t->older = f->newest;
    t->newer = NULL;
    if (f->newest != NULL) {
        f->newest->newer = t;
    }
    f->newest = t;
    t->changed = ++f->number;
    free(t->text);
    t->text = NULL;
}

struct news_thing *news_touch(struct news *f, enum news_kind kind, const char *id, uint64_t key)
{
    struct news_thing *t = news_find(f, kind, id);
    const bool new = t == NULL;
    if (new && f->things[NEWS_JOB].count + f->things[NEWS_NODE].count >= NEWS_THINGS_MAX) {
        news_reset(f, f->run + 1);
    }
    if (new) {
        t = mem_new(1, sizeof *t);
        t->kind = kind;
        t->id = mem_strdup(id);
        name_index_put(&f->things[kind], t->id, t);
    }
    renew(f, t);
    if (new || t->gone || key != t->key) {
        t->said = t->changed;
    }
    t->key = key;
    t->gone = false;
    return t;
}

void news_remove(struct news *f, enum news_kind kind, const char *id)
{
    struct news_thing *t = news_find(f, kind, id);
    if (t == NULL || t->gone) {
        return;
    }
    renew(f, t);
    t->said = t->changed;
    t->gone = true;
}

void news_log(struct news *f, int64_t time_ms, int level, const char *event, const char *text)
{
    struct news_line *to = &f->lines[f->line_count++ % NEWS_LINES];
    free(to->event);
    free(to->text);
    *to = (struct news_line){.number = ++f->number,
                             .time_ms = time_ms,
                             .level = level,
                             .event = mem_printf("%.*s", NEWS_LINE_BYTES, event),
                             .text = mem_printf("%.*s", NEWS_LINE_BYTES, text)};
}

struct news_thing *news_after(const struct news *f, uint64_t number)
{
    struct news_thing *found = NULL;
    for (struct news_thing *t = f->newest; t != NULL && t->changed > number; t = t->older) {
        found = t;
    }
    return found;
}

const struct news_line *news_line_after(const struct news *f, uint64_t number)
{
    const uint64_t kept = f->line_count < NEWS_LINES ? f->line_count : NEWS_LINES;
    for (uint64_t i = f->line_count - kept; i < f->line_count; i++) {
        if (f->lines[i % NEWS_LINES].number > number) {
            return &f->lines[i % NEWS_LINES];
        }
    }
    return NULL;
}

void news_place_format(const struct news_place *place, char out[NEWS_PLACE_BYTES])
{
    (void)snprintf(out, NEWS_PLACE_BYTES, "%" PRIx32 "-%" PRIx64 "-%" PRIx64, place->run,
                   place->said, place->progressed);
}

/* Hexadecimal digits up to @end; false: there are none, or too many. */
static bool read_part(const char **text, char end, uint64_t max, uint64_t *value)
{
    char *rest = NULL;
    *value = strtoull(*text, &rest, 16);
    const bool well = rest != *text && rest - *text <= 16 && *rest == end && *value <= max;
    *text = well ? rest + 1 : *text;
    return well;
}

bool news_place_parse(const struct news *f, const char *text, struct news_place *place)
{
    uint64_t run, said, progressed;
    if (!read_part(&text, '-', UINT32_MAX, &run) || !read_part(&text, '-', f->number, &said) ||
        !read_part(&text, '\0', f->number, &progressed) || run != f->run) {
        return false;
    }
    *place = (struct news_place){.run = f->run, .said = said, .progressed = progressed};
    return true;
}
