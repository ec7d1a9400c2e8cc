/* Timings of an answer and progress of its prompt, in llama-server's format.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

static double between_ms(uint64_t from, uint64_t to)
{
    return from && to > from ? (double)(to - from) / 1e6 : 0;
}

/* The time, and n tokens as a rate over it. */
static void write_rates(const char *name, uint32_t n, double ms, serve_text *out)
{
    text_format(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f", name,
                (unsigned)n, name, ms, name, n ? ms / n : 0, name, ms > 0 ? 1e3 * n / ms : 0);
}

void format_timings(const front_choice *ch, serve_text *out)
{
    const uint64_t first = ch->first_ns ? ch->first_ns : serve_now();
    text_format(out, "\"timings\":{\"cache_n\":%u,", (unsigned)ch->n_kept);
    write_rates("prompt", ch->n_prompt - ch->n_kept, between_ms(ch->begun_ns, first), out);
    text_str(out, ",");
    write_rates("predicted", ch->n_tokens, between_ms(ch->first_ns, ch->last_ns), out);
    if (ch->n_drafted)
        text_format(out, ",\"draft_n\":%u,\"draft_n_accepted\":%u", (unsigned)ch->n_drafted,
                    (unsigned)ch->n_accepted);
    text_str(out, "}");
}

void format_progress_member(const front_job *j, unsigned choice, uint32_t n_done, serve_text *out)
{
    const front_choice *ch = &j->choices[choice];
    text_format(out, "\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%.0f}",
                (unsigned)ch->n_prompt, (unsigned)ch->n_kept, (unsigned)n_done,
                between_ms(ch->begun_ns, ch->last_ns));
}
