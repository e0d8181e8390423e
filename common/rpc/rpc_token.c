/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the file once a second at most, and reads it when it has changed. */
#include "rpc/rpc_token.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/file_version.h"
#include "rpc/rpc.h"

#define LOOK_MS 1000

struct rpc_token {
    char *file; /* NULL: none */

    pthread_mutex_t lock; /* guards what follows */
    struct file_version version;
    uint64_t looked_ms;
    char *text;
};

/* The token in @text, whatever blanks and line ends are around it; returns owned, or NULL. */
static char *take(const char *text, size_t n, const char *from, struct err *err)
{
    static const char blanks[] = " \t\r\n";
    while (n > 0 && text[n - 1] != '\0' && strchr(blanks, text[n - 1]) != NULL) {
        n--;
    }
    while (n > 0 && text[0] != '\0' && strchr(blanks, text[0]) != NULL) {
        text++;
        n--;
    }
    bool good = n > 0 && n <= RPC_TOKEN_BYTES_MAX;
    for (size_t i = 0; i < n && good; i++) {
        good = text[i] > ' ' && text[i] < 0x7f;
    }
    if (!good) {
        (void)err_set(err, ERR_INVALID,
                      "%s has no token: 1 to %zu characters of ASCII without blanks", from,
                      RPC_TOKEN_BYTES_MAX);
        return NULL;
    }
    return mem_printf("%.*s", (int)n, text);
}

static char *read_file(const char *path, struct err *err)
{
    struct buf text = {0};
    char *token = NULL;
    if (file_read(path, 2 * RPC_TOKEN_BYTES_MAX, &text, err) == 0) {
        token = take(buf_str(&text), text.len, path, err);
    }
    buf_release(&text);
    return token;
}

struct rpc_token *rpc_token_new(const char *file, const char *text, struct err *err)
{
    struct rpc_token *t = mem_new(1, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    t->file = mem_strdup(file);
    t->version = file != NULL ? file_version(file) : (struct file_version){0};
    t->looked_ms = chrono_now_ms();
    t->text = file != NULL ? read_file(file, err) : take(text, strlen(text), "GRADUS_TOKEN", err);
    if (t->text == NULL) {
        rpc_token_free(t);
        return NULL;
    }
    return t;
}

void rpc_token_free(struct rpc_token *t)
{
    if (t != NULL) {
        pthread_mutex_destroy(&t->lock);
        free(t->file);
        free(t->text);
        free(t);
    }
}

/* Locked. */
static void refresh(struct rpc_token *t)
{
    uint64_t now_ms = chrono_now_ms();
    if (t->file == NULL || now_ms - t->looked_ms < LOOK_MS) {
        return;
    }
    t->looked_ms = now_ms;
    struct file_version version = file_version(t->file);
    char *fresh = file_version_same(&version, &t->version) ? NULL : read_file(t->file, NULL);
    if (fresh != NULL) {
        free(t->text);
        t->text = fresh;
        t->version = version;
    }
}

void rpc_token_add(struct rpc_token *t, struct buf *out)
{
    pthread_mutex_lock(&t->lock);
    refresh(t);
    buf_printf(out, "Bearer %s", t->text);
    pthread_mutex_unlock(&t->lock);
}
