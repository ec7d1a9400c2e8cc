/* SHA-256 of bytes that come in parts, which browsers compute only of a whole.
 * SPDX-License-Identifier: MIT */

/* The first 32 bits of the fractional parts of roots of the first primes: FIPS 180-4, 4.2.2 and
 * 5.3.3. */
const K = new Int32Array(64), FIRST = new Int32Array(8);
for (let n = 2, i = 0; i < 64; n++) {
  let isPrime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false;
  if (!isPrime) continue;
  const bits = root => (root - Math.floor(root)) * 2 ** 32 | 0;
  if (i < 8) FIRST[i] = bits(Math.sqrt(n));
  K[i++] = bits(Math.cbrt(n));
}

export class Sha256 {
  #state = FIRST.slice(); #words = new Int32Array(64); #rest = new Uint8Array(64); #length = 0;

  update(bytes) {
    let at = 0;
    const held = this.#length % 64;
    this.#length += bytes.length;
    if (held) {
      at = Math.min(64 - held, bytes.length);
      this.#rest.set(bytes.subarray(0, at), held);
      if (held + at < 64) return this;
      this.#block(this.#rest, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.#block(bytes, at);
    this.#rest.set(bytes.subarray(at));
    return this;
  }
  /** In hexadecimal digits; nothing may be added afterwards. */
  digest() {
    const length = this.#length, end = new Uint8Array((length % 64 < 56 ? 64 : 128) - length % 64);
    end[0] = 128;
    new DataView(end.buffer).setBigUint64(end.length - 8, BigInt(length) * 8n);
    this.update(end);
    return [...this.#state].map(n => (n >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #block(bytes, at) {
    const w = this.#words, s = this.#state;
    for (let i = 0; i < 16; i++, at += 4)
      w[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3)
        + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10) | 0;
    }
    let a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (let i = 0; i < 64; i++) {
      const t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7))
        + (g ^ e & (f ^ g)) + K[i] + w[i] | 0;
      const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (
        a | b)) | 0;
      h = g; g = f; f = e; e = d + t | 0;
      d = c; c = b; b = a; a = t + u | 0;
    }
    s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
  }
}
