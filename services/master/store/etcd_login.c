/* SPDX-License-Identifier: Apache-2.0 */
#include "master/store/etcd_login.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"

#define EXPECTED "%s: expected one line, USER:PASSWORD"

struct etcd_login {
    char *file;
    pthread_mutex_t lock; /* guards what follows */
    char *token;          /* NULL: none yet */
};

struct etcd_login *etcd_login_new(const char *file)
{
    struct etcd_login *l = mem_new(1, sizeof *l);
    l->file = mem_strdup(file);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void wipe(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
    }
    free(text);
}

void etcd_login_free(struct etcd_login *l)
{
    if (l != NULL) {
        wipe(l->token);
        pthread_mutex_destroy(&l->lock);
        free(l->file);
        free(l);
    }
}

void etcd_user_release(struct etcd_user *u)
{
    free(u->name);
    wipe(u->password);
    *u = (struct etcd_user){0};
}

int etcd_login_read(const char *file, struct etcd_user *out, struct err *err)
{
    struct buf text = {0};
    int rc = file_read(file, ETCD_CREDENTIALS_BYTES_MAX, &text, err);
    rc = rc == ERR_EXHAUSTED ? err_set(err, ERR_INVALID, EXPECTED, file) : rc;
    const char *line = buf_str(&text);
    const size_t n = strcspn(line, "\r\n"), end = n + strspn(line + n, "\r\n");
    const char *colon = memchr(line, ':', n);
    if (rc == 0 && (colon == NULL || colon == line || colon + 1 == line + n || end != text.len)) {
        rc = err_set(err, ERR_INVALID, EXPECTED, file);
    }
    if (rc == 0) {
        out->name = mem_printf("%.*s", (int)(colon - line), line);
        out->password = mem_printf("%.*s", (int)(line + n - colon - 1), colon + 1);
    }
    if (text.data != NULL) {
        explicit_bzero(text.data, text.len);
    }
    buf_release(&text);
    return rc;
}

const char *etcd_login_file(const struct etcd_login *l)
{
    return l->file;
}

char *etcd_login_token(struct etcd_login *l)
{
    pthread_mutex_lock(&l->lock);
    char *token = l->token == NULL ? NULL : mem_strdup(l->token);
    pthread_mutex_unlock(&l->lock);
    return token;
}

void etcd_login_take(struct etcd_login *l, const char *token)
{
    pthread_mutex_lock(&l->lock);
    wipe(l->token);
    l->token = mem_strdup(token);
    pthread_mutex_unlock(&l->lock);
}
