#!/bin/sh
# What the documents tell to run, run as they say it.
# SPDX-License-Identifier: MIT
#
#   docs.sh BUILD_FOLDER_OF_WASM BUILD_FOLDER_OF_NATIVE WORK_FOLDER
set -eu
exec "${QSF_PYTHON:-python3}" tests/docs/docs_commands.py . "$3" "$1" "$2"
