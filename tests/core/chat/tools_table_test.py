#!/usr/bin/env python3
"""The table in docs/tools.md is what the library finds in templates.
SPDX-License-Identifier: MIT

    tools_table_test.py TOOLS_TEST
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
shared = pathlib.Path(os.environ.get("QSF_SHARED_DIR", ROOT.parent / "shared"))
if not any((shared / "data" / "templates").glob("*.jinja")):
    print(f"skipped: there are no templates in {shared / 'data' / 'templates'}")
    sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
command = [sys.executable, ROOT / "tools" / "make_tools.py", sys.argv[1], "--check"]
sys.exit(subprocess.run(command).returncode)
