/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets are wiped before their memory is given back. */
#include <stdlib.h>
#include <string.h>

#include "storage/s3_credentials.h"

void s3_secret_wipe(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

void s3_credentials_release(struct s3_credentials *c)
{
    s3_secret_wipe(c->key);
    s3_secret_wipe(c->secret);
    s3_secret_wipe(c->token);
    *c = (struct s3_credentials){0};
}
