#!/usr/bin/env python3
"""The table in docs/tools.md is what the library finds in templates.
SPDX-License-Identifier: MIT

    tools_table_test.py TOOLS_TEST
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
command = [sys.executable, ROOT / "tools" / "make_tools.py", sys.argv[1], "--check"]
sys.exit(subprocess.run(command).returncode)
