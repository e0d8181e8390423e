/* SPDX-License-Identifier: Apache-2.0 */
/* One call of common/storage, for tests in Python: prints "ok ..." or "error CODE MESSAGE".
 *
 *   storage_tool check|look|list|read|remove|remove-tree|make-dir LOCATION
 *   storage_tool write|claim LOCATION TEXT
 *   storage_tool upload|abort LOCATION BYTES       byte i is i * 2654435761 / 65536 modulo 251
 *   storage_tool download LOCATION BYTES STEP      in pieces; compares
 *   storage_tool stream LOCATION BYTES STEP [AT]   from the beginning, to byte AT; compares
 *   storage_tool find DIRECTORY PATTERN
 *   storage_tool stamp LOCATION
 *   storage_tool hold LOCATION                     opens, waits for a line, reads the last byte */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/storage.h"
#include "storage/storage_stream.h"

#define PIECE 1000003 /* nothing that a part is a multiple of */

static unsigned char pattern(uint64_t i)
{
    return (unsigned char)((i * UINT64_C(2654435761) >> 16) % 251);
}

static int look(const char *location, struct err *err)
{
    static const char *const names[] = {"nothing", "file", "directory", "other"};
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(location, &thing, err);
    (void)(rc == 0 && printf("ok %s\n", names[thing]));
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* @pattern: find, and do not list. */
static int list(const char *location, const char *pattern, struct err *err)
{
    struct storage_names names = {0};
    int rc = pattern == NULL ? storage_list(location, &names, err)
                             : storage_find(location, pattern, &names, err);
    if (rc == 0) {
        if (names.count > 0) {
            qsort(names.items, names.count, sizeof *names.items, compare_names);
        }
        (void)printf("ok");
        for (size_t i = 0; i < names.count; i++) {
            (void)printf(" %s", names.items[i]);
        }
        (void)printf("\n");
    }
    storage_names_release(&names);
    return rc;
}

static int stamp(const char *location, struct err *err)
{
    struct buf text = {0};
    int rc = storage_stamp(location, &text, err);
    (void)(rc == 0 && printf("ok %s\n", buf_str(&text)));
    buf_release(&text);
    return rc;
}

static int read_text(const char *location, struct err *err)
{
    struct buf text = {0};
    int rc = storage_read(location, 1 << 20, &text, err);
    (void)(rc == 0 && printf("ok %s\n", buf_str(&text)));
    buf_release(&text);
    return rc;
}

static int upload(const char *location, uint64_t bytes, bool commit, struct err *err)
{
    struct storage_writer w;
    unsigned char *piece = mem_new(PIECE, 1);
    int rc = storage_create(&w, location, err);
    for (uint64_t at = 0; rc == 0 && at < bytes;) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        for (size_t i = 0; i < n; i++) {
            piece[i] = pattern(at + i);
        }
        rc = storage_add(&w, piece, n, err);
        if (rc != 0) {
            storage_abort(&w);
        }
        at += n;
    }
    if (rc == 0 && commit) {
        rc = storage_commit(&w, err);
    } else if (rc == 0) {
        storage_abort(&w);
    }
    free(piece);
    return rc;
}

static int download(const char *location, uint64_t bytes, size_t step, struct err *err)
{
    struct storage_reader r;
    unsigned char *piece = mem_new(step, 1);
    int rc = storage_open(&r, location, err);
    if (rc == 0 && r.bytes != bytes) {
        rc = err_set(err, ERR_CORRUPT, "%" PRIu64 " bytes", r.bytes);
        storage_close(&r);
    }
    for (uint64_t at = 0; rc == 0 && at < bytes; at += step) {
        size_t n = bytes - at < step ? (size_t)(bytes - at) : step;
        rc = storage_read_at(&r, at, piece, n, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            if (piece[i] != pattern(at + i)) {
                rc = err_set(err, ERR_CORRUPT, "byte %" PRIu64 " differs", at + i);
            }
        }
    }
    storage_close(&r);
    free(piece);
    return rc;
}

static int stream(const char *location, uint64_t bytes, size_t step, uint64_t end, struct err *err)
{
    struct storage_stream *s = NULL;
    unsigned char *piece = mem_new(step, 1);
    size_t got = 1;
    uint64_t at = 0;
    int rc = storage_stream_open(location, &s, err);
    if (rc == 0 && storage_stream_bytes(s) != bytes) {
        rc = err_set(err, ERR_CORRUPT, "%" PRIu64 " bytes", storage_stream_bytes(s));
    }
    while (rc == 0 && got > 0 && at < end) {
        rc = storage_stream_read(s, piece, step, &got, err);
        for (size_t i = 0; rc == 0 && i < got; i++) {
            if (piece[i] != pattern(at + i)) {
                rc = err_set(err, ERR_CORRUPT, "byte %" PRIu64 " differs", at + i);
            }
        }
        at += rc == 0 ? got : 0;
    }
    if (rc == 0 && end == UINT64_MAX && at != bytes) {
        rc = err_set(err, ERR_CORRUPT, "it ends at %" PRIu64, at);
    }
    storage_stream_close(s);
    free(piece);
    return rc;
}

static int hold(const char *location, struct err *err)
{
    struct storage_reader r;
    char line[8], byte;
    int rc = storage_open(&r, location, err);
    if (rc == 0) {
        (void)printf("open\n");
        (void)fflush(stdout);
        (void)!fgets(line, sizeof line, stdin);
        rc = storage_read_at(&r, r.bytes - 1, &byte, 1, err);
        storage_close(&r);
    }
    return rc;
}

static int carry_out(const char *what, const char *location, char **more, struct err *err)
{
    const char *text = more[0] == NULL ? "" : more[0];
    uint64_t bytes = strtoull(text, NULL, 10);
    if (strcmp(what, "check") == 0) {
        return storage_check(location, err);
    } else if (strcmp(what, "write") == 0) {
        return storage_write(location, text, strlen(text), err);
    } else if (strcmp(what, "claim") == 0) {
        return storage_claim(location, text, strlen(text), err);
    } else if (strcmp(what, "remove") == 0) {
        return storage_remove(location, err);
    } else if (strcmp(what, "remove-tree") == 0) {
        return storage_remove_tree(location, err);
    } else if (strcmp(what, "make-dir") == 0) {
        return storage_make_dir(location, err);
    } else if (strcmp(what, "upload") == 0 || strcmp(what, "abort") == 0) {
        return upload(location, bytes, what[0] == 'u', err);
    } else if (strcmp(what, "download") == 0 && more[0] != NULL && more[1] != NULL) {
        return download(location, bytes, (size_t)strtoull(more[1], NULL, 10), err);
    } else if (strcmp(what, "stream") == 0 && more[0] != NULL && more[1] != NULL) {
        uint64_t end = more[2] == NULL ? UINT64_MAX : strtoull(more[2], NULL, 10);
        return stream(location, bytes, (size_t)strtoull(more[1], NULL, 10), end, err);
    } else if (strcmp(what, "hold") == 0) {
        return hold(location, err);
    }
    return err_set(err, ERR_INVALID, "what is %s?", what);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    int rc = ERR_INVALID;
    if (argc < 3) {
        return 2;
    } else if (strcmp(argv[1], "look") == 0) {
        rc = look(argv[2], &err);
    } else if (strcmp(argv[1], "list") == 0) {
        rc = list(argv[2], NULL, &err);
    } else if (strcmp(argv[1], "find") == 0 && argc > 3) {
        rc = list(argv[2], argv[3], &err);
    } else if (strcmp(argv[1], "stamp") == 0) {
        rc = stamp(argv[2], &err);
    } else if (strcmp(argv[1], "read") == 0) {
        rc = read_text(argv[2], &err);
    } else {
        rc = carry_out(argv[1], argv[2], argv + 3, &err);
        (void)(rc == 0 && printf("ok\n"));
    }
    if (rc == 0 && err.code != 0) {
        (void)printf("an error is left behind: %s\n", err.msg);
    } else if (rc != 0) {
        (void)printf("error %s %s\n", err_code_name(rc), err.msg);
    }
    return rc == 0 ? 0 : 1;
}
