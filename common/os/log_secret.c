/* SPDX-License-Identifier: Apache-2.0 */
#include "os/log_secret.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* With so many characters behind it: less is a number, or a word of a sentence. */
struct mark {
    const char *begin;
    size_t least;
    bool exact; /* upper and lower case differ */
};
static const struct mark marks[] = {
    {"gradus_", 32, true}, /* a token of ours */
    {"eyJ", 16, true},     /* a JSON web token */
    {"AKIA", 16, true},    {"ASIA", 16, true},
    {"bearer ", 8, false}, {"private key-----", 0, false},
};
static const char *const words[] = {"password", "passwd",     "passphrase", "secret", "token",
                                    "api_key",  "access_key", "secret_key", "apikey"};
#define VALUE_LEAST 8
#define FIRST "ABEGPSTabegpst" /* letters that one of them begins with */

static size_t run_of(const char *s)
{
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || (s[n] != '\0' && strchr("_-+/.~", s[n]) != NULL)) {
        n++;
    }
    return n;
}

/* What stands behind a word is its value: = or :, with quotes and blanks around. */
static bool has_value(const char *s)
{
    s += *s == '"' || *s == '\'';
    while (*s == ' ') {
        s++;
    }
    if (*s != '=' && *s != ':') {
        return false;
    }
    s++;
    while (*s != '\0' && strchr(" \"'\\=", *s) != NULL) {
        s++;
    }
    return run_of(s) >= VALUE_LEAST;
}

static bool is_mark(const char *s)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t n = strlen(marks[i].begin);
        const bool same = marks[i].exact ? strncmp(s, marks[i].begin, n) == 0
                                         : strncasecmp(s, marks[i].begin, n) == 0;
        if (same && run_of(s + n) >= marks[i].least) {
            return true;
        }
    }
    return false;
}

bool log_has_secret(const char *text)
{
    for (const char *s = text + strcspn(text, FIRST); *s != '\0'; s += 1 + strcspn(s + 1, FIRST)) {
        if (is_mark(s)) {
            return true;
        }
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const size_t n = strlen(words[i]);
            if (strncasecmp(s, words[i], n) == 0 && has_value(s + n)) {
                return true;
            }
        }
    }
    return false;
}
