/* qsf-run: a prompt in, text out.  This file is the option table and the choice of what to do.
 * SPDX-License-Identifier: MIT */
#include "devices.h"
#include "mpi_start.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(run_settings, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(common.context), NULL)
#define TURN(names, more) OPTION_OF(TURN, names, AT(turn), more)

static const option run_prompt_rows[] = {
    OPTION_HEADING("model", "Model and prompt"),
    { OPTION_TEXT, "-m --model", "FILE", AT(model), 0, 0, NULL,
      "QSF or GGUF file, or a name or URL: hf:OWNER/REPO:Q4_K_M; may also be given without -m", NULL },
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL,
      "under mpirun: run layers on its ranks; see qsf-run --mpi --help", NULL },
    { OPTION_TEXT, "-p --prompt", "TEXT", AT(prompt), 0, 0, NULL,
      "the prompt; may also follow MODEL without -p", NULL },
    { OPTION_TEXT, "-f --file", "FILE", AT(file), 0, 0, NULL,
      "read the prompt from a file (- for standard input)", NULL },
    { OPTION_TEXT, "--ids", "N,N,...", AT(ids), 0, 0, NULL, "the prompt as token ids", NULL },
    { OPTION_TEXT, "-sys --system", "TEXT", AT(system), 0, 0, NULL, "system message of the conversation",
      NULL },
    { OPTION_FLAG, "-i -cnv --interactive", NULL, AT(interactive), 0, 0, NULL,
      "chat; the default on a terminal without a prompt", NULL },
    { OPTION_TEXT, "--session", "FILE", AT(session), 0, 0, NULL,
      "resume from the file if the prompt starts the same way; save this run to it", NULL },
    { OPTION_TEXT, "--prompt-cache", "FILE", AT(prompt_cache), 0, 0, NULL,
      "file that keeps a computed prompt, for prompts that start the same way: one system message, many "
      "questions", NULL },
    { OPTION_FLAG, "--raw", NULL, AT(raw), 0, 0, NULL,
      "complete the text, without a chat template", NULL },
};
static const option run_chat_rows[] = {
    { OPTION_TEXT, "--tools", "FILE", AT(tools), 0, 0, NULL,
      "tools that the model may call, a JSON list; calls are printed to a pipe as lines of JSON, and a chat "
      "asks for their results", NULL },
    { OPTION_TEXT, "--tool-choice", "WHICH", AT(tool_choice), 0, 0, NULL,
      "auto, none, required, or the name of the tool to call", NULL },
    { OPTION_TEXT, "--documents", "FILE", AT(documents), 0, 0, NULL,
      "documents for the template, a JSON list", NULL },
    { OPTION_CHOICE, "--reasoning", NULL, AT(reasoning), 0, 0, "show|hide",
      "show what the model thinks before it answers (dim on a terminal), or one line instead", "show" },
    { OPTION_TEXT, "--history", "FILE|off", AT(history), 0, 0, NULL,
      "file that stores the lines typed in a chat", "in the user's state folder" },
};
static const option run_answer_rows[] = {
    { OPTION_LIST, "-r --reverse-prompt --stop", "TEXT", AT(stop), 0, 0, NULL,
      "end the answer before this string; may be repeated", NULL },
    { OPTION_FLAG, "--ignore-eos", NULL, AT(ignore_eos), 0, 0, NULL,
      "continue past end-of-text tokens", NULL },
    TURN("--min-tokens", NULL),
    TURN("--logprobs", "printed to standard error, one line of JSON per token"),
};
static const option run_speed_rows[] = {
    { OPTION_TEXT, "--draft-model", "FILE", AT(draft_model), 0, 0, NULL,
      "small model with the same vocabulary, or EAGLE 3 head, that drafts tokens; it stays in memory, within "
      "the budget",
      NULL },
    CONTEXT("--first-stage"),
};
static const option run_rest_rows[] = {
    OPTION_HEADING("grammar", "Constrained answers (docs/grammars.md)"),
    { OPTION_TEXT, "--grammar", "GBNF", AT(grammar), 0, 0, NULL,
      "grammar of the answer: GBNF with a rule \"root\", or a file of it", NULL },
    { OPTION_TEXT, "--regex", "REGEX", AT(regex), 0, 0, NULL,
      "regular expression that the whole answer matches", NULL },
    { OPTION_TEXT, "--json-schema", "SCHEMA", AT(json_schema), 0, 0, NULL,
      "answer with JSON that fits this schema; SCHEMA is JSON, or a file of it", NULL },
    { OPTION_FLAG, "--json-object", NULL, AT(json_object), 0, 0, NULL, "answer with JSON", NULL },
    { OPTION_TEXT, "--choices", "LIST", AT(choices), 0, 0, NULL,
      "answer with one of these strings: yes,no or a JSON list or one per line", NULL },
    { OPTION_INT, "--json-blanks", "N", AT(json_blanks), -1, 1000, NULL,
      "maximum blanks wherever JSON allows them; 0 for compact JSON, -1 for no limit", "32" },
    { OPTION_TEXT, "--accept", "FILE", AT(accept), 0, 0, NULL,
      "instead of answering, check whether the file (- for standard input) fits the grammar: prints "
      "\"accepted\", or the byte offset at which it is refused or unfinished (exit code 1); a final line "
      "feed is ignored if the grammar does not allow it", NULL },

    OPTION_HEADING("embedding", "Embeddings and reranking"),
    { OPTION_FLAG, "--embedding --embeddings", NULL, AT(embedding), 0, 0, NULL,
      "embed each line of the prompt; prints a row of numbers per line", NULL },
    { OPTION_CHOICE, "--pooling", NULL, AT(pooling), 0, 0, "mean|cls|last|rank|none",
      "with --embedding: how token vectors are combined; rank prints the classifier's scores, none a row "
      "per token", "the model's own, else mean" },
    { OPTION_FLAG, "--embedding-plain", NULL, AT(embed_plain), 0, 0, NULL,
      "with --embedding: do not normalise vectors to length 1", NULL },
    { OPTION_TEXT, "--rerank", "FILE", AT(rerank), 0, 0, NULL,
      "rank the file's lines, one document each, by how well they answer the prompt; prints score, number "
      "and line, best first", NULL },

    OPTION_HEADING("measure", "Measuring"),
    { OPTION_FLAG, "--bench", NULL, AT(bench), 0, 0, NULL, "measure the speed of prefill and decode", NULL },
    { OPTION_TEXT, "--perplexity", "FILE", AT(perplexity), 0, 0, NULL,
      "perplexity of a text file, in windows of the context length", NULL },
    { OPTION_INT, "--chunks", "N", AT(chunks), 0, 1e9, NULL, "use only the first N windows", "all" },
    { OPTION_TEXT, "--kl-base", "FILE", AT(kl_base), 0, 0, NULL,
      "with --perplexity: write the logits for --kl", NULL },
    { OPTION_TEXT, "--kl", "FILE", AT(kl), 0, 0, NULL,
      "with --perplexity: compare with the logits of another model", NULL },
    { OPTION_FLAG, "--logits", NULL, AT(logits), 0, 0, NULL,
      "print the logits after the prompt as JSON", NULL },
    { OPTION_FLAG, "--json", NULL, AT(json), 0, 0, NULL,
      "print results as JSON: the answer's token ids, the figures of --bench", NULL },

    OPTION_HEADING("tokens", "Tokens and rendered templates"),
    { OPTION_FLAG, "--tokenize", NULL, AT(tokenize), 0, 0, NULL,
      "read text from standard input, print its token ids as JSON", NULL },
    { OPTION_FLAG, "--add-special", NULL, AT(add_special), 0, 0, NULL,
      "with --tokenize: add the tokens that begin and end texts", NULL },
    { OPTION_FLAG, "--parse-special", NULL, AT(parse_special), 0, 0, NULL,
      "with --tokenize: recognise control tokens written in the text", NULL },
    { OPTION_FLAG, "--detokenize", NULL, AT(detokenize), 0, 0, NULL,
      "read token ids from standard input, print their text", NULL },
    { OPTION_TEXT, "--render", "FILE", AT(render), 0, 0, NULL,
      "print these messages (JSON) rendered by the chat template, as transformers does; needs no model if "
      "--chat-template is given", NULL },
    { OPTION_FLAG, "--no-generation-prompt", NULL, AT(no_generation), 0, 0, NULL,
      "with --render: without the start of an answer", NULL },
    { OPTION_FLAG, "--continue-final-message", NULL, AT(continue_final), 0, 0, NULL,
      "with --render: stop at the end of the last message's text, to continue it", NULL },
    { OPTION_FLAG, "--adapted", NULL, AT(adapted), 0, 0, NULL,
      "with --render: adapt messages to what the template accepts, as a chat does", NULL },
    { OPTION_TEXT, "--bos", "TEXT", AT(bos), 0, 0, NULL,
      "begin-of-text token for the template", "the model's" },
    { OPTION_TEXT, "--eos", "TEXT", AT(eos), 0, 0, NULL, "end-of-text token for the template",
      "the model's" },

    OPTION_HEADING("about", "Diagnostics and help"),
    { OPTION_FLAG, "-v --verbose", NULL, AT(verbose), 0, 0, NULL,
      "print memory use, kernels and times by part", NULL },
    { OPTION_FLAG, "--list-devices", NULL, AT(list_devices), 0, 0, NULL,
      "list the GPUs (docs/webgpu.md)", NULL },
};
#undef AT
#undef CONTEXT
#undef TURN

static const option_default run_defaults[] = {
    { "--max-tokens", "256", NULL }, { "--draft", "-1", "7 if layers stream, else 0" },
};
static const option_page run_page = {
    .about = "Runs a language model from a QSF or GGUF file.",
    .usage = "qsf-run [options] MODEL [PROMPT]",
    .examples = "  qsf-run model.gguf                             chat\n"
                "  qsf-run model.qsf \"Why is the sky blue?\"       one answer\n"
                "  qsf-run -hf OWNER/REPO                         downloads a model, once\n"
                "  qsf-run model.qsf --ram-budget 200 -p \"...\"    within 200 MB of memory\n",
    .brief = "--hf-repo --prompt --file --system --interactive --raw --max-tokens --temperature --ctx-size "
             "--threads --ram-budget --json-schema --verbose",
    .exit_codes = "0 ok, 1 failed, 2 usage, 3 bad model, 4 memory, 5 input or output, 130 interrupted",
};

/* The program's own rows and the shared ones, in the order of the help. */
enum { RUN_PARTS = 14 };
static option_program run_options_program(option_part *parts)
{
    const size_t base = offsetof(run_settings, common);
    const option_part all[RUN_PARTS] = {
        OPTION_PART(run_prompt_rows, 0), model_names_options(offsetof(run_settings, models)),
        common_options(COMMON_TEMPLATE, base),
        OPTION_PART(run_chat_rows, 0), common_options(COMMON_ANSWER, base), OPTION_PART(run_answer_rows, 0),
        common_options(COMMON_SAMPLING, base), common_options(COMMON_MEMORY, base),
        common_options(COMMON_SPEED, base), OPTION_PART(run_speed_rows, 0),
        common_options(COMMON_DEVICE, base + offsetof(common_settings, gpu)),
        common_options(COMMON_LORA, base), OPTION_PART(run_rest_rows, 0),
        common_options(COMMON_PROGRAM, offsetof(run_settings, program)),
    };
    memcpy(parts, all, sizeof all);
    return (option_program){ parts, RUN_PARTS, run_defaults, sizeof run_defaults / sizeof run_defaults[0],
                             "QSF_", "qsf-run", &run_page };
}

static int run_mode(const run_settings *set)
{
    run_session s;
    size_t len = 0;
    char *owned = NULL;
    const char *prompt = set->prompt;
    const bool vocab_only = set->tokenize || set->detokenize || set->accept;
    int code = session_open(&s, set, vocab_only, set->perplexity ? 64 : 1);
    if (code || (code = grammar_open(&s)) != 0) goto done;
    if (set->verbose && s.context) print_memory(&s);
    if (set->accept) code = run_accept(&s);
    else if (set->tokenize) code = run_tokenize(&s);
    else if (set->detokenize) code = run_detokenize(&s);
    else if (set->perplexity) code = run_perplexity(&s);
    else if (set->bench) code = run_bench(&s);
    else {
        const bool chat = chat_asked(set) && !set->embedding && !set->rerank;
        if (!prompt && !set->ids && (set->file || !chat)
            && !(prompt = owned = read_whole(set->file ? set->file : "-", &len))) {
            code = EXIT_IO;
            goto done;
        }
        if (prompt && !owned) len = strlen(prompt);
        if (chat) code = run_chat(&s, prompt, len);
        else if (set->embedding) code = run_embedding(&s, prompt ? prompt : "", len);
        else if (set->rerank) code = run_rerank(&s, prompt ? prompt : "", len);
        else if (set->logits) code = run_logits(&s, prompt ? prompt : "", len);
        else code = run_once(&s, prompt ? prompt : "", len);
    }
    if (set->verbose && s.context) print_times(&s);
done:
    free(owned);
    return output_end(session_close(&s, code));
}

/* Positional arguments: the model, unless -m gave it, and the prompt. */
static int take_words(run_settings *set, const option_list *rest)
{
    size_t i = 0;
    const char *variable = getenv("QSF_MODEL");
    const bool by_variable = set->model && set->model == variable;
    const bool replaced = by_variable && rest->n
        && (path_exists(rest->items[0]) || hub_is_name(rest->items[0]));
    option_list named = { .n = 0 };
    const int code = model_names_add(&set->models, &named);
    if (code) return code;
    if (named.n + (set->model && !by_variable) > 1)
        return fputs("several models were given; --model and -hf name one\n", stderr), EXIT_USAGE;
    if (named.n) set->model = named.items[0];
    else if ((!set->model || replaced) && i < rest->n) set->model = rest->items[i++];
    if (!set->prompt && !set->file && !set->ids && i < rest->n) set->prompt = rest->items[i++];
    if (i == rest->n) return EXIT_OK;
    fprintf(stderr, "unexpected \"%s\": put a prompt of several words in quotes: qsf-run MODEL \"...\"\n",
            rest->items[i]);
    return EXIT_USAGE;
}

/* Checks options that require or exclude each other.  Returns an exit code; reports errors. */
static int check_settings(run_settings *set, const option_list *rest)
{
    const char *why = NULL;
    const int code = take_words(set, rest);
    if (code) return code;
    if (!set->model && !set->render)
        why = "no model was given: qsf-run [options] MODEL [PROMPT]; --help shows the options";
    else if (set->tool_choice && !set->tools)
        why = "--tool-choice requires --tools FILE";
    else if (set->tools && !set->render && (set->raw || set->ids))
        why = "--tools needs a conversation: it cannot be combined with --raw or --ids";
    else if ((set->kl || set->kl_base) && !set->perplexity)
        why = "--kl and --kl-base require --perplexity FILE";
    else if (set->session && set->prompt_cache)
        why = "--session keeps the prompt, too: it cannot be combined with --prompt-cache";
    else if (set->session && set->common.context.early_exit > 0)
        why = "--session needs the state of all layers: it cannot be combined with --early-exit";
    else if (set->prompt_cache && set->common.context.early_exit > 0)
        why = "--prompt-cache needs the state of all layers: it cannot be combined with --early-exit";
    else if (set->perplexity && set->common.context.head != QSF_HEAD_EXACT)
        why = "--perplexity needs all logits: it requires --head-topk exact";
    if (!why) return EXIT_OK;
    fprintf(stderr, "%s\n", why);
    return EXIT_USAGE;
}

/* Whether the model may be used while it is downloaded: by one reader. */
static bool run_arrives(const run_settings *set)
{
    const bool others = set->render || set->accept || set->tokenize || set->detokenize || set->draft_model
        || set->common.draft_mtp || set->bench || set->perplexity || set->session || set->prompt_cache
        || strcmp(set->common.io, "auto");
    return hub_is_name(set->model) && !others;
}

/* The model's path in place of its name.  An exit code; errors are reported. */
static int find_model(run_settings *set)
{
    const uint64_t budget = set->common.context.ram_budget;
    if (!set->model || !run_arrives(set)) return model_names_find(&set->models, &set->model, budget);
    const hub_options o = model_names_hub(&set->models, budget);
    qsf_error err;
    if (hub_arrive(&o, set->model, &set->arrival, &err)) return report(&err);
    set->model = hub_arrival_path(set->arrival);
    if (!hub_arrival_whole(set->arrival)) set->common.context.ram_budget -= budget / HUB_MEMORY_PART;
    return EXIT_OK;
}

/* After an answer the file has to be whole, with the right sum; so it has after a model that
 * seems damaged: if what came is, it is deleted. */
static int run_arrived(run_settings *set)
{
    qsf_error err;
    const int code = run_mode(set);
    model_names_quiet(false);
    const bool failed = hub_arrival_end(set->arrival, code && code != EXIT_MODEL, &err) != QSF_OK;
    const bool stopped = failed && err.status == QSF_E_CANCELLED;
    return !failed || (stopped && code && !interrupted()) ? code : report(&err);
}

int main(int argc, char **argv)
{
    run_settings set = { .json_blanks = 32, .reasoning = "show" };
    option_part parts[RUN_PARTS];
    const option_program program = run_options_program(parts);
    option_list rest;
    if (mpi_wanted(argc, argv)) return mpi_start("qsf-mpi", argv);
    terminal_init();
    common_defaults(&set.common);
    qsf_turn_defaults(&set.turn);
    int code;
    if (!common_parse(&program, &set, &set.program.about, argc, argv, &rest, &code)) return code;
    if (set.list_devices) return output_end(run_devices());
    if ((code = check_settings(&set, &rest)) != 0) return code;
    if ((code = find_model(&set)) != 0 || (code = model_names_find(&set.models, &set.draft_model, 0)) != 0)
        return code;
    return set.render ? output_end(run_render(&set)) : run_arrived(&set);
}
