/* libevent's sources want a header of this name; what they need of it is defined by the build.
 * SPDX-License-Identifier: MIT */
