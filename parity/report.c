/* A page of figures.
 * SPDX-License-Identifier: MIT */
#include "report.h"

#include <string.h>

static void report_piece(FILE *out, const parity_result *r, int32_t id)
{
    const char *bytes = NULL;
    const size_t n = r->model ? qsf_token_piece(r->model, id, true, &bytes) : 0;
    fputc('"', out);
    for (size_t i = 0; i < n && i < 40; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '\n') fputs("\\n", out);
        else if (c < ' ' || c == 127) fprintf(out, "\\x%02x", c);
        else fputc(c, out);
    }
    fputc('"', out);
}

static void report_top(FILE *out, const parity_result *r, const char *name, const parity_top top[PARITY_TOP])
{
    fprintf(out, "    %-12s", name);
    for (int i = 0; i < PARITY_TOP && top[i].id >= 0; i++) {
        fprintf(out, "%s%d ", i ? "  " : "", (int)top[i].id);
        report_piece(out, r, top[i].id);
        fprintf(out, " %.4f", top[i].logit);
    }
    fputc('\n', out);
}

static void report_divergence(FILE *out, const parity_result *r)
{
    const parity_divergence *d = &r->totals.first;
    if (!d->there) return;
    fprintf(out, "  first divergence: prompt %zu, step %zu%s\n", d->prompt, d->step,
            d->tie ? ": a tie, both margins are within the error of the logits" : "");
    report_top(out, r, r->side[0].name, d->row.top[0]);
    report_top(out, r, r->side[1].name, d->row.top[1]);
    fprintf(out, "    margins %.4f and %.4f; an error of %.4f a logit\n", d->margin[0], d->margin[1],
            d->row.noise);
}

static void report_alone(FILE *out, const parity_result *r)
{
    const int ran = !r->side[0].ran;
    if (*r->refused) fprintf(out, "our reader refuses the file (%s): %s\n", r->refused_status, r->refused);
    fprintf(out, "no parity was shown: %s ran alone, %zu rows in %.0f ms\n", r->side[ran].name,
            r->totals.rows,
            1e-6 * (double)r->side[ran].ns);
    if (r->totals.targets)
        fprintf(out, "  perplexity of %zu tokens: %.4f\n", r->totals.targets, parity_perplexity(&r->totals,
                                                                                                ran));
}

void parity_report(FILE *out, const parity_settings *set, const prompt_list *prompts, const parity_result *r)
{
    const parity_totals *t = &r->totals;
    const double rows = t->rows ? (double)t->rows : 1;
    if (r->outcome == PARITY_NONE) {
        report_alone(out, r);
        return;
    }
    fprintf(out, "libqsf %s and %s%s: %zu prompts, %zu rows, %zu steps\n", qsf_version(), r->side[1].name,
            r->is_recorded ? " (recorded)" : "", prompts->n, t->rows, t->steps);
    fprintf(out, "  cosine of logits: %.7f at least where a token is chosen; of all rows %.7f, mean %.7f: "
            "%s\n",
            t->cosine_min, t->cosine_least, t->cosine_sum / rows,
            t->cosine_min < set->min_cosine ? "too small" : t->cosine_min < set->warn_cosine
                ? "ok, but see below"
                                                                                              : "ok");
    fprintf(out, "  difference: largest %.5f, mean %.6f\n", t->max_difference, t->difference_sum / rows);
    fprintf(out, "  KL divergence: mean %.3g, largest %.3g nats\n", t->kl_sum / rows, t->kl_max);
    fprintf(out, "  greedy tokens: %zu of %zu the same (%.1f%%)", t->matches, t->steps,
            100 * parity_match_rate(t));
    if (t->ties) fprintf(out, ", %zu tie%s", t->ties, t->ties > 1 ? "s" : "");
    fputc('\n', out);
    report_divergence(out, r);
    if (t->targets)
        fprintf(out, "  perplexity of %zu tokens: %.4f and %.4f\n", t->targets, parity_perplexity(t, 0),
                parity_perplexity(t, 1));
    fprintf(out, "  time: %.0f and %.0f ms\n", 1e-6 * (double)r->side[0].ns, 1e-6 * (double)r->side[1].ns);
    if (t->cosine_min < set->warn_cosine && t->cosine_min >= set->min_cosine)
        fprintf(out, "warning: a cosine below %g; rounding of quantised weights and activations does that, "
                "and so "
                "may a fault\n", set->warn_cosine);
    fputs(r->outcome == PARITY_SHOWN ? "parity\n" : "no parity\n", out);
}
