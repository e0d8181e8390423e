/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a test's own: below $TMPDIR, or /tmp without it, and removed with all that is in
 * it. Sockets in it need a short path: $TMPDIR should have no more than some 60 bytes. */
#ifndef GRADUS_TESTS_SUPPORT_TMP_DIR_H
#define GRADUS_TESTS_SUPPORT_TMP_DIR_H

#include <stdlib.h>

#include "base/mem.h"
#include "os/file.h"
#include "support/test.h"

/* @what: of what test, for somebody who looks into $TMPDIR. Returns owned, by tmp_dir_remove(). */
static inline char *tmp_dir_make(const char *what)
{
    const char *top = getenv("TMPDIR");
    char *dir =
        mem_printf("%s/gradus-test-%s-XXXXXX", top == NULL || *top == 0 ? "/tmp" : top, what);
    assert_non_null(mkdtemp(dir));
    return dir;
}

/* @dir may be NULL. */
static inline void tmp_dir_remove(char *dir)
{
    struct err err;
    if (dir != NULL && file_remove_tree(dir, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    free(dir);
}

#endif
