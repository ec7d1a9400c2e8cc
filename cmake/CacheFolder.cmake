# qsf_cache: the folder of downloads, as tools/setup.sh has it.
# SPDX-License-Identifier: MIT
if(DEFINED ENV{QSF_CACHE})
    set(qsf_cache "$ENV{QSF_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(qsf_cache "$ENV{XDG_CACHE_HOME}/qsf")
else()
    set(qsf_cache "$ENV{HOME}/.cache/qsf")
endif()
