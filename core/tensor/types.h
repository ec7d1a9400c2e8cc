/* Tensor types: how weights are stored, how many bytes that takes, and their plain meaning as
 * floats.
 * SPDX-License-Identifier: MIT
 *
 * A matrix is rows x cols, row = output, col = input.  Two packings:
 *   0  rows of blocks: each row is ceil(cols / block) blocks one after another
 *   1  tiles of 16 rows x one block of columns: tile[rows/16][cols/block], rows and cols padded
 *      with zeros
 * docs/format.md draws every block and tile. */
#ifndef QSF_TYPES_H
#define QSF_TYPES_H

#include "base/base.h"

/* Numbers 0-5 are the original specification's, 16-63 QSF's own, 64 + n is GGUF's type n.
 * Released numbers never change. */
typedef enum qsf_type {
    QSF_T_2BIT_SYM  = 0,    /* scale, zero, 2-bit codes: value = scale * code + zero, zero = -1.5 * scale */
    QSF_T_2BIT      = 1,    /* scale, zero, 2-bit codes */
    QSF_T_3BIT      = 2,    /* scale, zero, 3-bit codes (2-bit plane, then 1-bit plane) */
    QSF_T_4BIT      = 3,    /* scale, zero, 4-bit codes */
    QSF_T_TERNARY   = 4,    /* scale, sign bits, zero mask: scale * {-1, 0, 1} */
    QSF_T_MIXED     = 5,    /* only as a file's default: see each tensor */
    QSF_T_F16       = 16,
    QSF_T_F32       = 17,
    QSF_T_8BIT      = 18,   /* scale, int8: value = scale * code */
    QSF_T_4BIT_S    = 19,   /* scale, 4-bit codes: value = scale * (code - 8) */
    QSF_T_5BIT_S    = 20,   /* scale, 4-bit plane, 1-bit plane: value = scale * (code - 16) */
    QSF_T_6BIT_S    = 21,   /* scale, 4-bit plane, 2-bit plane: value = scale * (code - 32) */
    QSF_T_3BIT_S    = 22,   /* scale, 3-bit codes: value = scale * (code - 4) */
    QSF_T_BF16      = 23,
    /* outliers of another tensor: rows as its, cols = number of entries n; u32 row_start[rows + 1],
     * u32 col[n], fp16 delta[n], zeros to a multiple of 4 bytes; block 1, packing 0 */
    QSF_T_SPARSE    = 24,
    /* without scales in the blocks (256 columns): the tensor may have one, of kind QSF_K_SCALE */
    QSF_T_TERNARY2  = 25,   /* 2-bit codes: value = code - 1 */
    /* five digits of 3 in a byte, 52 bytes a block: value = digit - 1; TQ1_0 without its scale */
    QSF_T_TERNARY5  = 26,
    QSF_T_QK256     = 27,   /* 2-bit codes: values -2, -1, 1, 2 */
    QSF_T_2BIT_S    = 28,   /* scale, 2-bit codes: value = scale * (code - 2) */
    /* codes of 2 to 5 bits whose levels depend on the codes before; tiles only: trellis.h */
    QSF_T_TRELLIS2 = 32, QSF_T_TRELLIS3, QSF_T_TRELLIS4, QSF_T_TRELLIS5,
    /* an 8-bit scale, codes that are places in a table of levels: table.h */
    QSF_T_TABLE4 = 36, QSF_T_TABLE3,
    /* GGUF's types of blocks; in memory also with packing 1, see core/tensor/ggml_tiles.h */
    QSF_T_GGML      = 64,
    QSF_T_Q4_0 = QSF_T_GGML + 2, QSF_T_Q4_1, QSF_T_Q5_0 = QSF_T_GGML + 6, QSF_T_Q5_1, QSF_T_Q8_0,
    QSF_T_Q2_K = QSF_T_GGML + 10, QSF_T_Q3_K, QSF_T_Q4_K, QSF_T_Q5_K, QSF_T_Q6_K,
    QSF_T_Q8_K,
    QSF_T_IQ2_XXS = QSF_T_GGML + 16, QSF_T_IQ2_XS, QSF_T_IQ3_XXS, QSF_T_IQ1_S, QSF_T_IQ4_NL, QSF_T_IQ3_S,
    QSF_T_IQ2_S, QSF_T_IQ4_XS, QSF_T_IQ1_M = QSF_T_GGML + 29,
    QSF_T_TQ1_0 = QSF_T_GGML + 34, QSF_T_TQ2_0,
    QSF_T_MXFP4 = QSF_T_GGML + 39, QSF_T_NVFP4, QSF_T_Q1_0, QSF_T_Q2_0,
    QSF_T_GGML_END
} qsf_type;

/* What a tensor is for.  Numbers 0-13 are the original specification's. */
typedef enum qsf_kind {
    QSF_K_ATTN_Q = 0, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT,
    QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN,
    QSF_K_ATTN_NORM, QSF_K_FFN_NORM,
    QSF_K_ATTN_Q_BIAS, QSF_K_ATTN_K_BIAS, QSF_K_ATTN_V_BIAS, QSF_K_ATTN_OUT_BIAS,
    QSF_K_FFN_UP_BIAS = 13,          /* "FFN biases": the up projection's */
    QSF_K_FFN_DOWN_BIAS = 16, QSF_K_FFN_GATE_BIAS,
    QSF_K_ATTN_NORM_BIAS, QSF_K_FFN_NORM_BIAS,
    QSF_K_Q_NORM, QSF_K_K_NORM,
    QSF_K_ATTN_POST_NORM, QSF_K_FFN_POST_NORM,
    QSF_K_ATTN_SUB_NORM, QSF_K_FFN_SUB_NORM,
    /* outside the layers */
    QSF_K_TOKEN_EMBD = 32, QSF_K_POS_EMBD, QSF_K_OUTPUT_NORM, QSF_K_OUTPUT_NORM_BIAS, QSF_K_OUTPUT,
    QSF_K_OUTPUT_BIAS, QSF_K_TOKEN_NORM, QSF_K_TOKEN_NORM_BIAS,
    /* of layers with experts: matrices and biases of all experts, one below the other */
    QSF_K_ROUTER = 40, QSF_K_ROUTER_BIAS, QSF_K_ROUTER_CHOICE,
    QSF_K_EXPERT_GATE, QSF_K_EXPERT_UP, QSF_K_EXPERT_DOWN,
    QSF_K_EXPERT_GATE_BIAS, QSF_K_EXPERT_UP_BIAS, QSF_K_EXPERT_DOWN_BIAS,
    QSF_K_SHARED_ROUTER, QSF_K_ATTN_SINKS,
    /* of latent attention: what narrows to latents, and widens them to queries, keys and values */
    QSF_K_Q_A = 51, QSF_K_Q_B, QSF_K_KV_A, QSF_K_KEY_UP, QSF_K_VALUE_UP, QSF_K_KV_B,
    QSF_K_Q_A_NORM, QSF_K_KV_A_NORM,
    /* of mixers with state: what widens and narrows them, their convolution, decays and norm */
    QSF_K_MIX_IN = 60, QSF_K_MIX_CONV, QSF_K_MIX_OUT,
    QSF_K_MIX_CONV_BIAS = 64, QSF_K_MIX_STEP_BIAS, QSF_K_MIX_DECAY, QSF_K_MIX_SKIP, QSF_K_MIX_NORM,
    QSF_K_MIX_GATE, QSF_K_MIX_BETA, QSF_K_MIX_ALPHA,
    /* experts in parallel with shared ones: the norms of the router's input and before the experts,
     * the norms after the shared ones and after the experts, and the factor of an expert's weight;
     * then the matrices between the stream and experts of another width */
    QSF_K_ROUTER_NORM = 72, QSF_K_EXPERT_NORM, QSF_K_SHARED_POST_NORM, QSF_K_EXPERT_POST_NORM,
    QSF_K_EXPERT_WEIGHT, QSF_K_EXPERTS_IN, QSF_K_EXPERTS_OUT,
    /* of RWKV-7: shares of the row before; keys and values; pairs of matrices, which narrow and
     * widen, of the rate, of the first layer's values and of the gate; of keys, what is taken out
     * by and how far the rate goes; biases of its norm; a share for the feed-forward */
    QSF_K_MIX_LERP = 79, QSF_K_MIX_KEY, QSF_K_MIX_VALUE,
    QSF_K_MIX_RATE_IN, QSF_K_MIX_RATE_OUT, QSF_K_MIX_RATE_BIAS,
    QSF_K_MIX_FIRST_IN, QSF_K_MIX_FIRST_OUT, QSF_K_MIX_FIRST_BIAS, QSF_K_MIX_GATE_IN, QSF_K_MIX_GATE_OUT,
    /* encoders: the row of a token's type, biases of norms, and what a pooled text goes through */
    QSF_K_TOKEN_TYPES = 90, QSF_K_ATTN_POST_NORM_BIAS, QSF_K_FFN_POST_NORM_BIAS,
    QSF_K_Q_NORM_BIAS, QSF_K_K_NORM_BIAS,
    QSF_K_CLS, QSF_K_CLS_BIAS, QSF_K_CLS_NORM, QSF_K_CLS_OUT, QSF_K_CLS_OUT_BIAS,
    QSF_K_DENSE_2, QSF_K_DENSE_3,
    /* of RWKV-7 again */
    QSF_K_MIX_KEY_OUT = 102, QSF_K_MIX_KEY_RATE, QSF_K_MIX_NORM_BIAS, QSF_K_FFN_LERP,
    /* a norm of the sum of the stream before a layer and of the first norm of sums */
    QSF_K_ATTN_NORM_2 = 106, QSF_K_ATTN_NORM_2_BIAS,
    /* of PLaMo 2: norms of what gives steps, of writing and of reading */
    QSF_K_MIX_STEP_NORM = 108, QSF_K_MIX_WRITE_NORM, QSF_K_MIX_READ_NORM,
    /* of Mamba-1: what gives steps, writing and reading, and what widens the steps */
    QSF_K_MIX_X = 126, QSF_K_MIX_STEP,
    /* per-layer embeddings: the table, whose rows have a token's input for all layers; then of a
     * layer: its part of the matrix that projects the token's embedding to such a row, and the norm
     * after it; the matrix of the gate, which is computed from the stream; the matrix back to the
     * stream, and its norm; and the layer's factor */
    QSF_K_LAYER_TABLE = 150, QSF_K_LAYER_EMBD, QSF_K_LAYER_EMBD_NORM, QSF_K_LAYER_GATE, QSF_K_LAYER_OUT,
    QSF_K_LAYER_POST_NORM, QSF_K_LAYER_SCALE,
    /* of a row's streams: the first layer's matrices that make them, the last one's that bring them
     * back; of each layer what coefficients are made of; the way around attention */
    QSF_K_ALTUP_PROJ, QSF_K_ALTUP_BACK_1, QSF_K_ALTUP_BACK_2, QSF_K_ALTUP_BACK_3,
    QSF_K_ALTUP_ROUTER, QSF_K_ALTUP_ROUTER_NORM, QSF_K_ALTUP_PREDICT, QSF_K_ALTUP_CORRECT,
    QSF_K_ALTUP_SCALE, QSF_K_LAUREL_L, QSF_K_LAUREL_R, QSF_K_LAUREL_POST_NORM,
    /* of a layer for multi-token prediction: norms of the token's embedding and of the hidden state
     * before it, the matrix that joins both, and the norm before its head */
    QSF_K_MTP_EMBD_NORM, QSF_K_MTP_STATE_NORM, QSF_K_MTP_PROJ, QSF_K_MTP_NORM,
    /* of an EAGLE 3 head, whose MTP_PROJ makes states of features: the norm of these */
    QSF_K_FEATURES_NORM,
    QSF_N_KINDS,
    QSF_K_OUTLIERS = 0x100,          /* + the kind whose outliers these are */
    QSF_K_SCALE    = 0x200,          /* + the kind that this number (f32, 1 x 1) multiplies */
    QSF_K_PAD = 0xffff               /* filler between tensors, so that data begins at a multiple of 64 */
} qsf_kind;

/* Whether a matrix has all experts of a layer, one below the other. */
static inline bool qsf_kind_is_experts(uint32_t kind)
{
    return kind >= QSF_K_EXPERT_GATE && kind <= QSF_K_EXPERT_DOWN;
}

enum { QSF_TILE_ROWS = 16, QSF_MAX_BLOCK = 256, QSF_MAX_BLOCK_BYTES = 292, QSF_FIVE_BYTES = 52 };

/* What codes of QK256 stand for, with its offset of 2 added; a shuffle's 16 places. */
extern const int8_t qsf_qk256[16];

typedef struct qsf_tensor {
    uint32_t    kind;
    uint8_t     type;        /* qsf_type */
    uint8_t     packing;     /* 0 or 1; in memory also a qsf_stored */
    /* columns a block: 32, 64, 128, 256 for QSF types; GGUF types have their own; 1 for floats */
    uint16_t    block;
    uint32_t    rows, cols;  /* a vector has rows = 1 */
    uint64_t    bytes;       /* qsf_tensor_bytes of the above */
    const void *data;        /* NULL until the tensor is in memory */
} qsf_tensor;

typedef struct qsf_type_info {
    const char *name;        /* "4bit", "q4_K" */
    uint8_t     bits;        /* of a code; 0 for floats and GGUF types */
    bool        has_zero;    /* a second fp16 in each block */
    uint8_t     own_block;   /* not 0: log2 of the only block size (GGUF); 0: block is a parameter */
    uint16_t    own_bytes;   /* bytes of such a block; for floats, of one value */
    int         offset;      /* of a symmetric type's codes */
} qsf_type_info;

/* NULL: no such type. */
const qsf_type_info *qsf_type_get(uint32_t type);
/* Whether codes can be tiled: QSF's quantised types 0-4, 18-22, 25-28, 36, 37; only so: 32-35. */
bool qsf_type_tiles(uint32_t type);
/* Bytes of a block's scale: 2; 0 without one, 1 of trellises and tables. */
uint32_t qsf_type_scale_bytes(uint32_t type);
/* Bytes of a block before its codes. */
uint32_t qsf_type_head_bytes(uint32_t type);
/* Whether blocks have no scale: TERNARY2, TERNARY5 and QK256, with blocks of 256 only. */
bool qsf_type_bare(uint32_t type);
/* Bytes of one block of one row; a tile takes 16 times that.
 * 0: type and block do not go together. */
uint32_t qsf_block_bytes(uint32_t type, uint32_t block);
/* QSF_E_UNSUPPORTED: unknown type, block or packing; QSF_E_CORRUPT: the size overflows or a GGUF
 * row is not a whole number of blocks. */
qsf_status qsf_tensor_bytes(uint32_t type, uint32_t packing, uint32_t block, uint32_t rows, uint32_t cols,
                            uint64_t *bytes, qsf_error *err);

/* Rows [row, row+n) as floats, out[n][cols].  The plain meaning of every type:
 * everything fast is checked against it. */
void qsf_dequant_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out);

/* Permutes a packing 0 tensor of a tiling type into packing 1 (dst has qsf_tensor_bytes of it). */
void qsf_pack_tiles(const qsf_tensor *rows, void *dst);
/* Writes row r of one tile of a type without zeros, which was all zero bytes before: its scale
 * (rounded to what its bytes can represent; bare types do not store it) and codes[block]. */
void qsf_tile_put_row(void *tile, uint32_t type, uint32_t block, uint32_t r, float scale,
                      const uint8_t *codes);
/* Writes only the codes of row r of a tile of any type: codes[block]. */
void qsf_tile_put_codes(void *tile, uint32_t type, uint32_t block, uint32_t r, const uint8_t *codes);
void qsf_tile_get_codes(const void *tile, uint32_t type, uint32_t block, uint32_t r, uint8_t *codes);
/* The codes of a packing 0 block: codes[block]. */
void qsf_block_get_codes(const void *from, uint32_t type, uint32_t block, uint8_t *codes);
/* Writes the codes (after the scale) of a packing 0 block of types 25 to 28. */
void qsf_block_put_codes(void *to, uint32_t type, uint32_t block, const uint8_t *codes);

#endif
