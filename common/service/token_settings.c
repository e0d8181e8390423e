/* SPDX-License-Identifier: Apache-2.0 */
/* From the settings of tokens to what checks them. */
#include "service/token_settings.h"

/* True if some tokens are taken. */
static bool token_settings_given(const struct token_settings *s)
{
    return s->tokens[0] != '\0' || s->jwt_keys[0] != '\0';
}

int token_settings_check(const struct token_settings *s, bool tls, bool other_hosts,
                         struct err *err)
{
    struct bearer *bearer = NULL;
    if (s->jwt_keys[0] == '\0' && (s->jwt_issuer[0] != '\0' || s->jwt_audience[0] != '\0')) {
        return err_set(err, ERR_INVALID,
                       "--jwt-issuer and --jwt-audience are given without --jwt-keys");
    }
    if (token_settings_given(s) && !tls && other_hosts) {
        return err_set(
            err, ERR_INVALID,
            "--tokens and --jwt-keys take --tls-cert, --tls-key and --tls-ca where other "
            "hosts can connect: whoever listens on the way could take the tokens");
    }
    int rc = token_settings_open(s, &bearer, err);
    bearer_free(bearer);
    return rc;
}

int token_settings_open(const struct token_settings *s, struct bearer **out, struct err *err)
{
    *out = NULL;
    if (!token_settings_given(s)) {
        return 0;
    }
    struct err why = {0};
    const struct bearer_options options = {.tokens = s->tokens,
                                           .jwt_keys = s->jwt_keys,
                                           .jwt_issuer = s->jwt_issuer,
                                           .jwt_audience = s->jwt_audience,
                                           .jwt_role_claim = s->jwt_role_claim};
    *out = bearer_new(&options, &why);
    return *out != NULL ? 0 : err_set(err, why.code, "%s", why.msg);
}
