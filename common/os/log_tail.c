/* SPDX-License-Identifier: Apache-2.0 */
#include "os/log_tail.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "os/log_secret.h"

static struct {
    pthread_mutex_t lock;                       /* guards what follows */
    struct log_tail_line lines[LOG_TAIL_LINES]; /* a ring, by number */
    uint64_t first, next;                       /* numbers: of the oldest, and of the next one */
    char job[LOG_TAIL_JOB_BYTES];               /* "": none */
} tail = {.lock = PTHREAD_MUTEX_INITIALIZER, .first = 1, .next = 1};

bool log_job_of(const char *text, char out[LOG_TAIL_JOB_BYTES])
{
    static const char key[] = "job=";
    for (const char *at = text; (at = strstr(at, key)) != NULL; at++) {
        const char *id = at + sizeof key - 1;
        const size_t n = strcspn(id, " \"");
        if ((at == text || at[-1] == ' ') && n > 0 && n < LOG_TAIL_JOB_BYTES) {
            memcpy(out, id, n);
            out[n] = '\0';
            return true;
        }
    }
    return false;
}

static struct log_tail_line *slot_of(uint64_t number)
{
    return &tail.lines[number % LOG_TAIL_LINES];
}

static void drop_oldest(void)
{
    struct log_tail_line *old = slot_of(tail.first);
    const uint64_t lost = old->lost + 1;
    for (uint64_t i = tail.first + 1; i < tail.next; i++) {
        if (strcmp(slot_of(i)->job, old->job) == 0) {
            slot_of(i)->lost += lost;
            break;
        }
    }
    log_tail_release(old);
    tail.first++;
}

static char *shown(const char *text)
{
    char out[LOG_TAIL_TEXT_BYTES], plain[LOG_TAIL_TEXT_BYTES * 4];
    if (log_has_secret(text)) {
        return mem_strdup(LOG_SECRET_SHOWN);
    }
    text_utf8(text, plain, sizeof plain);
    text_plain(plain, strlen(plain));
    return mem_strdup(text_shown(plain, out, sizeof out));
}

/* Under the lock. */
static void add(const char *job, enum log_level level, const char *event, const char *text)
{
    if (tail.next - tail.first == LOG_TAIL_LINES) {
        drop_oldest();
    }
    char name[LOG_TAIL_EVENT_BYTES];
    *slot_of(tail.next) =
        (struct log_tail_line){.number = tail.next,
                               .time_ms = chrono_wall_ms(),
                               .level = level,
                               .job = mem_strdup(job),
                               .event = mem_strdup(text_shown(event, name, sizeof name)),
                               .text = shown(text)};
    tail.next++;
}

static void on_line(enum log_level level, const char *event, const char *text)
{
    char job[LOG_TAIL_JOB_BYTES];
    const bool named = log_job_of(text, job);
    pthread_mutex_lock(&tail.lock);
    if (named || tail.job[0] != '\0') {
        add(named ? job : tail.job, level, event, text);
    }
    pthread_mutex_unlock(&tail.lock);
}

void log_tail_begin(void)
{
    log_tell(on_line);
}

void log_tail_job(const char *job)
{
    pthread_mutex_lock(&tail.lock);
    text_copy(tail.job, sizeof tail.job, job == NULL ? "" : job);
    for (uint64_t i = tail.first; i < tail.next && job != NULL; i++) {
        struct log_tail_line *line = slot_of(i);
        if (line->job[0] == '\0') {
            free(line->job);
            line->job = mem_strdup(tail.job);
        }
    }
    pthread_mutex_unlock(&tail.lock);
}

void log_tail_printed(const char *text)
{
    pthread_mutex_lock(&tail.lock);
    add(tail.job, LOG_LEVEL_INFO, "printed", text);
    pthread_mutex_unlock(&tail.lock);
}

size_t log_tail_read(struct log_tail_line *out, size_t max, size_t bytes)
{
    size_t n = 0, taken = 0;
    pthread_mutex_lock(&tail.lock);
    for (uint64_t i = tail.first; i < tail.next && n < max; i++) {
        const struct log_tail_line *line = slot_of(i);
        if (line->job[0] == '\0') {
            continue;
        }
        taken += strlen(line->text);
        if (n > 0 && taken > bytes) {
            break;
        }
        out[n] = *line;
        out[n].job = mem_strdup(line->job);
        out[n].event = mem_strdup(line->event);
        out[n].text = mem_strdup(line->text);
        n++;
    }
    pthread_mutex_unlock(&tail.lock);
    return n;
}

void log_tail_release(struct log_tail_line *line)
{
    free(line->job);
    free(line->event);
    free(line->text);
    *line = (struct log_tail_line){0};
}

void log_tail_told(uint64_t number)
{
    pthread_mutex_lock(&tail.lock);
    while (tail.first < tail.next && tail.first <= number) {
        log_tail_release(slot_of(tail.first));
        tail.first++;
    }
    pthread_mutex_unlock(&tail.lock);
}
