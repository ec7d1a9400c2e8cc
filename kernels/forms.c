/* Forms of tiles: which type comes in which form, the bytes of a tile, the codes of FP4.
 * SPDX-License-Identifier: MIT */
#include "forms.h"
#include "tensor/types.h"

size_t qsf_tile_bytes(qsf_form f, uint32_t block)
{
    return qsf_forms[f].head + block / 32 * (size_t)qsf_forms[f].group;
}

int qsf_form_of_type(uint32_t type)
{
    switch (type) {
    case QSF_T_2BIT_SYM:
    case QSF_T_2BIT:    return QSF_F_2Z;
    case QSF_T_3BIT:    return QSF_F_3Z;
    case QSF_T_4BIT:    return QSF_F_4Z;
    case QSF_T_TERNARY: return QSF_F_TERNARY;
    case QSF_T_8BIT:    return QSF_F_8;
    case QSF_T_3BIT_S:  return QSF_F_3;
    case QSF_T_4BIT_S:  return QSF_F_4;
    case QSF_T_5BIT_S:  return QSF_F_5;
    case QSF_T_6BIT_S:  return QSF_F_6;
    case QSF_T_TERNARY2: return QSF_F_T2;
    case QSF_T_TERNARY5: return QSF_F_T5;
    case QSF_T_QK256:   return QSF_F_QK256;
    case QSF_T_2BIT_S:  return QSF_F_2S;
    case QSF_T_TRELLIS2: return QSF_F_TR2;
    case QSF_T_TRELLIS3: return QSF_F_TR3;
    case QSF_T_TRELLIS4: return QSF_F_TR4;
    case QSF_T_TRELLIS5: return QSF_F_TR5;
    case QSF_T_TABLE4: return QSF_F_TB4;
    case QSF_T_TABLE3: return QSF_F_TB3;
    case QSF_T_Q5_1:  return QSF_F_5Z;
    case QSF_T_Q2_K: return QSF_F_Q2K;
    case QSF_T_Q3_K: return QSF_F_Q3K;
    case QSF_T_Q4_K: return QSF_F_Q4K;
    case QSF_T_Q5_K: return QSF_F_Q5K;
    case QSF_T_Q6_K: return QSF_F_Q6K;
    case QSF_T_IQ4_NL: return QSF_F_IQ4;
    case QSF_T_IQ4_XS: return QSF_F_IQ4XS;
    case QSF_T_IQ2_XXS: return QSF_F_IQ2XXS;
    case QSF_T_IQ2_XS:  return QSF_F_IQ2XS;
    case QSF_T_IQ2_S:   return QSF_F_IQ2S;
    case QSF_T_IQ3_XXS: return QSF_F_IQ3XXS;
    case QSF_T_IQ3_S:   return QSF_F_IQ3S;
    case QSF_T_IQ1_S:   return QSF_F_IQ1S;
    case QSF_T_IQ1_M:   return QSF_F_IQ1M;
    case QSF_T_TQ2_0: case QSF_T_Q2_0: return QSF_F_TERNARY;
    case QSF_T_TQ1_0: return QSF_F_TQ1;
    case QSF_T_MXFP4: return QSF_F_MX4;
    case QSF_T_NVFP4: return QSF_F_NV4;
    case QSF_T_Q1_0: return QSF_F_Q1;
    case QSF_T_Q8_K: return QSF_F_8K;
    default:            return -1;
    }
}

const int8_t qsf_fp4_codes[16] = { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0 };
