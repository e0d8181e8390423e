/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the table of an HTTP server's connections and chooses which to end. It is small, so
 * every question walks all of it. */
#include "service/http_crowd.h"

struct http_guest *http_crowd_enter(struct http_crowd *c, int fd, uint64_t now_ms)
{
    for (size_t i = 0; i < HTTP_CROWD_ROOM; i++) {
        struct http_guest *g = &c->guests[i];
        if (!g->used) {
            *g = (struct http_guest){
                .used = true, .fd = fd, .since_ms = now_ms, .number = ++c->entered};
            return g;
        }
    }
    return NULL;
}

void http_crowd_asked(struct http_guest *guest)
{
    guest->asked = true;
}

void http_crowd_streams(struct http_guest *guest)
{
    guest->streams = true;
}

void http_crowd_answered(struct http_guest *guest, uint64_t now_ms)
{
    guest->asked = false;
    guest->streams = false;
    guest->since_ms = now_ms;
}

void http_crowd_leave(struct http_guest *guest)
{
    guest->used = false;
}

static bool stays(const struct http_guest *g)
{
    return g->used && !g->leaving;
}

static bool waits_longer(const struct http_guest *a, const struct http_guest *b)
{
    return a->since_ms != b->since_ms ? a->since_ms < b->since_ms : a->number < b->number;
}

struct http_guest *http_crowd_surplus(struct http_crowd *c)
{
    struct http_guest *goes = NULL;
    size_t count = 0;
    for (size_t i = 0; i < HTTP_CROWD_ROOM; i++) {
        struct http_guest *g = &c->guests[i];
        count += stays(g) ? 1 : 0;
        if (stays(g) && !g->asked && (goes == NULL || waits_longer(g, goes))) {
            goes = g;
        }
    }
    if (count <= HTTP_CONNECTIONS_MAX || goes == NULL) {
        return NULL;
    }
    goes->leaving = true;
    return goes;
}

struct http_guest *http_crowd_late(struct http_crowd *c, uint64_t now_ms)
{
    for (size_t i = 0; i < HTTP_CROWD_ROOM; i++) {
        struct http_guest *g = &c->guests[i];
        if (stays(g) && !g->streams && now_ms - g->since_ms >= HTTP_REQUEST_MS_MAX) {
            g->leaving = true;
            return g;
        }
    }
    return NULL;
}

uint64_t http_crowd_wait_ms(const struct http_crowd *c, uint64_t now_ms)
{
    uint64_t wait = UINT64_MAX;
    for (size_t i = 0; i < HTTP_CROWD_ROOM; i++) {
        const struct http_guest *g = &c->guests[i];
        if (stays(g) && !g->streams) {
            uint64_t age = now_ms - g->since_ms;
            uint64_t left = age < HTTP_REQUEST_MS_MAX ? HTTP_REQUEST_MS_MAX - age : 0;
            wait = left < wait ? left : wait;
        }
    }
    return wait;
}
