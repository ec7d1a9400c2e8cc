/* Names of forms in the names of kernels, as records and receipts have them.  Released names never
 * change.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"

const char *qsf_form_name(qsf_form f)
{
    static const char *const names[QSF_N_FORMS] = {
        [QSF_F_2Z] = "2bit", [QSF_F_3Z] = "3bit", [QSF_F_4Z] = "4bit", [QSF_F_TERNARY] = "ternary",
        [QSF_F_8] = "8bit", [QSF_F_3] = "3bit_s", [QSF_F_4] = "4bit_s", [QSF_F_5] = "5bit_s",
        [QSF_F_6] = "6bit_s", [QSF_F_5Z] = "5bit", [QSF_F_IQ4] = "iq4_nl", [QSF_F_Q4K] = "q4_k",
        [QSF_F_Q5K] = "q5_k", [QSF_F_Q6K] = "q6_k", [QSF_F_Q2K] = "q2_k", [QSF_F_Q3K] = "q3_k",
        [QSF_F_IQ4XS] = "iq4_xs", [QSF_F_T2] = "ternary2", [QSF_F_T5] = "ternary5",
        [QSF_F_QK256] = "i2s_qk256", [QSF_F_2S] = "2bit_s", [QSF_F_TQ1] = "tq1_0", [QSF_F_MX4] = "mxfp4",
        [QSF_F_NV4] = "nvfp4", [QSF_F_Q1] = "q1_0", [QSF_F_8K] = "q8_k",
        [QSF_F_IQ2XXS] = "iq2_xxs", [QSF_F_IQ2XS] = "iq2_xs", [QSF_F_IQ2S] = "iq2_s",
        [QSF_F_IQ3XXS] = "iq3_xxs", [QSF_F_IQ3S] = "iq3_s", [QSF_F_IQ1S] = "iq1_s", [QSF_F_IQ1M] = "iq1_m",
        [QSF_F_TR2] = "trellis2", [QSF_F_TR3] = "trellis3", [QSF_F_TR4] = "trellis4",
        [QSF_F_TR5] = "trellis5", [QSF_F_TB4] = "table4", [QSF_F_TB3] = "table3",
    };
    return f < QSF_N_FORMS && names[f] ? names[f] : "unnamed";
}
