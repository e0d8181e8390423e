/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the list of actions that each step of the master's core returns: replies, log lines and
 * the rest. What actions point to is kept with the list and freed when the next step begins. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/core/core.h"

struct master_action *action_add(struct master *m, enum master_action_kind kind)
{
    struct master_actions *a = m->actions;
    a->items = mem_grow(a->items, &a->capacity, a->count + 1, sizeof *a->items);
    struct master_action *item = &a->items[a->count++];
    memset(item, 0, sizeof *item);
    item->kind = kind;
    return item;
}

static void *keep(struct master_actions *a, void *memory)
{
    a->owned = mem_grow(a->owned, &a->owned_capacity, a->owned_count + 1, sizeof *a->owned);
    a->owned[a->owned_count++] = memory;
    return memory;
}

void action_own(struct master *m, void *memory)
{
    (void)keep(m->actions, memory);
}

void *action_memory(struct master *m, size_t count, size_t size)
{
    return keep(m->actions, mem_new(count == 0 ? 1 : count, size));
}

char *action_printf(struct master *m, const char *fmt, ...)
{
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    return keep(m->actions, text.data == NULL ? mem_strdup("") : buf_take(&text));
}

void action_log(struct master *m, enum log_level level, const char *event, const char *fmt, ...)
{
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    const char *kept = keep(m->actions, text.data == NULL ? mem_strdup("") : buf_take(&text));
    struct master_action *item = action_add(m, MASTER_LOG);
    item->log = (struct master_log){.level = (int)level, .event = event, .text = kept};
}

struct master_reply *reply_add(struct master *m, uint64_t request)
{
    struct master_action *item = action_add(m, MASTER_REPLY);
    item->reply.request = request;
    return &item->reply;
}

void reply_error(struct master *m, uint64_t request, int code, const char *fmt, ...)
{
    struct master_reply *reply = reply_add(m, request);
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    err_set(&reply->err, code, "%s", buf_str(&text));
    buf_release(&text);
}

void actions_clear(struct master_actions *a)
{
    for (size_t i = 0; i < a->owned_count; i++) {
        free(a->owned[i]);
    }
    a->owned_count = 0;
    a->count = 0;
    a->timer_ms = UINT64_MAX;
}

void master_actions_release(struct master_actions *a)
{
    actions_clear(a);
    free(a->items);
    free(a->owned);
    memset(a, 0, sizeof *a);
}
