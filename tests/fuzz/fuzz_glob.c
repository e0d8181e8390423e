/* SPDX-License-Identifier: Apache-2.0 */
/* Names of data files (data/file_list.c, data/file_glob.c, data/data_roots.c): lists, patterns, and
 * roots that nothing may lead out of. There is a small tree of directories and links to look into.
 *
 * Input: a byte of flags; the roots, a line; the names. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/file_list.h"
#include "os/file.h"

#define DEPTH_MAX 6 /* of a pattern: each star looks into all directories at its place */

static char dir[64];

static void remove_dir(void)
{
    (void)file_remove_tree(dir, NULL);
}

static void make_tree(void)
{
    static const char *const files[] = {"a.csv", "part-1.csv", "part-2.csv", "in/a.csv", "in/[x]"};
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof dir, "%s/gradus-fuzz-XXXXXX", base);
    fuzz_require(mkdtemp(dir) != NULL && chdir(dir) == 0, "a directory can be made");
    (void)atexit(remove_dir);
    fuzz_require(file_make_dirs("in", NULL) == 0, "a directory can be made");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        fuzz_require(file_write_atomic(files[i], "1,2\n", 4, NULL) == 0, "a file can be made");
    }
    fuzz_require(symlink("/etc", "in/out") == 0 && symlink("..", "in/up") == 0,
                 "links can be made");
}

/* Patterns walk trees, and the one of the whole machine takes long. */
static bool is_small(const char *names)
{
    size_t slashes = 0;
    for (const char *p = names; *p != '\0'; p++) {
        slashes += *p == '/';
    }
    return slashes <= DEPTH_MAX && strstr(names, "proc") == NULL && names[0] != '/' &&
           strstr(names, "/*/") == NULL && strstr(names, "://") == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (dir[0] == '\0') {
        make_tree();
    }
    struct fuzz_input in = {data, n};
    uint8_t flags = fuzz_byte(&in);
    char *text = fuzz_text(&in, '\n');
    char *names = fuzz_rest(&in);
    struct data_roots roots = {0}, own = {.items = (char *[]){dir}, .count = 1};
    struct err err = {0};
    fuzz_require_error(data_roots_read(text, &roots, &err), &err);
    data_roots_release(&roots);
    struct file_list list = {0};
    bool bound = (flags & 1) != 0;
    if (is_small(names)) {
        int rc = file_list_make(bound ? &own : NULL, bound ? dir : "", names, "data.train.file",
                                &list, &err);
        fuzz_require_error(rc, &err);
        for (size_t i = 0; rc == 0 && bound && i < list.count; i++) {
            int allowed = data_roots_check(&own, list.paths[i], &err);
            fuzz_require_error(allowed, &err);
        }
        if (rc == 0) {
            file_list_release(&list);
        }
    }
    free(names);
    free(text);
    return 0;
}
