/* Vectors of LANES numbers in the compiler's own extension, for loops that are written once and
 * compiled for several instruction sets (convert/encode, convert/tune).
 * SPDX-License-Identifier: MIT
 *
 * No guard: each of those files defines LANES and LANE(name), a name of its set, and includes this
 * with the instruction set in force; lane_vectors_end.h takes the macros back. */
#define vf LANE(vf)
#define vi LANE(vi)

#if LANES > 1
typedef float   vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
#  define LANE_BITS(v) ((vi)(v))
#  define LANE_FLOAT(v) ((vf)(v))
#  define LANE_LESS(a, b) ((a) < (b))
#  define LANE_SAME(a, b) ((a) == (b))
#else                           /* a compiler without vectors */
typedef float   vf;
typedef int32_t vi;
#  define LANE_BITS(v) ((vi)qsf_f32_bits(v))
#  define LANE_FLOAT(v) qsf_f32_from_bits((uint32_t)(v))
#  define LANE_LESS(a, b) (-(vi)((a) < (b)))
#  define LANE_SAME(a, b) (-(vi)((a) == (b)))
#endif

static inline vf LANE(load)(const float *p) { vf v; memcpy(&v, p, sizeof v); return v; }
static inline void LANE(store)(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf LANE(all)(float x) { return x - (vf){ 0 }; }
static inline vf LANE(choose)(vi mask, vf yes, vf no)
{
    return LANE_FLOAT((mask & LANE_BITS(yes)) | (~mask & LANE_BITS(no)));
}
static inline vi LANE(choose_int)(vi mask, vi yes, vi no) { return (mask & yes) | (~mask & no); }
