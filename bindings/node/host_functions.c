/* Windows: finds the functions of Node.js in the program that has loaded the addon.
 * SPDX-License-Identifier: MIT */
#include "node.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

node_host node_host_table;

bool node_host_functions(void)
{
    const HMODULE program = GetModuleHandleW(NULL);
    bool all = true;
    FARPROC found;
#define X(name) \
    found = GetProcAddress(program, "napi_" #name); \
    memcpy(&node_host_table.name, &found, sizeof found); \
    all = all && found;
    NODE_HOST_FUNCTIONS(X)
#undef X
    return all;
}
#else
typedef int node_host_has_all;          /* ISO C wants a declaration */
#endif
