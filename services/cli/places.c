/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the places where commands look for a job: those that the user names, or else the master of
 * this host and the directories of earlier runs. `gradus run` adds its own to a file of these; old
 * ones drop out. */
#include "cli/places.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "master/store/store.h"
#include "os/file.h"
#include "service/address.h"
#include "service/service.h"

#define CONNECT_MS 1000
#define ADDRESS_BYTES_MAX 1024
#define RUNS_BYTES_MAX (1U << 20)
#define RUNS_BYTES_KEPT (1U << 15) /* a longer list of runs is cut to the newest ones */

/* True if a process listens at "host:port". */
static bool places_answers(const char *address)
{
    struct address a;
    struct err err = {0};
    if (strncmp(address, "unix:", 5) == 0) {
        return file_exists(address + 5);
    }
    if (address_parse(address, &a, &err) != 0) {
        return false;
    }
    int fd = address_connect(&a, CONNECT_MS, &err);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

/* The address that the master of @state_dir wrote there, if the master answers; else NULL. Returns
 * owned. */
static char *address_in(const char *state_dir)
{
    struct buf text = {0};
    struct err err = {0};
    char *path = file_join(state_dir, "master.address"), *address = NULL;
    if (file_read(path, ADDRESS_BYTES_MAX, &text, &err) == 0) {
        address = mem_printf("%.*s", (int)strcspn(buf_str(&text), "\n"), buf_str(&text));
    }
    if (address != NULL && !places_answers(address)) { /* its master was killed */
        free(address);
        address = NULL;
    }
    buf_release(&text);
    free(path);
    return address;
}

/* Links may lead to it. */
static bool is_same_dir(const char *a, const char *b)
{
    struct stat first, second;
    return strcmp(a, b) == 0 || (stat(a, &first) == 0 && stat(b, &second) == 0 &&
                                 first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

static void add_dir(struct places *p, const char *state_dir)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->items[i].state_dir != NULL && is_same_dir(p->items[i].state_dir, state_dir)) {
            return;
        }
    }
    p->items[p->count++] =
        (struct place){.address = address_in(state_dir), .state_dir = mem_strdup(state_dir)};
}

static bool has_jobs(const char *state_dir)
{
    char *path = file_join(state_dir, "master.db");
    bool has = file_exists(path);
    free(path);
    return has;
}

static char *runs_path(void)
{
    char *dir = cli_state_dir(NULL), *path = file_join(dir, "runs");
    free(dir);
    return path;
}

/* The directories of runs, the newest first. */
static void add_runs(struct places *p)
{
    struct buf text = {0};
    struct err err = {0};
    char *path = runs_path();
    if (file_read(path, RUNS_BYTES_MAX, &text, &err) == 0) {
        size_t end = text.len;
        while (end > 0 && p->count < PLACES_MAX) {
            text.data[--end] = '\0'; /* the newline of the last line that is left */
            while (end > 0 && text.data[end - 1] != '\n') {
                end--;
            }
            if (text.data[end] == '/' && has_jobs(text.data + end)) {
                add_dir(p, text.data + end);
            }
        }
    }
    buf_release(&text);
    free(path);
}

void places_find(const struct cli_common *common, struct places *p)
{
    *p = (struct places){.given = common->master[0] != '\0' || common->state_dir[0] != '\0'};
    if (common->master[0] != '\0') {
        p->items[p->count++].address = mem_strdup(common->master);
    } else if (p->given) {
        add_dir(p, common->state_dir);
    } else {
        if (places_answers(SERVICE_MASTER_ADDRESS)) {
            p->items[p->count++].address = mem_strdup(SERVICE_MASTER_ADDRESS);
        }
        add_runs(p);
        char *own = cli_state_dir(NULL);
        if (has_jobs(own)) {
            add_dir(p, own);
        }
        free(own);
    }
    for (size_t i = 0; i < p->count; i++) {
        bool of_run = !p->given && p->items[i].state_dir != NULL;
        p->items[i].tls = of_run ? NULL : &common->tls;
    }
}

void places_release(struct places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].address);
        free(p->items[i].state_dir);
    }
    *p = (struct places){0};
}

/* The end of a list that has become long, from the beginning of a line. */
static void shorten(const char *path)
{
    struct buf text = {0};
    struct err err = {0};
    if (file_read(path, RUNS_BYTES_MAX, &text, &err) == 0 && text.len > RUNS_BYTES_KEPT) {
        const char *rest = strchr(text.data + text.len - RUNS_BYTES_KEPT / 2, '\n');
        if (rest != NULL) {
            (void)file_write_atomic(path, rest + 1, strlen(rest + 1), &err);
        }
    }
    buf_release(&text);
}

void places_remember(const char *state_dir)
{
    struct err err = {0};
    char *dir = cli_state_dir(NULL), *path = runs_path();
    if (strchr(state_dir, '\n') == NULL && file_make_dirs(dir, &err) == 0) {
        char *line = mem_printf("%s\n", state_dir);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        struct stat st = {0};
        if (fd >= 0) {
            /* one write, as several runs may write at once */
            ssize_t n = write(fd, line, strlen(line));
            (void)n;
            (void)fstat(fd, &st);
            (void)close(fd);
        }
        if (st.st_size > (off_t)RUNS_BYTES_KEPT) {
            shorten(path);
        }
        free(line);
    }
    free(dir);
    free(path);
}

/* Where the master of @state_dir has its checkpoints, by its database; NULL where it is usual, or
 * cannot be told. Returns owned. */
static char *unusual_root(const char *state_dir)
{
    struct store *store = NULL;
    struct buf root = {0};
    char *real = realpath(state_dir, NULL);
    char *usual = file_join(real != NULL ? real : state_dir, "checkpoints");
    if (store_sqlite_read(state_dir, &store, NULL) == 0) {
        (void)store->ops->get_text(store, STORE_CHECKPOINT_ROOT, &root, NULL);
        store->ops->close(store);
    }
    if (root.len > 0 && strcmp(buf_str(&root), usual) == 0) {
        buf_reset(&root);
    }
    char *found = root.len > 0 ? mem_strdup(buf_str(&root)) : NULL;
    buf_release(&root);
    free(usual);
    free(real);
    return found;
}

void places_start_hint(const char *state_dir, struct buf *out)
{
    char *root = unusual_root(state_dir);
    buf_add_str(out, "gradus-master --state-dir ");
    cli_add_word(state_dir, out);
    if (root != NULL) {
        buf_add_str(out, " --checkpoint-dir ");
        cli_add_word(root, out);
    }
    if (places_answers(SERVICE_MASTER_ADDRESS)) {
        buf_add_str(out, " --listen 127.0.0.1:0");
    }
    free(root);
}

void places_describe(const struct places *p, struct buf *out)
{
    if (!p->given && (p->count == 0 || p->items[0].state_dir != NULL)) {
        buf_printf(out, "%s (no master answers)", SERVICE_MASTER_ADDRESS);
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct place *place = &p->items[i];
        const char *before = out->len == 0 ? "" : i + 1 == p->count ? " and " : ", ";
        buf_printf(out, "%s%s", before,
                   place->state_dir != NULL ? place->state_dir : place->address);
    }
    if (!p->given && (p->count == 0 || p->items[p->count - 1].state_dir == NULL)) {
        char *own = cli_state_dir(NULL);
        buf_printf(out, " and %s (no jobs there)", own);
        free(own);
    }
}
