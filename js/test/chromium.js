/* The browser of tests of pages.
 * SPDX-License-Identifier: MIT */
import {createRequire} from 'node:module';
import {join} from 'node:path';

const {chromium} = createRequire(join(process.env.QSF_TEST_TOOLS, 'x.js'))('playwright-core');

export const launch = (...args) => chromium.launch({
  executablePath: process.env.QSF_TEST_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', ...args]});
