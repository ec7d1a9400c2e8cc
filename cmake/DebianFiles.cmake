# What Debian's policy asks for besides the programs: copyright and changelog, compressed pages.
# CPack runs it before it packs.
# SPDX-License-Identifier: MIT
#
# QSF_DEB_LICENCES: a file with the licences of the libraries inside, if there are any.
set(usr "${CPACK_TEMPORARY_DIRECTORY}/usr")
if(NOT EXISTS "${usr}/bin")
    file(GLOB usr "${CPACK_TEMPORARY_DIRECTORY}/*/usr")
endif()
set(about "${usr}/share/doc/qsf")
file(READ "${CPACK_QSF_SOURCE}/LICENSE" text)
if(QSF_DEB_LICENCES)
    file(READ "${QSF_DEB_LICENCES}" more)
    string(APPEND text "\nThe programs contain these libraries:\n\n${more}")
endif()
file(WRITE "${about}/copyright" "${text}")
file(COPY "${CPACK_QSF_SOURCE}/CHANGELOG.md" DESTINATION "${about}")
file(RENAME "${about}/CHANGELOG.md" "${about}/NEWS")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)        # of SOURCE_DATE_EPOCH
file(WRITE "${about}/changelog" "qsf (${CPACK_PACKAGE_VERSION}) stable; urgency=medium\n\n"
    "  * Version ${CPACK_PACKAGE_VERSION}; NEWS.gz lists the changes.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
if(CPACK_QSF_STATIC)
    file(WRITE "${usr}/share/lintian/overrides/qsf"
        "# One package for every release of Debian and Ubuntu.\nqsf: statically-linked-binary\n"
        "# As the sources of the libraries are compiled in.\nqsf: embedded-library\n")
endif()
file(GLOB pages "${usr}/share/man/man1/*.1")
execute_process(COMMAND gzip -9nf ${pages} "${about}/changelog" "${about}/NEWS" RESULT_VARIABLE wrong)
if(wrong)
    message(FATAL_ERROR "gzip: ${wrong}")
endif()
file(GLOB_RECURSE files LIST_DIRECTORIES ON "${usr}/*")
foreach(file IN LISTS files ITEMS "${usr}")
    set(mode OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    if(IS_DIRECTORY "${file}" OR file MATCHES "/bin/")
        list(APPEND mode OWNER_EXECUTE GROUP_EXECUTE WORLD_EXECUTE)
    endif()
    file(CHMOD "${file}" PERMISSIONS ${mode})
endforeach()
