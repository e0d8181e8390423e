/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/output.h"
#include "gradus/v1/page.pb-c.h"

static void print(Gradus__V1__WatchEvent *event, const char *name)
{
    char copy[16];
    struct buf out = {0};
    (void)snprintf(copy, sizeof copy, "%s", name);
    event->event = copy;
    output_message_json(&event->base, &out);
    (void)fputs(buf_str(&out), stdout);
    (void)fflush(stdout);
    buf_release(&out);
}

static bool is_news(const struct watch_lines *w, const Gradus__V1__Job *job)
{
    return !w->began || job->state != w->state || job->generation != w->generation ||
           job->recoveries != w->recoveries || strcmp(job->reason, w->reason) != 0 ||
           strcmp(job->checkpoint, w->checkpoint) != 0;
}

void watch_lines_job(struct watch_lines *w, const Gradus__V1__Job *job)
{
    Gradus__V1__WatchEvent event = GRADUS__V1__WATCH_EVENT__INIT;
    Gradus__V1__Job brief = *job; /* borrows all of it */
    const bool news = is_news(w, job);
    brief.n_evaluations = 0;
    brief.evaluations = NULL;
    event.job = &brief;
    print(&event, news ? "job" : "progress");
    if (news) {
        watch_lines_release(w);
        *w = (struct watch_lines){.began = true,
                                  .state = job->state,
                                  .generation = job->generation,
                                  .recoveries = job->recoveries,
                                  .reason = mem_strdup(job->reason),
                                  .checkpoint = mem_strdup(job->checkpoint)};
    }
}

void watch_lines_evaluation(const Gradus__V1__Evaluation *e)
{
    Gradus__V1__WatchEvent event = GRADUS__V1__WATCH_EVENT__INIT;
    Gradus__V1__Evaluation copy = *e; /* borrows all of it */
    event.evaluation = &copy;
    print(&event, "evaluation");
}

void watch_lines_end(const Gradus__V1__Job *job)
{
    Gradus__V1__WatchEvent event = GRADUS__V1__WATCH_EVENT__INIT;
    Gradus__V1__Job copy = *job; /* borrows all of it */
    event.job = &copy;
    print(&event, "end");
}

void watch_lines_error(const char *text)
{
    Gradus__V1__WatchEvent event = GRADUS__V1__WATCH_EVENT__INIT;
    char *copy = mem_strdup(text);
    event.text = copy;
    print(&event, "error");
    free(copy);
}

void watch_lines_release(struct watch_lines *w)
{
    free(w->reason);
    free(w->checkpoint);
    *w = (struct watch_lines){0};
}
