/* Starting another of our programs in place of this one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_START_H
#define QSF_CLI_START_H

/* Runs the program of this name that lies in self's folder (self: our argv[0]; without a folder, in
 * that of the system's path).  argv[0] is replaced.  Returns its exit code if it cannot replace
 * this process, and -1 if it cannot be started. */
int start_program(const char *self, const char *program, char **argv);

#endif
