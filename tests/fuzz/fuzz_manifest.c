/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's manifest and the files beside it (checkpoint/manifest_read.c, checkpoint.c,
 * claim.c): what is read is written and read again as the same; the checkpoint is opened as whoever
 * restores it does, with a shard's file that may be there.
 *
 * Input: the manifest up to its checksum, which is added; behind a NUL, the owner's file. */
#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "os/file.h"

static char dir[64], rewritten[64];

static void remove_dirs(void)
{
    (void)file_remove_tree(dir, NULL);
    (void)file_remove_tree(rewritten, NULL);
}

/* Directories, in memory where there is such a file system; their files are links to it. */
static void make_dirs(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof dir, "%s/gradus-fuzz-XXXXXX", base);
    (void)snprintf(rewritten, sizeof rewritten, "%s/gradus-fuzz-XXXXXX", base);
    fuzz_require(mkdtemp(dir) != NULL && mkdtemp(rewritten) != NULL, "directories can be made");
    (void)atexit(remove_dirs);
    const char *const names[] = {MANIFEST_NAME, CLAIM_NAME};
    for (size_t i = 0; i < 2; i++) {
        char *path = file_join(dir, names[i]);
        fuzz_require(symlink(fuzz_file((unsigned)i, "", 0), path) == 0, "links can be made");
        free(path);
    }
}

static void write_again(const struct manifest *m)
{
    struct manifest again;
    struct err err = {0};
    int rc = manifest_write(rewritten, m, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(manifest_read(rewritten, &again, &err) == 0,
                     "a manifest that was written is read");
        fuzz_require(strcmp(again.job, m->job) == 0 && again.step == m->step &&
                         again.variable_count == m->variable_count &&
                         again.shard_count == m->shard_count && again.table_count == m->table_count,
                     "a manifest is the same when it is read again");
        manifest_release(&again);
    }
}

static void look_at_gradients(const struct checkpoint *c)
{
    const size_t count = checkpoint_manifest(c)->variable_count;
    struct histogram *all = mem_new(count + 1, sizeof *all);
    struct err err = {0};
    bool found;
    fuzz_require_error(checkpoint_gradients(c, all, &found, &err), &err);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static unsigned turn;
    if (dir[0] == '\0') {
        make_dirs();
    }
    struct fuzz_input in = {data, n};
    char *members = fuzz_text(&in, '\0');
    struct buf text = {0};
    buf_add_str(&text, members);
    buf_printf(&text, "  \"checksum\": \"0x%016" PRIx64 "\"\n}\n",
               checksum_of(members, strlen(members)));
    (void)fuzz_file(0, text.data, text.len);
    (void)fuzz_file(1, in.data, in.n);
    buf_release(&text);
    free(members);
    struct manifest m;
    struct err err = {0};
    int rc = manifest_read(dir, &m, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        if (turn++ % 16 == 0) { /* which takes as long as all the rest */
            write_again(&m);
        }
        manifest_release(&m);
        struct checkpoint *c = NULL;
        rc = checkpoint_open(dir, CHECKPOINT_PIECES, &c, &err);
        fuzz_require_error(rc, &err);
        if (rc == 0) {
            look_at_gradients(c);
        }
        checkpoint_close(c);
    }
    char owner[CLAIM_OWNER_BYTES];
    fuzz_require_error(claim_read(dir, owner, &err), &err);
    return 0;
}
