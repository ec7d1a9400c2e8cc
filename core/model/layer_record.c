/* Fills the records of layers and of rotary tables from a model's description.
 * SPDX-License-Identifier: MIT */
#include "model/layer_record.h"
#include "model/source_formats.h"
#include "tensor/types.h"

/* Tables in their order: that of layers which see everything,
 * and that of windowed ones if it differs. */
enum { ROPE_GLOBAL, ROPE_LOCAL };

qsf_norm qsf_norm_of(const qsf_hparams *hp) { return (qsf_norm){ hp->norm, hp->norm_eps }; }

/* RWKV's convolution is the row before. */
static void layer_rwkv(qsf_layer *l, const qsf_hparams *hp, bool first)
{
    l->mix_inner = l->mix_channels = hp->n_embd;
    l->mix_heads = hp->n_embd / hp->mix_state;
    l->mix_rank = hp->mix_heads;
    l->mix_rate = hp->mix_rate;
    l->mix_first = first ? 0 : hp->mix_first;
    l->mix_gate = hp->mix_gate;
    l->mix_in = hp->n_embd;
}

/* Sizes of a mixer with state.  The state is that of the convolution, [positions before this
 * one][channels], then sums [heads][columns of a head][state]; then a row for the feed-forward. */
static void layer_mixer(qsf_layer *l, const qsf_hparams *hp, bool first)
{
    const uint32_t both = 2 * hp->mix_groups * hp->mix_state;
    l->mix_conv = hp->mix_conv;
    l->mix_state = hp->mix_state;
    l->mix_heads = hp->mix_heads;
    l->mix_groups = hp->mix_groups;
    l->mix_neighbours = hp->mix_neighbours;
    if (l->mixer == QSF_MIXER_SHORT_CONV) {
        l->mix_inner = l->mix_channels = hp->n_embd;
        l->mix_in = 3 * hp->n_embd;
        l->mix_state = 0;
    } else if (l->mixer == QSF_MIXER_MAMBA) {
        l->mix_inner = l->mix_channels = l->mix_heads = hp->mix_inner;
        l->mix_in = 2 * hp->mix_inner;
        l->mix_rank = hp->mix_heads;
        l->mix_norms = hp->mix_norms;
    } else if (l->mixer == QSF_MIXER_PLAMO) {
        l->mix_inner = l->mix_channels = l->mix_in = hp->mix_inner;
        l->mix_rank = hp->mix_rate;
    } else if (l->mixer == QSF_MIXER_RWKV) {
        layer_rwkv(l, hp, first);
    } else {
        l->mix_inner = hp->mix_inner;
        l->mix_channels = hp->mix_inner + both;
        l->mix_in = l->mix_channels;
        if (qsf_mixer_is_mamba2(l->mixer)) l->mix_in += hp->mix_inner + hp->mix_heads;
    }
    l->state_bytes = ((l->mix_conv - 1) * l->mix_channels + l->mix_inner * l->mix_state) *
                     (uint32_t)sizeof(float);
    if (l->feed_forward == QSF_FEED_FORWARD_SHIFTED) l->state_bytes += hp->n_embd * (uint32_t)sizeof(float);
}

/* Sizes of latent attention. */
static void layer_latent(qsf_layer *l, const qsf_hparams *hp)
{
    l->kv_latent = hp->kv_latent;
    l->q_latent = hp->q_latent;
    l->head_plain = hp->head_plain;
    l->head_value = hp->head_value;
    l->latent_joined = hp->latent_joined;
}

static void layer_experts(qsf_layer *l, const qsf_hparams *hp, uint32_t i)
{
    l->n_experts = hp->n_experts;
    l->n_used = hp->useds ? hp->useds[i] : hp->n_used;
    l->n_ff_expert = hp->expert_ffs ? hp->expert_ffs[i] : hp->n_ff_expert;
    l->n_expert_embd = hp->n_expert_embd ? hp->n_expert_embd : hp->n_embd;
    l->experts_apart = hp->n_expert_embd != 0;
    l->experts_plain = !hp->gated;
    l->experts_beside = hp->experts_beside;
    l->n_groups = hp->n_groups;
    l->n_groups_used = hp->n_groups_used;
    l->router = hp->router;
    l->router_norm = hp->router_norm;
    l->router_early = hp->router_early;
    l->router_scale = hp->router_scale;
}

static bool mixer_has_state(uint8_t mixer)
{
    return mixer != QSF_MIXER_ATTENTION && mixer != QSF_MIXER_NONE;
}

/* Whether a matrix may narrow rows to n columns. */
static bool rank_possible(uint32_t n) { return n >= 2 && n <= 1 << 16; }

/* Numbers that layer_mixer multiplies and mixers divide by. */
static qsf_status mixers_check(const qsf_source *s, qsf_error *err)
{
    enum { MOST = 1 << 26 };            /* numbers of a state, of which a layer has bytes in 32 bits */
    const qsf_hparams *hp = &s->hp;
    bool sums = false, conv = false, delta = false, heads = false, plamo = false;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const uint8_t m = hp->mixers ? hp->mixers[i] : 0, f = hp->feed_forwards ? hp->feed_forwards[i] : 0;
        if (m >= QSF_N_MIXERS || f >= QSF_N_FEED_FORWARDS ||
            (m == QSF_MIXER_NONE && f == QSF_FEED_FORWARD_NONE && hp->feed_forwards))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has mixer %u and feed-forward %u, which "
                            "this version cannot run", s->path, (unsigned)i, (unsigned)m, (unsigned)f);
        if (f == QSF_FEED_FORWARD_EXPERTS && (!hp->n_experts || i < hp->n_dense))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u has experts, but the file does not describe "
                                                "them",
                            s->path, (unsigned)i);
        if (f == QSF_FEED_FORWARD_SHIFTED && m != QSF_MIXER_RWKV)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has a feed-forward of RWKV, but another "
                            "mixer", s->path, (unsigned)i);
        conv |= mixer_has_state(m);
        sums |= mixer_has_state(m) && m != QSF_MIXER_SHORT_CONV && m != QSF_MIXER_RWKV;
        heads |= qsf_mixer_is_mamba2(m) || m == QSF_MIXER_DELTA_NET || m == QSF_MIXER_PLAMO;
        plamo |= m == QSF_MIXER_PLAMO;
        delta |= m == QSF_MIXER_DELTA_NET;
    }
    if (conv && (hp->mix_conv < 2 || hp->mix_conv > QSF_MAX_MIX_CONV))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a convolution over %u positions; the range is 2 to %d",
                        s->path, (unsigned)hp->mix_conv, (int)QSF_MAX_MIX_CONV);
    if (sums && (!hp->mix_inner || hp->mix_inner > 1 << 18 || !hp->mix_state ||
                 hp->mix_state > QSF_MAX_MIX_STATE || !hp->mix_groups || !hp->mix_heads ||
                 hp->mix_inner > MOST / hp->mix_state || hp->mix_groups > MOST / 16 / hp->mix_state ||
                 hp->mix_heads > hp->mix_inner ||
                 (heads && (hp->mix_inner % hp->mix_heads || hp->mix_heads % hp->mix_groups)) ||
                 (plamo && !rank_possible(hp->mix_rate)) ||
                 (delta && (hp->mix_heads < 2 || hp->mix_inner / hp->mix_heads != hp->mix_state))))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a state of %u x %u numbers with %u heads in %u groups, "
                        "which this version cannot run", s->path, (unsigned)hp->mix_inner,
                        (unsigned)hp->mix_state, (unsigned)hp->mix_heads, (unsigned)hp->mix_groups);
    return QSF_OK;
}

static qsf_status rwkv_check(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    if (!hp->mixers || !memchr(hp->mixers, QSF_MIXER_RWKV, hp->n_layers)) return QSF_OK;
    if (hp->mix_conv == 2 && hp->mix_inner == hp->n_embd && hp->n_embd <= 1 << 16 && hp->mix_state &&
        hp->mix_state <= QSF_MAX_MIX_STATE && hp->n_embd % hp->mix_state == 0 &&
        rank_possible(hp->mix_heads) && rank_possible(hp->mix_rate) && rank_possible(hp->mix_first) &&
        (!hp->mix_gate || rank_possible(hp->mix_gate)) && hp->flow == QSF_FLOW_SERIAL) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: heads of %u of RWKV in rows of %u, widened from %u, %u, %u "
                    "and %u columns, which this version cannot run", s->path, (unsigned)hp->mix_state,
                    (unsigned)hp->n_embd, (unsigned)hp->mix_heads, (unsigned)hp->mix_rate,
                    (unsigned)hp->mix_first, (unsigned)hp->mix_gate);
}

static bool layer_windowed(const qsf_hparams *hp, uint32_t i)
{
    const uint32_t every = hp->window_pattern;
    if (hp->windowed) return hp->window && hp->windowed[i];
    return hp->window && (every == 0 || (i + hp->window_first) % every != every - 1);
}

/* Sizes of Gemma's later ones.  Layers without keys read those of the last one with the same view
 * that has some. */
static void layer_sharing(qsf_layer *l, const qsf_hparams *hp, uint32_t i, bool windowed)
{
    enum { BACK = 64 };
    const uint32_t own = hp->n_layers - hp->n_kv_shared;
    if (windowed && hp->head_dim_local) l->head_dim = l->value_dim = hp->head_dim_local;
    if (hp->ffs && l->n_ff) l->n_ff = hp->ffs[i];
    if (hp->kv_heads) l->n_kv_heads = hp->kv_heads[i];
    for (uint32_t back = 1; i >= own && back <= BACK && back <= own && !l->kv_from; back++)
        if (layer_windowed(hp, own - back) == windowed) l->kv_from = 1 + own - back;
}

static qsf_status sharing_check(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    if (hp->n_kv_shared >= hp->n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u of %u layers have no keys of their own", s->path,
                        (unsigned)hp->n_kv_shared, (unsigned)hp->n_layers);
    for (uint32_t i = 0; hp->kv_heads && i < hp->n_layers; i++)
        if (!hp->kv_heads[i] || hp->n_heads % hp->kv_heads[i])
            return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u has %u key and value heads for %u heads",
                            s->path, (unsigned)i, (unsigned)hp->kv_heads[i], (unsigned)hp->n_heads);
    if (hp->head_dim_local > QSF_MAX_HEAD_DIM || hp->rope_dim_local % 2 || hp->n_embd_layer == 1 ||
        hp->n_embd_layer > 1 << 16 || (uint64_t)hp->n_embd_layer * hp->n_layers > INT32_MAX)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: windowed layers with heads of %u, of which %u columns "
                        "rotate, and embeddings of %u for each layer, which this version cannot run", s->path,
                        (unsigned)hp->head_dim_local, (unsigned)hp->rope_dim_local,
                        (unsigned)hp->n_embd_layer);
    if (hp->altup && (!hp->n_embd_layer || hp->n_laurel < 2 || hp->n_laurel > 1 << 16 || !hp->gated))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: several streams of a row without Gemma 3n's other parts",
                        s->path);
    return QSF_OK;
}

/* Those that the list names have experts; if it names none, all that have a feed-forward. */
static bool layer_has_experts(const qsf_hparams *hp, uint32_t i)
{
    const uint8_t *says = hp->feed_forwards;
    if (!hp->n_experts || i < hp->n_dense) return false;
    if (says && memchr(says, QSF_FEED_FORWARD_EXPERTS, hp->n_layers))
        return says[i] == QSF_FEED_FORWARD_EXPERTS;
    return !says || says[i] != QSF_FEED_FORWARD_NONE;
}

qsf_layer qsf_layer_of(const qsf_hparams *hp, uint32_t i)
{
    const bool windowed = layer_windowed(hp, i);
    const bool nth = hp->rope_skip && (i + hp->window_first) % hp->rope_skip == hp->rope_skip - 1;
    const bool skips = hp->windowed ? hp->rope_skip && !windowed : nth;
    const bool still = hp->rope == QSF_ROPE_NONE || skips;
    const uint8_t says = hp->feed_forwards ? hp->feed_forwards[i]
        : hp->gated ? QSF_FEED_FORWARD_GATED : QSF_FEED_FORWARD_PLAIN;
    const bool experts = layer_has_experts(hp, i);
    const uint16_t rope = windowed && hp->rope_base_local > 0 ? ROPE_LOCAL : ROPE_GLOBAL;
    qsf_layer l = {
        .mixer = hp->mixers ? hp->mixers[i] : QSF_MIXER_ATTENTION,
        .feed_forward = experts ? QSF_FEED_FORWARD_EXPERTS : says,
        .act = hp->act,
        .rope = still ? QSF_NO_ROPE : rope,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .value_dim = hp->head_dim,
        .n_ff = experts ? hp->n_ff_shared : hp->n_ff,
        .window = windowed ? hp->window : 0,
        .norm = qsf_norm_of(hp),
        .attn_scale = hp->attn_scale > 0 ? hp->attn_scale : 1 / sqrtf((float)hp->head_dim),
        .attn_softcap = hp->attn_softcap,
        .both_ways = hp->both_ways,
        .flow = hp->flow == QSF_FLOW_BARE_BEGIN && i ? QSF_FLOW_SERIAL : hp->flow,
        .qk_norm = hp->qk_norm,
        .residual_scale = hp->residual_scale,
        .qkv_clamp = hp->qkv_clamp,
        .alibi = hp->alibi,
        .temp_scale = hp->temp_scale,
        .temp_every = hp->temp_every,
        .attn_gate = hp->attn_gate,
        .v_norm = hp->v_norm,
        .n_embd_layer = hp->n_embd_layer,
        .altup = hp->altup,
        .altup_begin = hp->altup && i == 0,
        .altup_end = hp->altup && i + 1 == hp->n_layers,
        .n_laurel = hp->n_laurel,
        .sparse = i < hp->n_sparse ? hp->sparse : 0,
        .mtp = (hp->mtp && i + 1 == hp->n_layers) || hp->eagle,
        .eagle = hp->eagle,
        .features_normed = hp->features_normed,
    };
    if (experts) layer_experts(&l, hp, i);
    if (l.feed_forward == QSF_FEED_FORWARD_NONE) l.n_ff = 0;
    if (mixer_has_state(l.mixer)) layer_mixer(&l, hp, i == 0);
    else if (hp->kv_latent) layer_latent(&l, hp);
    layer_sharing(&l, hp, i, windowed);
    if (hp->xielu) memcpy(l.xielu, hp->xielu + (size_t)i * QSF_XIELU_NUMBERS, sizeof l.xielu);
    return l;
}

/* A base of their own leaves windowed layers without the others' scaling. */
uint32_t qsf_ropes_of(const qsf_hparams *hp, qsf_rope_record ropes[QSF_HPARAMS_ROPES])
{
    const uint32_t dim = hp->rope_dim ? hp->rope_dim : hp->head_dim;
    if (hp->rope == QSF_ROPE_NONE) return 0;
    ropes[ROPE_GLOBAL] = (qsf_rope_record){
        .kind = hp->rope, .scaling = hp->scaling, .dim = dim, .orig_ctx = hp->scaling_orig_ctx,
        .base = hp->rope_base, .factor = hp->scaling_factor, .yarn_ext_factor = hp->yarn_ext_factor,
        .yarn_attn_factor = hp->yarn_attn_factor, .yarn_beta_fast = hp->yarn_beta_fast,
        .yarn_beta_slow = hp->yarn_beta_slow, .attn_factor = hp->rope_attn_factor,
        .factors = hp->rope_factors, .factors_long = hp->rope_factors_long,
    };
    if (!(hp->rope_base_local > 0)) return 1;
    ropes[ROPE_LOCAL] = (qsf_rope_record){
        .kind = hp->rope, .scaling = QSF_SCALING_NONE, .base = hp->rope_base_local, .factor = 1,
        .dim = hp->rope_dim_local ? hp->rope_dim_local : dim,
    };
    return 2;
}

qsf_layer_most qsf_layers_most(const qsf_layer *layers, uint32_t n)
{
    qsf_layer_most m = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        const qsf_layer *l = &layers[i];
        const uint32_t wide = QSF_MAX(l->head_dim, l->value_dim);
        m.n_heads = QSF_MAX(m.n_heads, l->n_heads);
        m.n_kv_heads = QSF_MAX(m.n_kv_heads, l->n_kv_heads);
        m.head_dim = QSF_MAX(m.head_dim, wide);
        m.n_ff = QSF_MAX(m.n_ff, QSF_MAX(l->n_ff, l->n_ff_expert));
        m.n_experts = QSF_MAX(m.n_experts, l->n_experts);
        m.n_used = QSF_MAX(m.n_used, l->n_used);
        m.q = QSF_MAX(m.q, l->n_heads * wide);
        m.kv = QSF_MAX(m.kv, l->n_kv_heads * wide);
        m.share = QSF_MAX(m.share, l->n_heads / l->n_kv_heads);
    }
    return m;
}

uint32_t qsf_layer_apart(const qsf_hparams *hp, const qsf_layer *layers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const qsf_layer l = qsf_layer_of(hp, i);
        if (layers[i].n_heads != l.n_heads || layers[i].n_kv_heads != l.n_kv_heads ||
            layers[i].n_ff != l.n_ff || layers[i].n_used != l.n_used ||
            layers[i].n_ff_expert != l.n_ff_expert) return i;
    }
    return n;
}

/* Numbers that shapes, allocations and choices of experts go by. */
static qsf_status experts_check(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    const uint32_t each = hp->n_groups > 1 ? hp->n_experts / hp->n_groups : hp->n_experts;
    const uint64_t longest = QSF_MAX(hp->n_ff_expert, hp->n_embd);
    if (!hp->n_experts) return QSF_OK;
    if (hp->n_experts < 2 || hp->n_experts > QSF_MAX_EXPERTS || !hp->n_used || hp->n_used > hp->n_experts)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts, of which %u are used; the range is 2 to %d",
                        s->path, (unsigned)hp->n_experts, (unsigned)hp->n_used, QSF_MAX_EXPERTS);
    if (hp->n_ff_expert < 2 || hp->n_ff_shared > 1 << 24 || longest * hp->n_experts > INT32_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts of length %u next to one of %u", s->path,
                        (unsigned)hp->n_experts, (unsigned)hp->n_ff_expert, (unsigned)hp->n_ff_shared);
    if (hp->n_groups > 1 && (!each || hp->n_experts % hp->n_groups || hp->n_groups_used > hp->n_groups ||
                             (uint64_t)hp->n_groups_used * each < hp->n_used))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts in %u groups, of which %u are used for %u "
                        "experts", s->path, (unsigned)hp->n_experts, (unsigned)hp->n_groups,
                        (unsigned)hp->n_groups_used, (unsigned)hp->n_used);
    if (hp->n_expert_embd == 1 || hp->n_expert_embd > hp->n_embd || (hp->n_expert_embd && !hp->n_ff_shared))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: experts with %u of %u columns, next to a feed-forward "
                        "of %u, which this version cannot run", s->path, (unsigned)hp->n_expert_embd,
                        (unsigned)hp->n_embd, (unsigned)hp->n_ff_shared);
    if (hp->experts_beside && (!hp->n_ff_shared || hp->n_expert_embd || hp->router_early ||
                               hp->norm != QSF_NORM_RMS || hp->flow != QSF_FLOW_SERIAL))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: experts with their own norms, but without Gemma 4's "
                        "other parts", s->path);
    return QSF_OK;
}

/* Numbers that buffers are sized by: a head's query and value are no longer than the key. */
static qsf_status latent_check(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    if (!hp->kv_latent) return QSF_OK;
    if (hp->kv_latent < 2 || hp->rope_dim < 2 || hp->head_dim > QSF_MAX_HEAD_DIM ||
        hp->head_dim != hp->kv_latent + hp->rope_dim || hp->n_kv_heads != 1 || hp->n_heads > 1 << 12 ||
        hp->head_plain < 2 || hp->head_plain > QSF_MAX_HEAD_DIM || hp->head_value < 2 ||
        hp->head_value > hp->head_dim || hp->q_latent == 1 || hp->rope == QSF_ROPE_NONE ||
        hp->q_latent > (uint64_t)hp->n_heads * hp->head_dim ||
        hp->head_plain > (uint64_t)hp->n_heads * hp->head_dim || hp->attn_gate || hp->qkv_clamp > 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %u heads with latents of %u for keys and %u for "
                        "queries, %u plain and %u rotary columns, values of %u, which this version cannot "
                        "run",
                        s->path, (unsigned)hp->n_heads, (unsigned)hp->kv_latent,
                        (unsigned)hp->q_latent, (unsigned)hp->head_plain, (unsigned)hp->rope_dim,
                        (unsigned)hp->head_value);
    return QSF_OK;
}

qsf_status qsf_layers_fill(qsf_source *s, qsf_error *err)
{
    qsf_rope_record ropes[QSF_HPARAMS_ROPES];
    const uint32_t n = s->hp.n_layers;
    qsf_status st;
    if ((st = experts_check(s, err)) || (st = mixers_check(s, err)) || (st = rwkv_check(s, err)) ||
        (st = latent_check(s, err)) || (st = sharing_check(s, err))) return st;
    s->n_ropes = qsf_ropes_of(&s->hp, ropes);
    s->ropes = qsf_arena_array(s->arena, s->n_ropes, sizeof *s->ropes, "rotary tables", err);
    s->layers = s->ropes ? qsf_arena_array(s->arena, n, sizeof *s->layers, "layers", err) : NULL;
    if (!s->layers) return QSF_E_MEMORY;
    memcpy(s->ropes, ropes, s->n_ropes * sizeof *ropes);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (s->layers[i] = qsf_layer_of(&s->hp, i)).kv_from;
        if (i >= n - s->hp.n_kv_shared && !from)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has no keys, and no layer before it has "
                            "keys that it could read", s->path, (unsigned)i);
        if (from) s->layers[from - 1].kv_read = true;
    }
    s->most = qsf_layers_most(s->layers, n);
    return QSF_OK;
}
