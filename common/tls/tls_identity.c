/* SPDX-License-Identifier: Apache-2.0 */
/* Writes certificates and keys, each file complete or not there. */
#include "tls/tls_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"

void tls_identity_release(struct tls_identity *i)
{
    EVP_PKEY_free(i->key);
    X509_free(i->certificate);
    *i = (struct tls_identity){0};
}

/* ---- files ---- */

/* Writes the whole content to another file before it takes the name, so nobody reads half of it. */
static int put(const char *path, const char *data, size_t n, mode_t mode, bool replace,
               struct err *err)
{
    char *tmp = mem_printf("%s.tmp.%ld", path, (long)getpid());
    (void)unlink(tmp);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int rc = fd < 0 ? err_errno(err, errno, "make %s", tmp) : 0;
    if (rc == 0 && (fchmod(fd, mode) != 0 || write(fd, data, n) != (ssize_t)n || fsync(fd) != 0)) {
        rc = err_errno(err, errno, "write %s", tmp);
    }
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "close %s", tmp);
    }
    if (rc == 0 && (replace ? rename(tmp, path) : link(tmp, path)) != 0) {
        rc = err_errno(err, errno, "make %s", path);
    }
    if (fd >= 0) {
        (void)unlink(tmp);
    }
    free(tmp);
    return rc == 0 ? file_sync_parent(path, err) : rc;
}

static int put_pem(const char *path, BIO *pem, mode_t mode, bool replace, struct err *err)
{
    char *data = NULL;
    long n = BIO_get_mem_data(pem, &data);
    return n > 0 ? put(path, data, (size_t)n, mode, replace, err)
                 : tls_error(err, ERR_INTERNAL, "write %s", path);
}

int tls_identity_put(const char *dir, const char *name, const struct tls_identity *i, bool replace,
                     struct err *err)
{
    char *key_path = mem_printf("%s/%s.key", dir, name);
    char *path = mem_printf("%s/%s.crt", dir, name);
    BIO *key = BIO_new(BIO_s_secmem());
    BIO *pem = BIO_new(BIO_s_mem());
    int rc = 0;
    if (key == NULL || pem == NULL ||
        PEM_write_bio_PKCS8PrivateKey(key, i->key, NULL, NULL, 0, NULL, NULL) != 1 ||
        PEM_write_bio_X509(pem, i->certificate) != 1) {
        rc = tls_error(err, ERR_INTERNAL, "write %s", path);
    }
    rc = rc != 0 ? rc : put_pem(key_path, key, 0600, replace, err);
    rc = rc != 0 ? rc : put_pem(path, pem, 0644, replace, err);
    BIO_free(key);
    BIO_free(pem);
    free(key_path);
    free(path);
    return rc;
}
