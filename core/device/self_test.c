/* The self-test of a device: its cases run and are compared.
 * SPDX-License-Identifier: MIT */
#include "device/self_test_own.h"

/* ---- life ---- */

static qsf_status self_variables(qsf_self_test *t, qsf_error *err);

qsf_status qsf_self_test_new(const qsf_platform *p, qsf_pipelines *pipelines, const qsf_kernels *k,
                             qsf_self_test **out, qsf_error *err)
{
    *out = NULL;
    qsf_self_test *t = qsf_alloc(p, sizeof *t, "the GPU's test", err);
    if (!t) return QSF_E_MEMORY;
    t->platform = p;
    t->pipelines = pipelines;
    t->k = k;
    const qsf_status st = self_variables(t, err);
    if (st) qsf_self_test_free(t);
    else *out = t;
    return st;
}

/* Pipelines are the caller's. */
static void self_case_done(qsf_self_test *t, self_case *c)
{
    const qsf_device *d = t->pipelines->d;
    d->release(d->user, c->read);
    for (uint32_t i = 0; i < c->n_steps; i++) d->release(d->user, c->steps[i].group);
    for (uint32_t i = 0; i < c->n_buffers; i++) d->release(d->user, c->buffers[i]);
    qsf_dealloc(t->platform, c->want, (uint64_t)c->n * sizeof *c->want);
    qsf_dealloc(t->platform, c->got, (uint64_t)c->n_got * sizeof *c->got);
    c->n_steps = c->n_buffers = c->read = 0;
    c->want = c->got = NULL;
}

void qsf_self_test_free(qsf_self_test *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->n; i++) self_case_done(t, &t->cases[i]);
    qsf_dealloc(t->platform, t, sizeof *t);
}

/* ---- building ---- */

void qsf_self_begin(self_build *b, qsf_self_test *t, const char *name, qsf_error *err)
{
    *b = (self_build){ .t = t, .err = err };
    if (t->n == SELF_CASES) {
        b->st = qsf_fail(err, QSF_E_UNSUPPORTED, "the model needs too many shaders");
        return;
    }
    b->c = &t->cases[t->n];
    *b->c = (self_case){ .n = 0 };
    qsf_format(b->c->name, sizeof b->c->name, "%s", name);
    qsf_self_text(b);
}

void qsf_self_text(self_build *b) { if (!b->st) qsf_pipeline_begin(b->t->pipelines, &b->text); }

qsf_device_id qsf_self_pipeline(self_build *b)
{
    qsf_device_id id = 0;
    if (!b->st) b->st = qsf_pipeline_end(b->t->pipelines, &b->text, b->c->name, &id, b->err);
    return id;
}

bool qsf_self_is_new(self_build *b, qsf_device_id *pipeline)
{
    *pipeline = qsf_self_pipeline(b);
    for (uint32_t i = 0; i < b->t->n; i++)
        if (b->t->cases[i].of == *pipeline) return false;
    if (!b->st) b->c->of = *pipeline;
    return !b->st;
}

qsf_device_range qsf_self_buffer(self_build *b, uint32_t usage, const void *from, uint64_t bytes)
{
    const qsf_device *d = b->t->pipelines->d;
    qsf_device_range r = { 0, 0, qsf_round_up(bytes, 16) };
    if (b->st) return r;
    assert(b->c->n_buffers < SELF_BUFFERS && bytes % 4 == 0);
    if ((b->st = d->buffer_new(d->user, usage, r.len, &r.buffer, b->err))) return r;
    b->c->buffers[b->c->n_buffers++] = r.buffer;
    if (from) b->st = d->write(d->user, r.buffer, 0, from, (size_t)bytes, b->err);
    return r;
}

void qsf_self_step(self_build *b, qsf_device_id pipeline, const qsf_device_range *ranges, uint32_t n,
                   uint32_t x, uint32_t y, uint32_t z)
{
    const qsf_device *d = b->t->pipelines->d;
    if (b->st) return;
    assert(b->c->n_steps < SELF_STEPS);
    qsf_device_dispatch *s = &b->c->steps[b->c->n_steps];
    *s = (qsf_device_dispatch){ pipeline, 0, x, y, z };
    if (!(b->st = d->group_new(d->user, pipeline, ranges, n, &s->group, b->err))) b->c->n_steps++;
}

void *qsf_self_room(self_build *b, uint64_t bytes)
{
    if (b->st) return NULL;
    void *room = qsf_alloc(b->t->platform, bytes, "the GPU's test", b->err);
    if (!room) b->st = QSF_E_MEMORY;
    return room;
}

void qsf_self_room_free(self_build *b, void *room, uint64_t bytes)
{
    if (room) qsf_dealloc(b->t->platform, room, bytes);
}

static void self_expect(self_build *b, qsf_device_id out, self_check check, float tolerance, const void *want,
                        uint32_t n, uint32_t n_got)
{
    self_case *c = b->c;
    if (b->st) return;
    c->out = out;
    c->check = check;
    c->tolerance = tolerance;
    if (!(c->want = qsf_self_room(b, (uint64_t)n * sizeof *c->want))) return;
    c->n = n;
    memcpy(c->want, want, (size_t)n * sizeof *c->want);
    if ((c->got = qsf_self_room(b, (uint64_t)n_got * sizeof *c->got))) c->n_got = n_got;
}

void qsf_self_expect(self_build *b, qsf_device_id out, self_check check, float tolerance, const void *want,
                     uint32_t n)
{
    self_expect(b, out, check, tolerance, want, n, n);
}

void qsf_self_expect_codes(self_build *b, qsf_device_id out, float tolerance, const float *want,
                           uint32_t rows, uint32_t cols, uint32_t codes_ld)
{
    self_expect(b, out, SELF_CODES, tolerance, want, rows * cols, rows * codes_ld * 4);
    if (b->st) return;
    b->c->cols = cols;
    b->c->codes_ld = codes_ld;
}

qsf_status qsf_self_end(self_build *b)
{
    if (!b->c) return b->st;
    if (b->st || !b->c->n_steps) self_case_done(b->t, b->c);
    else b->t->n++;
    return b->st;
}

/* ---- variables ---- */

/* On each pass i of three the variables count i + 1; those that kept what the pass before left
 * would count more.  Some compilers did that to variables without an initial value, so in all our
 * shaders they have one. */
static const char self_variables_wgsl[] =
    "@compute @workgroup_size(64)\n"
    "fn main(@builtin(local_invocation_index) lid: u32) {\n"
    "  for (var i = 0u; i < 3u; i++) {\n"
    "    var a = array<u32, 4>();\n"
    "    var v = vec4<u32>();\n"
    "    var s = 0u;\n"
    "    for (var k = 0u; k <= i; k++) {\n"
    "      a[k] += 1u;\n"
    "      v[k] += 1u;\n"
    "      s += 1u;\n"
    "    }\n"
    "    let at = (lid * 3u + i) * 3u;\n"
    "    Y[at] = a[0] + a[1] + a[2] + a[3];\n"
    "    Y[at + 1u] = v.x + v.y + v.z + v.w;\n"
    "    Y[at + 2u] = s;\n"
    "  }\n"
    "}\n";

static qsf_status self_variables(qsf_self_test *t, qsf_error *err)
{
    self_build b;
    qsf_device_id pipeline;
    uint32_t want[64 * 9];
    for (uint32_t i = 0; i < 64 * 9; i++) want[i] = i / 3 % 3 + 1;
    qsf_self_begin(&b, t, "variables in a loop", err);
    if (b.st) return b.st;
    qsf_wgsl_bind(&b.text, QSF_WGSL_WRITE, "Y", "array<u32>");
    qsf_wgsl_put(&b.text, self_variables_wgsl);
    if (qsf_self_is_new(&b, &pipeline)) {
        const qsf_device_range y = qsf_self_buffer(&b, QSF_DEVICE_STORAGE, NULL, sizeof want);
        qsf_self_step(&b, pipeline, &y, 1, 1, 1, 1);
        qsf_self_expect(&b, y.buffer, SELF_EXACT, 0, want, QSF_ARRAY_LEN(want));
    }
    return qsf_self_end(&b);
}

/* ---- comparing ---- */

static bool self_exact(const self_case *c) { return !memcmp(c->want, c->got, (size_t)c->n * sizeof *c->got); }

/* NaN is not near to anything. */
static bool self_near(const float *want, const float *got, uint32_t n, float tolerance)
{
    float top = 0;
    bool near = true;
    for (uint32_t i = 0; i < n; i++) top = QSF_MAX(top, fabsf(want[i]));
    for (uint32_t i = 0; i < n; i++) near &= fabsf(want[i] - got[i]) <= tolerance * top;
    return near;
}

/* 64 columns of a row of codes, and their sums. */
static bool self_codes_64(const self_case *c, const uint32_t *words, const float *want, uint32_t n)
{
    float x[64];
    int32_t sums[4] = { 0 };
    const int8_t *q = (const int8_t *)(const void *)(words + 4);
    for (uint32_t i = 0; i < 64; i++) {
        x[i] = qsf_f32_from_bits(words[0]) * (float)q[i];
        sums[i / 16] += q[i];
    }
    for (uint32_t i = 0; i < 4; i++)
        if ((int16_t)(words[1 + i / 2] >> i % 2 * 16) != sums[i]) return false;
    return self_near(want, x, n, c->tolerance);
}

static bool self_codes(const self_case *c)
{
    const float *want = (const float *)(const void *)c->want;
    for (uint32_t m = 0; m < c->n / c->cols; m++)
        for (uint32_t at = 0; at < c->cols; at += 64) {
            const uint32_t *words = c->got + ((size_t)m * c->codes_ld + at / 64 * 5) * 4;
            if (!self_codes_64(c, words, want + m * c->cols + at, QSF_MIN(c->cols - at, 64u))) return false;
        }
    return true;
}

static bool self_slots(const self_case *c)
{
    bool near = true;
    for (uint32_t i = 0; i < c->n; i += 2)
        near &= c->want[i] == c->got[i] &&
            fabsf(qsf_f32_from_bits(c->want[i + 1]) - qsf_f32_from_bits(c->got[i + 1])) <= c->tolerance;
    return near;
}

static qsf_status self_compare(const qsf_self_test *t, const self_case *c, qsf_error *err)
{
    const bool right = c->check == SELF_EXACT ? self_exact(c)
        : c->check == SELF_CODES ? self_codes(c)
        : c->check == SELF_SLOTS ? self_slots(c)
        : self_near((const float *)(const void *)c->want, (const float *)(const void *)c->got, c->n,
                    c->tolerance);
    if (right) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s computes %s wrong: its driver or its hardware has a defect",
                    t->pipelines->d->info->name, c->name);
}

/* ---- running ---- */

static qsf_status self_poll(const qsf_device *d, qsf_device_id id, bool wait, qsf_error *err)
{
    return wait ? qsf_device_result(d, id, err) : d->poll(d->user, id, err);
}

static qsf_status self_compiled(const qsf_self_test *t, self_case *c, bool wait, qsf_error *err)
{
    const qsf_device *d = t->pipelines->d;
    for (uint32_t i = 0; i < c->n_steps; i++) {
        qsf_error why = { 0 };
        const qsf_status st = self_poll(d, c->steps[i].pipeline, wait, &why);
        if (st == QSF_E_UNSUPPORTED)
            return qsf_fail(err, QSF_E_CORRUPT, "%s does not compile %s: %.250s", d->info->name, c->name,
                            why.text);
        if (st) return st == QSF_PENDING ? st : qsf_fail(err, st, "%s", why.text);
    }
    for (uint32_t i = 0; i < c->n_buffers; i++) {       /* an error here: the device has no memory */
        const qsf_status st = self_poll(d, c->buffers[i], wait, err);
        if (st) return st;
    }
    qsf_status st = d->submit(d->user, c->steps, c->n_steps, err);
    if (st) return st;
    st = d->read_start(d->user, c->out, 0, c->got, (size_t)c->n_got * sizeof *c->got, &c->read, err);
    if (!st) c->stage = SELF_READS;
    return st;
}

static qsf_status self_case_run(qsf_self_test *t, self_case *c, bool wait, qsf_error *err)
{
    const qsf_device *d = t->pipelines->d;
    qsf_status st = QSF_OK;
    if (c->stage == SELF_COMPILES && (st = self_compiled(t, c, wait, err))) return st;
    if (c->stage != SELF_READS) return QSF_OK;
    if ((st = self_poll(d, c->read, wait, err)) == QSF_PENDING) return st;
    c->read = 0;
    if (st || (st = d->state(d->user, err)) || (st = self_compare(t, c, err))) return st;
    c->stage = SELF_DONE;
    self_case_done(t, c);
    return QSF_OK;
}

qsf_status qsf_self_test_run(qsf_self_test *t, bool wait, qsf_error *err)
{
    bool pending = false;
    for (uint32_t i = 0; i < t->n && !t->failed.status; i++) {
        const qsf_status st = self_case_run(t, &t->cases[i], wait, &t->failed);
        if (st && st != QSF_PENDING) t->failed.status = st;
        pending |= st == QSF_PENDING;
    }
    if (t->failed.status) return qsf_fail(err, t->failed.status, "%s", t->failed.text);
    return pending ? QSF_PENDING : QSF_OK;
}
