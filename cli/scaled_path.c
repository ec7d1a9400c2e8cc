/* FILE[:SCALE] of --lora and --merge-lora.
 * SPDX-License-Identifier: MIT */
#include "scaled_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

char *scaled_path(const char *text, float *scale)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    size_t len = strlen(text);
    *scale = 1;
    if (colon && colon - text > 1 && colon[1]) {
        const double value = strtod(colon + 1, &end);
        if (!*end && isfinite(value)) {
            *scale = (float)value;
            len = (size_t)(colon - text);
        }
    }
    char *path = malloc(len + 1);
    if (!path) return NULL;
    memcpy(path, text, len);
    path[len] = 0;
    return path;
}
