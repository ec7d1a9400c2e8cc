/* A worker's GPU in software passes for hardware: its adapter has another name.
 * SPDX-License-Identifier: MIT */
const {requestAdapter} = GPU.prototype;
GPU.prototype.requestAdapter = async function(options) {
  const adapter = await requestAdapter.call(this, options);
  return adapter && {info: {vendor: 'none', architecture: '', device: '', description: 'a card'},
    limits: adapter.limits, requestDevice: wishes => adapter.requestDevice(wishes)};
};
