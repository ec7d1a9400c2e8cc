/* The processor's time of this process in milliseconds: what a call costs, whatever else runs.
 * SPDX-License-Identifier: MIT */
export function spent() {
  const {user, system} = process.cpuUsage();
  return (user + system) / 1000;
}
