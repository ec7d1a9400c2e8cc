/* The engine's worker with such a GPU.
 * SPDX-License-Identifier: MIT */
import './passing_gpu.js';
import '/js/worker-web.js';
