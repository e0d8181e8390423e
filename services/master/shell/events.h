/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events of the HTTP port (html.spec.whatwg.org/multipage/server-sent-events.html):
 * jobs, nodes and lines of the log, as they change, as JSON.
 *
 * Nothing is kept for a reader but how far it is (news.h): what it is told next is made when the
 * last part was sent, and is what is so then. A slow reader hears less often, and is cut off when
 * it reads nothing. Nothing is noted while nobody reads.
 *
 * Owner: the loop, but for events_open(). Limits: EVENTS_READERS_MAX. */
#ifndef GRADUS_MASTER_SHELL_EVENTS_H
#define GRADUS_MASTER_SHELL_EVENTS_H

#include "master/shell/shell.h"

#define EVENTS_READERS_MAX 32

/* Answers @call with a stream, of @job alone unless that is NULL. On the HTTP thread. */
void events_open(struct shell *s, struct http_call *call, const char *job);
void events_changed(struct shell *s, const struct job_record *record);
void events_removed(struct shell *s, const char *job);
void events_logged(struct shell *s, const struct master_log *line);
void events_end(struct shell *s); /* of all streams */
void events_release(struct shell *s);

#endif
