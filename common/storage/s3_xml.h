/* SPDX-License-Identifier: Apache-2.0 */
/* What an object store answers in XML: texts of elements, each with the path of its names. */
#ifndef GRADUS_STORAGE_S3_XML_H
#define GRADUS_STORAGE_S3_XML_H

#include <stddef.h>

#include "base/err.h"

#define S3_XML_PATH_BYTES 256
#define S3_XML_TEXT_BYTES_MAX 8192

/* @path: "ListBucketResult/Contents/Key", without prefixes of namespaces; @text: what is directly
 * in it, empty when there are other elements in it. Called at the end of each element. */
typedef void s3_xml_found(void *ctx, const char *path, const char *text);

/* Errors: ERR_CORRUPT not XML, nested too deeply, or a text that is too long. */
int s3_xml_parse(const char *data, size_t n, s3_xml_found *found, void *ctx, struct err *err);

#endif
