/* C library functions that the bundled decompressors link to but never call here: their memory is
 * passed in, and nothing is printed.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#undef stderr
FILE *const stderr = NULL;
int   fprintf(FILE *restrict f, const char *restrict fmt, ...) { (void)f; (void)fmt; return 0; }
int   fflush(FILE *f) { (void)f; return 0; }
void *malloc(size_t size) { (void)size; return NULL; }
void *calloc(size_t n, size_t size) { (void)n; (void)size; return NULL; }
void  free(void *p) { (void)p; }
