/* How often Ctrl-C was pressed.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <signal.h>

static volatile sig_atomic_t interrupt_count;

int  interrupt_add(void) { return (int)++interrupt_count; }
bool interrupted(void) { return interrupt_count > 0; }
void interrupt_clear(void) { interrupt_count = 0; }
