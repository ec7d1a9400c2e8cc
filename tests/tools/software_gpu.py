"""Dawn on a GPU in software, for programs that tests run.
SPDX-License-Identifier: MIT

QSF_WEBGPU_DIR: the folder of tools/get-webgpu.sh, with both.
"""
import os, sys


def environment():
    """The environment in which programs find them. Without the folder the test ends here: skipped."""
    folder = os.environ.get("QSF_WEBGPU_DIR")
    if not folder:
        print("skipped: no WebGPU library (QSF_WEBGPU_DIR)")
        sys.exit(77)
    return dict(os.environ, QSF_WEBGPU_LIB=f"{folder}/libwebgpu_dawn.so", LD_LIBRARY_PATH=folder,
                VK_DRIVER_FILES=f"{folder}/vk_swiftshader_icd.json")
