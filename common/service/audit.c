/* SPDX-License-Identifier: Apache-2.0 */
/* Writes records of the audit log, each with one write(2). */
#include "service/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "os/log_json.h"

#define TEXT_BYTES ((size_t)4 * ERR_MESSAGE_BYTES)
#define FILE_MODE 0600 /* it names people */

struct audit {
    char *path;           /* "": the normal log */
    pthread_mutex_t lock; /* guards what follows */
    int fd;               /* -1: none */
    bool told;            /* the log knows that the file cannot be written */
};

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, FILE_MODE);
}

struct audit *audit_open(const char *path, struct err *err)
{
    int fd = path[0] == '\0' ? -1 : open_file(path);
    if (path[0] != '\0' && fd < 0) {
        (void)err_errno(err, errno, "--audit-log %s", path);
        return NULL;
    }
    struct audit *a = mem_new(1, sizeof *a);
    a->path = mem_strdup(path);
    a->fd = fd;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void audit_free(struct audit *a)
{
    if (a == NULL) {
        return;
    }
    if (a->fd >= 0) {
        (void)close(a->fd);
    }
    pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a);
}

static size_t add(char *out, size_t used, const char *key, const char *value)
{
    char quoted[2 * ERR_MESSAGE_BYTES];
    int n = snprintf(out + used, TEXT_BYTES - used, "%s%s=%s", used > 0 ? " " : "", key,
                     log_quote(value, quoted, sizeof quoted));
    return n < 0 || (size_t)n >= TEXT_BYTES - used ? used : used + (size_t)n;
}

/* Describes a record, without the time, which the log adds itself. */
static size_t describe(const struct audit_record *r, char out[TEXT_BYTES], size_t used)
{
    char roles[AUTH_ROLES_BYTES];
    used = add(out, used, "action", r->action);
    used = add(out, used, "outcome", r->refusal == NULL ? "done" : "refused");
    used = add(out, used, "who", r->who->name);
    used = add(out, used, "role", auth_roles_text(r->who->roles, roles));
    used = add(out, used, "by", auth_proof_name(r->who->proof));
    used = add(out, used, "peer", r->peer);
    if (r->job != NULL && r->job[0] != '\0') {
        used = add(out, used, "job", r->job);
    }
    if (r->refusal != NULL) {
        used = add(out, used, "reason", r->refusal->msg);
    }
    if (r->unwritten > 0) {
        char number[24];
        (void)snprintf(number, sizeof number, "%" PRIu64, r->unwritten);
        used = add(out, used, "unwritten", number);
    }
    return used;
}

/* Locked. Makes the file anew if its path leads to another file now. */
static void follow_path(struct audit *a)
{
    struct stat ours;
    struct stat there;
    if (a->fd >= 0 && fstat(a->fd, &ours) == 0 && stat(a->path, &there) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
        return;
    }
    if (a->fd >= 0) {
        (void)close(a->fd);
    }
    a->fd = open_file(a->path);
}

static bool write_file(struct audit *a, const char *line, size_t n)
{
    pthread_mutex_lock(&a->lock);
    follow_path(a);
    bool written = a->fd >= 0 && write(a->fd, line, n) == (ssize_t)n;
    int error = errno;
    bool tell = !written && !a->told;
    a->told = !written;
    pthread_mutex_unlock(&a->lock);
    if (tell) {
        char quoted[1024];
        log_error("audit_not_written", "path=%s error=\"%s\"",
                  log_quote(a->path, quoted, sizeof quoted), strerror(error));
    }
    return written;
}

void audit_write(struct audit *a, const struct audit_record *r)
{
    char text[TEXT_BYTES];
    char json[2 * TEXT_BYTES];
    char now[32];
    if (a->path[0] != '\0') {
        size_t used = add(text, 0, "time", chrono_format(chrono_wall_ms(), now, sizeof now));
        used = describe(r, text, used);
        size_t n = log_json(text, used, json, sizeof json - 1);
        json[n++] = '\n';
        if (write_file(a, json, n)) {
            return;
        }
    }
    size_t used = describe(r, text, 0);
    log_write(r->refusal == NULL ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "audit", "%.*s", (int)used,
              text);
}
