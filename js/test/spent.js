/* The processor's time of this process in milliseconds: what a call costs, whatever else the machine does.
 * SPDX-License-Identifier: MIT */
export function spent() {
  const {user, system} = process.cpuUsage();
  return (user + system) / 1000;
}
