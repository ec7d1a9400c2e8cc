/* How often Ctrl-C was pressed.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdatomic.h>

/* A signal handler counts, and threads that download look. */
static atomic_int interrupt_count;

int  interrupt_add(void) { return atomic_fetch_add(&interrupt_count, 1) + 1; }
bool interrupted(void) { return atomic_load(&interrupt_count) > 0; }
void interrupt_clear(void) { atomic_store(&interrupt_count, 0); }
