/* Models by name, for every program that takes a model: the options, and the download, which a
 * terminal shows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_MODEL_NAMES_H
#define QSF_CLI_MODEL_NAMES_H

#include "arrive.h"
#include "hub.h"
#include "options.h"

typedef struct model_settings {
    option_list names;          /* of -hf */
    const char *hub;            /* NULL: QSF_HUB, HF_ENDPOINT, Hugging Face's */
    bool        offline;
} model_settings;

/* Their rows, for a program's table.  base: the offset of its model_settings. */
option_part model_names_options(size_t base);
/* Adds the names of -hf after a program's other models.  An exit code; errors are reported. */
int model_names_add(const model_settings *m, option_list *to);
/* The path of a model in place of its name, also after "NAME="; what is a path stays. budget:
 * bytes of --ram-budget, or 0.  The text belongs to the program until it ends.  An exit code;
 * errors are reported. */
int model_names_find(const model_settings *m, const char **model, uint64_t budget);
int model_names_find_all(const model_settings *m, option_list *models, uint64_t budget);
/* Whether the terminal shows nothing of a download and Ctrl-C does not stop it: an answer is shown,
 * or a line is typed. */
void model_names_quiet(bool quiet);
/* Whether the text is OWNER/REPO..., with or without "hf:"; not a URL. */
bool model_names_valid(const char *text);
/* The memory that a model needs with a context of the usual size; 0: its description cannot be
 * read. */
uint64_t model_names_memory(hub_head *h);
/* What finding and downloading take from the options and tell the terminal. */
hub_options model_names_hub(const model_settings *m, uint64_t budget);

#endif
