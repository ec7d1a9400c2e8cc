/* Tiles of weights in shader text, from the table of forms.
 * SPDX-License-Identifier: MIT */
#include "decode_wgsl.h"
#include "forms.h"
#include "tensor/trellis.h"

bool qsf_wgsl_has_form(qsf_form f) { return qsf_forms[f].codes != QSF_CODES_CODEBOOK; }

uint32_t qsf_wgsl_group_scales(qsf_form f) { return qsf_forms[f].sub == 16 ? 2 : 1; }

/* ---- tables ---- */

/* Factors by code, as bytes, in the workgroup's memory: each entry has a bank of its own. */
static void wgsl_table(qsf_wgsl_text *t, const int8_t *table, uint32_t n, uint32_t threads)
{
    QSF_WGSL_PUT(t, "const TABLE = array<u32, ${n}>(", { "n", n, NULL });
    for (uint32_t i = 0; i < n; i++)
        QSF_WGSL_PUT(t, i ? ", ${byte}u" : "${byte}u", { "byte", (uint8_t)table[i], NULL });
    QSF_WGSL_PUT(t,
        ");\n"
        "var<workgroup> table: array<u32, ${n}>;\n"
        "fn prepare(lid: u32) {\n"
        "  for (var i = lid; i < ${n}u; i += ${threads}u) { table[i] = TABLE[i]; }\n"
        "  workgroupBarrier();\n"
        "}\n"
        "fn look_up(c: u32) -> u32 {\n"
        "  return table[c & 255u] | (table[(c >> 8u) & 255u] << 8u) | (table[(c >> 16u) & 255u] << 16u)\n"
        "    | (table[c >> 24u] << 24u);\n"
        "}\n"
        "fn look_up_all(c: vec4<u32>) -> vec4<u32> {\n"
        "  return vec4<u32>(look_up(c.x), look_up(c.y), look_up(c.z), look_up(c.w));\n"
        "}\n",
        { "n", n, NULL }, { "threads", threads, NULL });
}

/* The table of a form's factors and the number of its entries; NULL: codes are factors. */
static const int8_t *wgsl_table_of(qsf_form f, uint32_t *n)
{
    *n = 1u << qsf_form_bits(f);
    if (!qsf_form_trellis(f)) return qsf_form_map(f);
    *n *= 2;
    return qsf_trellis_levels[qsf_form_bits(f) - 2];
}

/* ---- codes ---- */

/* fn planes(at, h): codes of `bits` bits whose first vector has the row's word at `at`; kernels.h
 * draws the vectors. */
static void wgsl_planes(qsf_wgsl_text *t, uint32_t bits)
{
    qsf_wgsl_put(t, "fn planes(at: u32, h: u32) -> vec4<u32> {\n");
    if (bits == 8)              /* 8 vectors; one has a word of four columns */
        qsf_wgsl_put(t,
            "  let v = at + 64u * h;\n"
            "  return vec4<u32>(W[v], W[v + 16u], W[v + 32u], W[v + 48u]);\n");
    else if (bits >= 4)         /* 4 vectors; the low nibbles are eight columns' first four */
        qsf_wgsl_put(t,
            "  let v = at + 32u * h;\n"
            "  let a = W[v];\n"
            "  let b = W[v + 16u];\n"
            "  let low = vec4<u32>(a, a >> 4u, b, b >> 4u) & vec4<u32>(0x0f0f0f0fu);\n");
    else if (bits >= 2)         /* 2 vectors; a field of two bits is four of 16 columns */
        qsf_wgsl_put(t,
            "  let low = (vec4<u32>(W[at + 16u * h]) >> vec4<u32>(0u, 2u, 4u, 6u))\n"
            "    & vec4<u32>(0x03030303u);\n");
    if (bits == 2 || bits == 4) qsf_wgsl_put(t, "  return low;\n");
    if (bits == 6)              /* 2 vectors of high bits, two each */
        qsf_wgsl_put(t,
            "  let high = (vec4<u32>(W[at + 64u + 16u * h]) >> vec4<u32>(0u, 2u, 4u, 6u))\n"
            "    & vec4<u32>(0x03030303u);\n"
            "  return low | (high << vec4<u32>(4u));\n");
    if (bits == 1 || bits == 3 || bits == 5)        /* 1 vector; bit f is columns 4f to 4f + 3 */
        QSF_WGSL_PUT(t,
            "  let high = (vec4<u32>(W[at + ${vector}u] >> (4u * h)) >> vec4<u32>(0u, 1u, 2u, 3u))\n"
            "    & vec4<u32>(0x01010101u);\n", { "vector", 16 * (bits - 1), NULL });
    if (bits == 1) qsf_wgsl_put(t, "  return high;\n");
    if (bits == 3 || bits == 5)
        QSF_WGSL_PUT(t, "  return low | (high << vec4<u32>(${bits}u));\n", { "bits", bits - 1, NULL });
    qsf_wgsl_put(t, "}\n");
}

/* The place in the table of levels is 4 m + 2 P + Q: kernels.h. */
static void wgsl_trellis(qsf_wgsl_text *t, uint32_t bits)
{
    wgsl_planes(t, bits - 1);
    QSF_WGSL_PUT(t,
        "fn codes(tile: u32, b: u32, r: u32, g: u32, h: u32) -> vec4<u32> {\n"
        "  let at = tile + HEAD + GROUP * g + r;\n"
        "  let u = at + ${planes}u;\n"
        "  let d = W[u];\n"
        "  var e = 0u;                        // u of the group before; 0: this is the row's first\n"
        "  if (g > 0u) { e = W[u - GROUP]; } else if (b > 0u) { e = W[u - TILE + GROUP]; }\n"
        "  let p = d ^ ((d << 1u) | (e >> 31u)) ^ ((d << 3u) | (e >> 29u));\n"
        "  let q = (d << 2u) | (e >> 30u);\n"
        "  let f = vec4<u32>(0u, 1u, 2u, 3u) + vec4<u32>(4u * h);\n"
        "  let bits = vec4<u32>(0x01010101u);\n"
        "  let low = (((vec4<u32>(p) >> f) & bits) << vec4<u32>(1u)) | ((vec4<u32>(q) >> f) & bits);\n"
        "  return look_up_all((planes(at, h) << vec4<u32>(2u)) | low);\n"
        "}\n", { "planes", 16 * (bits - 1), NULL });
}

/* Five digits to the base 3 in a byte, as fractions of 256 from the top: five.h has their
 * places. */
static void wgsl_digits(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "const POWERS = array<u32, 5>(1u, 3u, 9u, 27u, 81u);\n"
        "fn digit(w: u32, n: u32) -> u32 {\n"
        "  let lanes = 0x00ff00ffu;\n"
        "  let even = ((w & lanes) * POWERS[n]) & lanes;\n"
        "  let odd = (((w >> 8u) & lanes) * POWERS[n]) & lanes;\n"
        "  return (((even * 3u) >> 8u) & 0x00030003u) | ((((odd * 3u) >> 8u) & 0x00030003u) << 8u);\n"
        "}\n"
        "fn codes(tile: u32, b: u32, r: u32, g: u32, h: u32) -> vec4<u32> {\n"
        "  let at = tile + HEAD + r;\n"
        "  let n = 2u * g + h;                // half groups: 10 in 8 vectors, 5 in 4, and the last\n"
        "  if (n == 15u) {\n"
        "    let w = W[at + 192u];\n"
        "    return vec4<u32>(digit(w, 0u), digit(w, 1u), digit(w, 2u), digit(w, 3u));\n"
        "  }\n"
        "  let v = at + select(128u, 64u * h, g < 5u);\n"
        "  let k = select(n - 10u, g, g < 5u);\n"
        "  return vec4<u32>(digit(W[v], k), digit(W[v + 16u], k), digit(W[v + 32u], k),\n"
        "                   digit(W[v + 48u], k));\n"
        "}\n");
}

static void wgsl_codes(qsf_wgsl_text *t, qsf_form f, uint32_t threads)
{
    uint32_t n;
    const int8_t *table = wgsl_table_of(f, &n);
    if (table) wgsl_table(t, table, n, threads);
    else qsf_wgsl_put(t, "fn prepare(lid: u32) {}\n");
    if (qsf_form_trellis(f)) {
        wgsl_trellis(t, (uint32_t)qsf_form_bits(f));
    } else if (qsf_forms[f].codes == QSF_CODES_DIGIT) {
        wgsl_digits(t);
    } else {
        const bool twice = qsf_forms[f].codes == QSF_CODES_BIT;
        wgsl_planes(t, (uint32_t)qsf_form_bits(f));
        QSF_WGSL_PUT(t,
            "fn codes(tile: u32, b: u32, r: u32, g: u32, h: u32) -> vec4<u32> {\n"
            "  let c = planes(tile + HEAD + GROUP * g + r, h);\n"
            "  return ${factor};\n"
            "}\n", { "factor", 0, table ? "look_up_all(c)" : twice ? "c << vec4<u32>(1u)" : "c" });
    }
}

/* ---- scales ---- */

/* Row r's number in a plane of 16 bits each, or of bytes, that begins at word `at`. */
static const char wgsl_plane_readers[] =
    "fn half_at(at: u32, r: u32) -> f32 {\n"
    "  let v = unpack2x16float(W[at + (r >> 1u)]);\n"
    "  return select(v.x, v.y, (r & 1u) == 1u);\n"
    "}\n"
    "fn short_at(at: u32, r: u32) -> u32 { return (W[at + (r >> 1u)] >> (16u * (r & 1u))) & 0xffffu; }\n"
    "fn byte_at(at: u32, r: u32) -> u32 { return (W[at + (r >> 2u)] >> (8u * (r & 3u))) & 0xffu; }\n";

/* fn sub(tile, r, k): scale and minimum of a super-block's sub-block, from GGUF's bytes: byte i of
 * a row is in the plane at word 4 i after the fp16 numbers. */
static void wgsl_sub(qsf_wgsl_text *t, qsf_form f)
{
    static const char q6k[] =
        "  return vec2<f32>(f32(bitcast<i32>(sub_byte(tile, r, k) << 24u) >> 24u), 0.0);\n";
    static const char q2k[] =
        "  let b = sub_byte(tile, r, k);\n"
        "  return vec2<f32>(f32(b & 15u), f32(b >> 4u));\n";
    static const char q3k[] =
        "  let low = (sub_byte(tile, r, k & 7u) >> (4u * (k >> 3u))) & 15u;\n"
        "  let high = (sub_byte(tile, r, 8u + (k & 3u)) >> (2u * (k >> 2u))) & 3u;\n"
        "  return vec2<f32>(f32(low | (high << 4u)) - 32.0, 0.0);\n";
    static const char iq4xs[] =
        "  let low = (sub_byte(tile, r, k >> 1u) >> (4u * (k & 1u))) & 15u;\n"
        "  let high = (short_at(tile + 8u, r) >> (2u * k)) & 3u;\n"
        "  return vec2<f32>(f32(low | (high << 4u)) - 32.0, 0.0);\n";
    static const char q4k[] =
        "  let b = sub_byte(tile, r, k);\n"
        "  let c = sub_byte(tile, r, k + 4u);\n"
        "  if (k < 4u) { return vec2<f32>(f32(b & 63u), f32(c & 63u)); }\n"
        "  let a = sub_byte(tile, r, k - 4u);\n"
        "  return vec2<f32>(f32((c & 15u) | ((a >> 6u) << 4u)), f32((c >> 4u) | ((b >> 6u) << 4u)));\n";
    QSF_WGSL_PUT(t,
        "fn sub_byte(tile: u32, r: u32, i: u32) -> u32 { return byte_at(tile + ${first}u + 4u * i, r); }\n"
        "fn sub(tile: u32, r: u32, k: u32) -> vec2<f32> {\n"
        "${body}"
        "}\n",
        { "first", qsf_form_has_min(f) || f == QSF_F_IQ4XS ? 16 : 8, NULL },
        { "body", 0, f == QSF_F_Q6K ? q6k : f == QSF_F_Q2K ? q2k : f == QSF_F_Q3K ? q3k
              : f == QSF_F_IQ4XS ? iq4xs : q4k });
}

/* The body of fn scales, an expression of tile, r and k. */
static const char *wgsl_scales_of(qsf_form f)
{
    switch (qsf_forms[f].scales) {
    case QSF_SCALES_F16_ZERO: return "vec2<f32>(half_at(tile, r), half_at(tile + 8u, r))";
    case QSF_SCALES_SUPER:    return "half_at(tile, r) * sub(tile, r, k)";
    case QSF_SCALES_SUPER_MIN:
        return "vec2<f32>(half_at(tile, r), -half_at(tile + 8u, r)) * sub(tile, r, k)";
    case QSF_SCALES_E8M0:       /* in two factors, of which neither is a subnormal number */
        return "vec2<f32>(exponent(byte_at(tile, r) / 2u + 63u)"
            " * exponent((byte_at(tile, r) + 1u) / 2u + 63u), 0.0)";
    case QSF_SCALES_UE4M3:
        return "vec2<f32>(ue4m3(byte_at(tile + 4u * k, r)), 0.0)";
    case QSF_SCALES_F32:
        return "vec2<f32>(bitcast<f32>(short_at(tile, r) | (short_at(tile + 8u, r) << 16u)), 0.0)";
    case QSF_SCALES_TRELLIS:
        return "vec2<f32>(select(0.0, bitcast<f32>((byte_at(tile, r) + 800u) << 20u),"
            " byte_at(tile, r) > 0u), 0.0)";
    case QSF_SCALES_TABLE:      /* sign, 4 bits of exponent, 3 of mantissa */
        return "vec2<f32>(unpack2x16float(((byte_at(tile, r) & 0x80u) << 8u)"
            " | ((byte_at(tile, r) & 0x7fu) << 7u)).x, 0.0)";
    case QSF_SCALES_F16:
        return qsf_form_negated(f) ? "vec2<f32>(-half_at(tile, r), 0.0)" : "vec2<f32>(half_at(tile, r), 0.0)";
    default:
        return "vec2<f32>(1.0, 0.0)";
    }
}

static void wgsl_scales(qsf_wgsl_text *t, qsf_form f)
{
    const uint8_t scales = qsf_forms[f].scales;
    qsf_wgsl_put(t, wgsl_plane_readers);
    if (scales == QSF_SCALES_SUPER || scales == QSF_SCALES_SUPER_MIN) wgsl_sub(t, f);
    if (scales == QSF_SCALES_E8M0)
        qsf_wgsl_put(t, "fn exponent(e: u32) -> f32 { return bitcast<f32>(e << 23u); }\n");
    if (scales == QSF_SCALES_UE4M3)     /* half of 2^(x - 7) (1 + m / 8), or of 2^-6 m / 8 */
        qsf_wgsl_put(t,
            "fn ue4m3(e: u32) -> f32 {\n"
            "  let m = f32(e & 7u);\n"
            "  let x = (e >> 3u) & 15u;\n"
            "  if (x == 0u) { return m * 0.0009765625; }\n"
            "  if (e == 0x7fu) { return 0.0; }\n"
            "  return bitcast<f32>((x + 119u) << 23u) * (1.0 + m * 0.125);\n"
            "}\n");
    QSF_WGSL_PUT(t,
        "fn scales(tile: u32, r: u32, k: u32) -> vec2<f32> {\n"
        "  return ${scales};\n"
        "}\n", { "scales", 0, wgsl_scales_of(f) });
}

/* ---- sums ---- */

static void wgsl_terms(qsf_wgsl_text *t, qsf_form f)
{
    const bool more = qsf_form_has_zero(f) || qsf_form_has_min(f);
    QSF_WGSL_PUT(t,
        "const OFFSET = ${offset}i;\n"
        "fn dot16(c: vec4<u32>, x: vec4<u32>) -> i32 {\n"
        "  return (dot4I8Packed(c.x, x.x) + dot4I8Packed(c.y, x.y))\n"
        "    + (dot4I8Packed(c.z, x.z) + dot4I8Packed(c.w, x.w));\n"
        "}\n"
        /* an integer sum and that of the activations, both exact */
        "fn term(s: vec2<f32>, sum: i32, x: i32) -> f32 {\n"
        "  return ${term};\n"
        "}\n",
        { "offset", (uint32_t)qsf_form_offset(f), NULL },
        { "term", 0, more ? "s.x * f32(sum - OFFSET * x) + s.y * f32(x)" : "s.x * f32(sum - OFFSET * x)" });
    if (qsf_wgsl_group_scales(f) == 2)
        qsf_wgsl_put(t,
            "fn terms(c: array<vec4<u32>, 2>, s: array<vec2<f32>, 2>, x: array<vec4<u32>, 2>,\n"
            "         sums: vec2<i32>) -> f32 {\n"
            "  return term(s[0], dot16(c[0], x[0]), sums.x) + term(s[1], dot16(c[1], x[1]), sums.y);\n"
            "}\n");
    else
        qsf_wgsl_put(t,
            "fn terms(c: array<vec4<u32>, 2>, s: array<vec2<f32>, 1>, x: array<vec4<u32>, 2>,\n"
            "         sums: vec2<i32>) -> f32 {\n"
            "  return term(s[0], dot16(c[0], x[0]) + dot16(c[1], x[1]), sums.x + sums.y);\n"
            "}\n");
}

void qsf_wgsl_decode(qsf_wgsl_text *t, qsf_form f, uint32_t block, uint32_t threads)
{
    assert(qsf_wgsl_has_form(f));
    QSF_WGSL_PUT(t,
        "const TILE = ${tile}u;\n"
        "const HEAD = ${head}u;\n"
        "const GROUP = ${group}u;\n"
        "const GROUPS = ${groups}u;\n",
        { "tile", (uint32_t)qsf_tile_bytes(f, block) / 4, NULL }, { "head", qsf_forms[f].head / 4u, NULL },
        { "group", qsf_forms[f].group / 4u, NULL }, { "groups", block / 32, NULL });
    wgsl_codes(t, f, threads);
    wgsl_scales(t, f);
    wgsl_terms(t, f);
}
