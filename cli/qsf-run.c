/* qsf-run: a prompt in, text out.  This file is the option table and the choice of what to do.
 * SPDX-License-Identifier: MIT */
#include "mpi_start.h"
#include "run.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(run_settings, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(common.context), NULL)
#define TURN(names, more) OPTION_OF(TURN, names, AT(turn), more)

static const option run_prompt_rows[] = {
    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Model and prompt", NULL },
    { OPTION_TEXT, "-m --model", "FILE", AT(model), 0, 0, NULL,
      "QSF or GGUF file; may also stand alone on the command line", NULL },
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL,
      "under mpirun: run layers on its ranks; --mpi --help lists the options", NULL },
    { OPTION_TEXT, "-p --prompt", "TEXT", AT(prompt), 0, 0, NULL,
      "the prompt; may also stand alone after the model", NULL },
    { OPTION_TEXT, "-f --file", "FILE", AT(file), 0, 0, NULL,
      "read the prompt from a file, - for standard input", NULL },
    { OPTION_TEXT, "--ids", "N,N,...", AT(ids), 0, 0, NULL, "the prompt as token ids", NULL },
    { OPTION_TEXT, "-sys --system", "TEXT", AT(system), 0, 0, NULL,
      "system message of the conversation", NULL },
    { OPTION_FLAG, "-i -cnv --interactive", NULL, AT(interactive), 0, 0, NULL,
      "chat; also what happens without a prompt on a terminal", NULL },
    { OPTION_TEXT, "--session", "FILE", AT(session), 0, 0, NULL,
      "go on with what the file kept of the last run, where the prompt begins alike, and keep this one's in "
      "it", NULL },
    { OPTION_FLAG, "--raw", NULL, AT(raw), 0, 0, NULL,
      "complete the text as it is, without the model's chat template", NULL },
};
static const option run_chat_rows[] = {
    { OPTION_TEXT, "--tools", "FILE", AT(tools), 0, 0, NULL,
      "tools for the template, a list in JSON; a pipe gets calls as lines of JSON, and a chat asks for what "
      "they have given", NULL },
    { OPTION_TEXT, "--tool-choice", "WHICH", AT(tool_choice), 0, 0, NULL,
      "auto, none, required, or the tool that is called", NULL },
    { OPTION_TEXT, "--documents", "FILE", AT(documents), 0, 0, NULL,
      "documents for the template, a list in JSON", NULL },
    { OPTION_CHOICE, "--reasoning", NULL, AT(reasoning), 0, 0, "show|hide",
      "what a model thinks before it answers: dim on a terminal, or one line in its place", "show" },
    { OPTION_TEXT, "--history", "FILE|off", AT(history), 0, 0, NULL,
      "where the chat keeps what was typed", "a file of your own in the system's place for such" },
};
static const option run_answer_rows[] = {
    { OPTION_LIST, "-r --reverse-prompt --stop", "TEXT", AT(stop), 0, 0, NULL,
      "end the answer before this text; may be given again", NULL },
    { OPTION_FLAG, "--ignore-eos", NULL, AT(ignore_eos), 0, 0, NULL,
      "go on after tokens that end a text", NULL },
    TURN("--min-tokens", NULL),
    TURN("--logprobs", "a line of JSON for each token on standard error"),
};
static const option run_machine_rows[] = {
    { OPTION_TEXT, "--draft-model", "FILE", AT(draft_model), 0, 0, NULL,
      "a small model of the same vocabulary that makes the guesses; it stays in memory, within the budget",
      NULL },
    CONTEXT("--first-stage"),
};
static const option run_rest_rows[] = {
    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "What an answer may be", NULL },
    { OPTION_TEXT, "--grammar", "GBNF", AT(grammar), 0, 0, NULL,
      "a text of these rules: GBNF with a rule \"root\", or a file of it", NULL },
    { OPTION_TEXT, "--regex", "REGEX", AT(regex), 0, 0, NULL,
      "a text that fits from beginning to end", NULL },
    { OPTION_TEXT, "--json-schema", "SCHEMA", AT(json_schema), 0, 0, NULL,
      "JSON that fits this schema: JSON, or a file of it", NULL },
    { OPTION_FLAG, "--json-object", NULL, AT(json_object), 0, 0, NULL, "any JSON", NULL },
    { OPTION_TEXT, "--choices", "LIST", AT(choices), 0, 0, NULL,
      "one of these texts: yes,no or a JSON list or one a line", NULL },
    { OPTION_INT, "--json-blanks", "N", AT(json_blanks), -1, 1000, NULL,
      "most blanks where JSON may have some: 0 for compact, -1 for any number", "32" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Instead of an answer", NULL },
    { OPTION_TEXT, "--accept", "FILE", AT(accept), 0, 0, NULL,
      "say whether the file, - for standard input, is such a text: \"accepted\"; else at which byte, "
      "from 0, no token can go on, or that it is not finished (exit code 1); a line end at the end may be "
      "one too many", NULL },
    { OPTION_FLAG, "--embedding --embeddings", NULL, AT(embedding), 0, 0, NULL,
      "embed the prompt, each of its lines a text; prints a row of numbers a text", NULL },
    { OPTION_CHOICE, "--pooling", NULL, AT(pooling), 0, 0, "mean|cls|last|rank|none",
      "with --embedding: what becomes of a text's tokens; rank: the classifier's scores; none: each "
      "token has a row", "what the file says, else mean" },
    { OPTION_FLAG, "--embedding-plain", NULL, AT(embed_plain), 0, 0, NULL,
      "with --embedding: as computed, not brought to the length 1", NULL },
    { OPTION_TEXT, "--rerank", "FILE", AT(rerank), 0, 0, NULL,
      "rank the file's lines, each a document, by how well they answer the prompt; prints score, number and "
      "line, best first", NULL },
    { OPTION_FLAG, "--bench", NULL, AT(bench), 0, 0, NULL, "measure prefill and decode", NULL },
    { OPTION_TEXT, "--perplexity", "FILE", AT(perplexity), 0, 0, NULL,
      "perplexity over a text, in windows of the context length", NULL },
    { OPTION_INT, "--chunks", "N", AT(chunks), 0, 1e9, NULL, "only the first N windows", "all" },
    { OPTION_TEXT, "--kl-base", "FILE", AT(kl_base), 0, 0, NULL,
      "with --perplexity: write the logits for --kl", NULL },
    { OPTION_TEXT, "--kl", "FILE", AT(kl), 0, 0, NULL,
      "with --perplexity: compare with the logits of another model", NULL },
    { OPTION_TEXT, "--render", "FILE", AT(render), 0, 0, NULL,
      "print what the template makes of these messages in JSON, as transformers does; needs no model where "
      "--chat-template is given", NULL },
    { OPTION_FLAG, "--no-generation-prompt", NULL, AT(no_generation), 0, 0, NULL,
      "with --render: without the beginning of an answer", NULL },
    { OPTION_FLAG, "--continue-final-message", NULL, AT(continue_final), 0, 0, NULL,
      "with --render: up to the end of the last message's text, to go on from there", NULL },
    { OPTION_FLAG, "--adapted", NULL, AT(adapted), 0, 0, NULL,
      "with --render: messages in the forms that the template takes, as in a chat", NULL },
    { OPTION_TEXT, "--bos", "TEXT", AT(bos), 0, 0, NULL,
      "text of the begin-of-text token for the template", "the model's" },
    { OPTION_TEXT, "--eos", "TEXT", AT(eos), 0, 0, NULL, "and of the end-of-text token", "the model's" },
    { OPTION_FLAG, "--tokenize", NULL, AT(tokenize), 0, 0, NULL,
      "read text from standard input, print its token ids as JSON", NULL },
    { OPTION_FLAG, "--add-special", NULL, AT(add_special), 0, 0, NULL,
      "with --tokenize: with the tokens that begin and end a text", NULL },
    { OPTION_FLAG, "--parse-special", NULL, AT(parse_special), 0, 0, NULL,
      "with --tokenize: control tokens written in the text become tokens", NULL },
    { OPTION_FLAG, "--detokenize", NULL, AT(detokenize), 0, 0, NULL,
      "read token ids, print their text", NULL },
    { OPTION_FLAG, "--logits", NULL, AT(logits), 0, 0, NULL,
      "print the logits after the prompt as JSON", NULL },
    { OPTION_FLAG, "--json", NULL, AT(json), 0, 0, NULL,
      "results as JSON: the answer's token ids, the figures of --bench", NULL },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "About", NULL },
    { OPTION_FLAG, "-v --verbose", NULL, AT(verbose), 0, 0, NULL,
      "memory map, kernels chosen, times by part", NULL },
    TRACE_OPTIONS,
    { OPTION_FLAG, "--completion-names", NULL, AT(completion), 0, 0, NULL,
      "print all option names, for shell completion", NULL },
    { OPTION_FLAG, "--version", NULL, AT(version), 0, 0, NULL, "print the version", NULL },
    { OPTION_FLAG, "-h --help", NULL, AT(help), 0, 0, NULL, "print this", NULL },
};
#undef AT
#undef CONTEXT
#undef TURN

#define PART(rows) { rows, sizeof rows / sizeof rows[0], 0 }
static const option_default run_defaults[] = {
    { "--max-tokens", "256", NULL }, { "--draft", "-1", "7 where layers stream, else 0" },
};

/* The program's own rows and the shared ones, in the order of the help.  parts: room for 10. */
static option_program run_options_program(option_part *parts)
{
    const size_t base = offsetof(run_settings, common);
    const option_part all[] = {
        PART(run_prompt_rows), common_options(COMMON_TEMPLATE, base), PART(run_chat_rows),
        common_options(COMMON_ANSWER, base), PART(run_answer_rows), common_options(COMMON_SAMPLING, base),
        common_options(COMMON_MACHINE, base), common_options(COMMON_LORA, base), PART(run_machine_rows),
        PART(run_rest_rows),
    };
    memcpy(parts, all, sizeof all);
    return (option_program){ parts, sizeof all / sizeof all[0], run_defaults,
                             sizeof run_defaults / sizeof run_defaults[0], "QSF_", "qsf-run" };
}
#undef PART

static void print_help(const option_program *p)
{
    printf("Runs a language model from a QSF or GGUF file.\n\n"
           "  qsf-run model.qsf \"Why is the sky blue?\"      one answer\n"
           "  qsf-run model.gguf                             chat\n"
           "  qsf-run model.qsf --ram-budget 200 -p \"...\"    inside 200 MB\n"
           "  qsf-run model.qsf --raw -p \"Once upon a time\"  completion\n\n"
           "Usage: qsf-run [options] MODEL [PROMPT].  Each option can also be set by the environment "
           "variable in brackets.\n"
           "Exit codes: 0 ok, 1 failed, 2 usage, 3 bad model, 4 memory, 5 input or output, "
           "130 interrupted.\n");
    program_help(p, stdout);
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
    const bool replaced = set->model && set->model == variable && rest->n && path_exists(rest->items[0]);
    if ((!set->model || replaced) && i < rest->n) set->model = rest->items[i++];
    if (!set->prompt && !set->file && !set->ids && i < rest->n) set->prompt = rest->items[i++];
    if (i == rest->n) return EXIT_OK;
    fprintf(stderr, "unexpected \"%s\": a prompt of several words stands in quotes: qsf-run MODEL \"...\"\n",
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
        why = "no model was given: qsf-run [options] MODEL [PROMPT]; --help lists the options";
    else if (set->tool_choice && !set->tools)
        why = "--tool-choice goes with --tools FILE";
    else if (set->tools && !set->render && (set->raw || set->ids))
        why = "--tools needs a conversation: it does not go with --raw and --ids";
    else if ((set->kl || set->kl_base) && !set->perplexity)
        why = "--kl and --kl-base go with --perplexity FILE";
    else if (set->session && set->common.context.early_exit > 0)
        why = "--session keeps what all layers have seen: it does not go with --early-exit";
    else if (set->perplexity && set->common.context.head != QSF_HEAD_EXACT)
        why = "--perplexity needs all logits: it does not go with --head-topk other than exact";
    if (!why) return EXIT_OK;
    fprintf(stderr, "%s\n", why);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    run_settings set = { .json_blanks = 32, .reasoning = "show" };
    option_part parts[10];
    const option_program program = run_options_program(parts);
    option_list rest;
    if (mpi_wanted(argc, argv)) return mpi_start("qsf-mpi", argv);
    terminal_init();
    common_defaults(&set.common);
    qsf_turn_defaults(&set.turn);
    if (!program_parse(&program, &set, argc, argv, &rest)) return EXIT_USAGE;
    if (set.help) return print_help(&program), output_end(EXIT_OK);
    if (set.version) return printf("qsf-run %s\n", qsf_version()), output_end(EXIT_OK);
    if (set.completion) return program_names(&program, stdout), output_end(EXIT_OK);
    const int code = check_settings(&set, &rest);
    if (code) return code;
    return set.render ? output_end(run_render(&set)) : run_mode(&set);
}
