/* Icons, as lines in a square of 24.
 * SPDX-License-Identifier: MIT */

const SVG = 'http://www.w3.org/2000/svg';
const PATHS = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  settings: 'M4 8h10m4 0h2M4 16h2m4 0h10M14 8a2 2 0 1 0 4 0 2 2 0 1 0-4 0M6 16a2 2 0 1 0 4 0 2 2 0 1 0-4 0',
  hood: 'M4 20V10M10 20V4M16 20v-7M22 20H2',
  models: 'M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  again: 'M20 12a8 8 0 1 1-2.5-5.8M20 3v5h-5',
  edit: 'M4 20l1-4L16 5l3 3L8 19z',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  left: 'M15 6l-6 6 6 6',
  right: 'M9 6l6 6-6 6',
  close: 'M6 6l12 12M18 6L6 18',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  tools: 'M5 4h14v16H5zM9 8h6M9 12h.01M12 12h.01M15 12h.01M9 16h.01M12 16h.01M15 16h.01',
  form: 'M5 4h14v16H5zM9 9h6M9 13h6',
  mic: 'M9 6a3 3 0 0 1 6 0v6a3 3 0 0 1-6 0zM5 12a7 7 0 0 0 14 0M12 19v3',
  sound: 'M4 9v6h4l5 4V5L8 9zM16 9a4 4 0 0 1 0 6M19 6a8 8 0 0 1 0 12',
};

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg'), line = document.createElementNS(SVG, 'path');
  for (const [key, value] of Object.entries({viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true'}))
    svg.setAttribute(key, value);
  line.setAttribute('d', PATHS[name]);
  svg.append(line);
  return svg;
}
/** Draws the icons that a document names. */
export function drawIcons(root) {
  for (const node of root.querySelectorAll('[data-icon]')) node.prepend(icon(node.dataset.icon));
}
