/* SPDX-License-Identifier: Apache-2.0 */
/* A worker program for tests that speaks with its worker without libgradus, which would not let it
 * say what it says here (program/program_message.h):
 *
 *     rogue_program MODE
 *
 * good: says the keys 7, 5, 7 for every batch, and one more each time. tables: describes tables
 * with rows of another length. no-tables: describes none. count: says keys of one table more than
 * there are. more: more keys than its memory has. small: brings less memory than it says. none:
 * says keys, and brings no memory. done: answers a question for keys as if it was a batch. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gradus/worker.h"
#include "program/channel.h"

#define MEMORY_BYTES 4096

struct rogue {
    const char *mode;
    int socket;
    struct program_memory keys;
    uint32_t asked;
};

static bool is(const struct rogue *r, const char *mode)
{
    return strcmp(r->mode, mode) == 0;
}

static void answer(const struct rogue *r, struct program_message *m, int fd)
{
    if (program_send(r->socket, m, fd, NULL) != 0) {
        exit(1);
    }
}

/* One variable, and the tables that came with the job. */
static void describe(const struct rogue *r, const struct program_message *job, int fd)
{
    const size_t tables = is(r, "no-tables") ? 0 : (size_t)job->job.table_count;
    const size_t at = sizeof(struct program_variable);
    const size_t bytes = (size_t)program_values_at(1, tables) + 64;
    struct program_memory came, memory;
    if (program_memory_map(fd, tables * sizeof(struct program_table) + 1, false, &came, NULL) !=
            0 ||
        program_memory_new(bytes, &memory, NULL) != 0) {
        exit(1);
    }
    struct program_variable *v = memory.bytes;
    memcpy(v->name, "w", 2);
    struct program_table *t = (struct program_table *)(void *)((char *)memory.bytes + at);
    memcpy(t, came.bytes, tables * sizeof *t);
    if (is(r, "tables")) {
        t[1].dim++;
    }
    struct program_message m;
    program_message_init(&m, PROGRAM_DESCRIBE, job->number);
    m.description = (struct program_description){
        .variable_count = 1, .table_count = tables, .memory_bytes = bytes, .train_records = 10};
    answer(r, &m, memory.fd);
    program_memory_release(&memory);
    program_memory_release(&came);
}

static void say_keys(struct rogue *r, const struct program_message *question)
{
    struct program_message m;
    program_message_init(&m, is(r, "done") ? PROGRAM_DONE : PROGRAM_KEYS, question->number);
    const bool fresh = r->keys.bytes == NULL;
    if (fresh && program_memory_new(MEMORY_BYTES, &r->keys, NULL) != 0) {
        exit(1);
    }
    memcpy(r->keys.bytes, (uint64_t[]){7, 5, 7, 9, 9, 9, 9, 9}, 64);
    m.keys = (struct program_keys){.memory_bytes = MEMORY_BYTES, .table_count = 2};
    m.keys.counts[0] = 3;
    m.keys.counts[1] = is(r, "more") ? MEMORY_BYTES / 8 - 2 : r->asked;
    m.keys.table_count += is(r, "count");
    m.keys.memory_bytes += is(r, "small");
    r->asked++;
    answer(r, &m, fresh && !is(r, "none") ? r->keys.fd : -1);
}

int main(int argc, char **argv)
{
    const char *socket = getenv(PROGRAM_SOCKET_ENVIRONMENT);
    struct rogue r = {.mode = argc > 1 ? argv[1] : "good",
                      .socket = socket == NULL ? -1 : (int)strtol(socket, NULL, 10),
                      .keys = {.fd = -1}};
    struct program_message m;
    int fd = -1;
    program_message_init(&m, PROGRAM_HELLO, 0);
    m.hello.abi = GRADUS_WORKER_ABI;
    answer(&r, &m, -1);
    while (program_receive(r.socket, 0, -1, &m, &fd, NULL) == 0) {
        if (m.kind == PROGRAM_JOB) {
            describe(&r, &m, fd);
            continue;
        }
        if (fd >= 0) {
            (void)close(fd);
        }
        if (m.kind == PROGRAM_KEYS) {
            say_keys(&r, &m);
        } else if (m.kind != PROGRAM_ARRAY && m.kind != PROGRAM_JOB_END) {
            const uint64_t number = m.number;
            program_message_init(&m, PROGRAM_DONE, number);
            answer(&r, &m, -1);
        }
    }
    return 0;
}
