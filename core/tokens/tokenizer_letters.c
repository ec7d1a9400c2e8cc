/* GPT-2's letters, which stand for bytes in the texts of BPE tokens.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

uint32_t qsf_byte_letter(uint8_t b)
{
    if ((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) return b;
    return b < 33 ? 256u + b : b < 161 ? 256u + 33 + (b - 127u) : 256u + 67;
}

int qsf_letter_byte(uint32_t c)
{
    if (c < 256) return qsf_byte_letter((uint8_t)c) == c ? (int)c : -1;
    if (c < 256 + 33) return (int)(c - 256);
    if (c < 256 + 67) return (int)(c - 256 - 33 + 127);
    return c == 256 + 67 ? 173 : -1;
}
