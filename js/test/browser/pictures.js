/* Screenshots as small files, and how much two of them differ.
 * SPDX-License-Identifier: MIT */
import {crc32, deflateSync} from 'node:zlib';

const COLOURS = 64;

/** A PNG with at most 64 colours, the most common ones. page: one that decodes the picture. */
export async function smaller(page, png) {
  const {width, height, data} = await page.evaluate(async base64 => {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'})), {width, height} = image;
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = new Uint8Array(context.getImageData(0, 0, width, height).data.buffer);
    let text = '';
    for (let at = 0; at < pixels.length; at += 32768)
      text += String.fromCharCode(...pixels.subarray(at, at + 32768));
    return {width, height, data: btoa(text)};
  }, png.toString('base64'));
  const pixels = Buffer.from(data, 'base64'), counts = new Map();
  const colourAt = i => pixels.readUIntBE(i, 3);
  for (let i = 0; i < pixels.length; i += 4) counts.set(colourAt(i), (counts.get(colourAt(i)) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, COLOURS).map(([colour]) => colour);
  const parts = colour => [colour >> 16, colour >> 8 & 255, colour & 255];
  const far = (a, b) => parts(a).reduce((sum, part, k) => sum + (part - parts(b)[k]) ** 2, 0);
  const nearest = new Map([...counts.keys()].map(colour => [colour, palette.reduce((best, one, k) =>
    (far(one, colour) < far(palette[best], colour) ? k : best), 0)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++, i += 4) rows[y * (width + 1) + 1 + x] = nearest.get(colourAt(i));
  const chunk = (type, body) => {
    const named = Buffer.concat([Buffer.from(type), body]), ends = Buffer.alloc(8);
    ends.writeUInt32BE(body.length, 0);
    ends.writeUInt32BE(crc32(named), 4);
    return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);          // 8 bits, a palette
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', head),
    chunk('PLTE', Buffer.from(palette.flatMap(parts))), chunk('IDAT', deflateSync(rows, {level: 9})),
    chunk('IEND', Buffer.alloc(0))]);
}

/** How much two pictures differ at an eighth of their size: the mean, of 255, and the part of the
 * points that differ by more than 40. */
export const differ = (page, a, b) => page.evaluate(async pictures => {
  const [one, other] = await Promise.all(pictures.map(async base64 => {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const [width, height] = [image.width >> 3, image.height >> 3];
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  }));
  if (one.width !== other.width || one.height !== other.height) return {mean: 255, part: 1};
  let sum = 0, many = 0;
  for (let i = 0; i < one.data.length; i += 4) {
    const by = [0, 1, 2].reduce((all, k) => all + Math.abs(one.data[i + k] - other.data[i + k]), 0) / 3;
    sum += by;
    many += by > 40;
  }
  return {mean: sum / (one.data.length / 4), part: many / (one.data.length / 4)};
}, [a, b].map(picture => picture.toString('base64')));
