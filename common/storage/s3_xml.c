/* SPDX-License-Identifier: Apache-2.0 */
/* Turns XML into a sequence of paths and texts; the only includer of expat, which checks the syntax
 * and bounds the expansion of entities. */
#include "storage/s3_xml.h"

#include <expat.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"

struct parsing {
    XML_Parser parser;
    char path[S3_XML_PATH_BYTES];
    struct buf text;
    const char *wrong; /* NULL: nothing */
    s3_xml_found *found;
    void *ctx;
};

static void stop(struct parsing *p, const char *why)
{
    p->wrong = why;
    (void)XML_StopParser(p->parser, XML_FALSE);
}

static void XMLCALL on_start(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    (void)attributes;
    struct parsing *p = ctx;
    const char *colon = strrchr(name, ':'), *local = colon == NULL ? name : colon + 1;
    size_t have = strlen(p->path), n = strlen(local);
    buf_reset(&p->text);
    if (have + n + 2 > sizeof p->path) {
        stop(p, "nested too deeply");
        return;
    }
    if (have > 0) {
        p->path[have++] = '/';
    }
    memcpy(p->path + have, local, n + 1);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    (void)name;
    struct parsing *p = ctx;
    p->found(p->ctx, p->path, buf_str(&p->text));
    buf_reset(&p->text);
    char *slash = strrchr(p->path, '/');
    *(slash == NULL ? p->path : slash) = '\0';
}

static void XMLCALL on_text(void *ctx, const XML_Char *text, int n)
{
    struct parsing *p = ctx;
    if (p->text.len + (size_t)n > S3_XML_TEXT_BYTES_MAX) {
        stop(p, "a text is too long");
        return;
    }
    buf_add(&p->text, text, (size_t)n);
}

int s3_xml_parse(const char *data, size_t n, s3_xml_found *found, void *ctx, struct err *err)
{
    struct parsing p = {.parser = XML_ParserCreate(NULL), .found = found, .ctx = ctx};
    if (p.parser == NULL || n > INT_MAX) {
        XML_ParserFree(p.parser);
        return err_set(err, ERR_EXHAUSTED, "no memory to read %zu bytes of XML", n);
    }
    XML_SetUserData(p.parser, &p);
    XML_SetElementHandler(p.parser, on_start, on_end);
    XML_SetCharacterDataHandler(p.parser, on_text);
    int rc = 0;
    if (XML_Parse(p.parser, data, (int)n, 1) != XML_STATUS_OK) {
        const char *why = p.wrong != NULL ? p.wrong : XML_ErrorString(XML_GetErrorCode(p.parser));
        rc = err_set(err, ERR_CORRUPT, "the store's answer is not the XML that is expected: %s",
                     why);
    }
    XML_ParserFree(p.parser);
    buf_release(&p.text);
    return rc;
}
