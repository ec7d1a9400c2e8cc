/* A GPU object that takes every call and computes nothing, for the tests of faults.
 * SPDX-License-Identifier: MIT */

const LIMITS = {
  maxBufferSize: 1 << 28, maxStorageBufferBindingSize: 1 << 27, maxStorageBuffersPerShaderStage: 8,
  minStorageBufferOffsetAlignment: 256, minUniformBufferOffsetAlignment: 256,
  maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupStorageSize: 16384, maxComputeWorkgroupsPerDimension: 65535,
};

function fakeBuffer({size}) {
  const bytes = new ArrayBuffer(size);
  return {size, destroy() {}, unmap() {}, mapAsync: async () => {},
    getMappedRange: (at = 0, length = size - at) => bytes.slice(at, at + length)};
}

function fakeDevice({device, queue, limits}) {
  const pass = {end() {}, setPipeline() {}, setBindGroup() {}, dispatchWorkgroups() {}};
  let lose;
  return {
    limits, lost: new Promise(resolve => { lose = resolve; }),
    destroy() { lose({message: 'device was destroyed'}); },
    pushErrorScope() {}, popErrorScope: async () => null,
    createBuffer: fakeBuffer,
    createShaderModule: () => ({getCompilationInfo: async () => ({messages: []})}),
    createBindGroupLayout: () => ({}), createPipelineLayout: () => ({}), createBindGroup: () => ({}),
    createComputePipelineAsync: async () => ({}),
    createCommandEncoder: () => ({beginComputePass: () => pass, copyBufferToBuffer() {}, finish: () => ({})}),
    queue: {writeBuffer() {}, submit() {}, ...queue},
    ...device,
  };
}

/** device and queue: functions in place of its own; limits: numbers. */
export function fakeGpu({device = {}, queue = {}, limits = {}} = {}) {
  const all = {...LIMITS, ...limits};
  return {requestAdapter: async () => ({info: {vendor: 'none', description: 'a fake'}, limits: all,
    requestDevice: async () => fakeDevice({device, queue, limits: all})})};
}
