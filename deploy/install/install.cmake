# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install` and cpack, for what depends on where that is to: --prefix and DESTDIR are known here.
#   GRADUS_WHAT    units, settings or python
#   GRADUS_FROM    the directory of the sources of it
#   GRADUS_WORK    a directory of the build
#   GRADUS_BINDIR, GRADUS_SYSCONFDIR   as GNUInstallDirs has them, below the prefix or absolute

cmake_policy(VERSION 3.25)
cmake_path(ABSOLUTE_PATH GRADUS_BINDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE BIN)
if(GRADUS_SYSCONFDIR STREQUAL "etc" AND CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(ETC /etc)
else()
  cmake_path(ABSOLUTE_PATH GRADUS_SYSCONFDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE ETC)
endif()

if(GRADUS_WHAT STREQUAL "units")
  file(GLOB units RELATIVE ${GRADUS_FROM} ${GRADUS_FROM}/*.service.in)
  foreach(unit ${units})
    string(REGEX REPLACE "\\.in$" "" name ${unit})
    configure_file(${GRADUS_FROM}/${unit} ${GRADUS_WORK}/${name} @ONLY)
    file(INSTALL ${GRADUS_WORK}/${name} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
  endforeach()
elseif(GRADUS_WHAT STREQUAL "settings")
  # Somebody may have changed them.
  file(GLOB files RELATIVE ${GRADUS_FROM} ${GRADUS_FROM}/*)
  foreach(name ${files})
    if(EXISTS $ENV{DESTDIR}${ETC}/default/${name})
      message(STATUS "Left as it is: $ENV{DESTDIR}${ETC}/default/${name}")
    else()
      file(INSTALL ${GRADUS_FROM}/${name} DESTINATION ${ETC}/default)
    endif()
  endforeach()
elseif(GRADUS_WHAT STREQUAL "python")
  # Where Debian's python3 looks: below /usr/local in a directory of its version.
  set(python lib/python3)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr/local")
    execute_process(COMMAND /usr/bin/python3 -c "import sys; print('lib/python%d.%d' % sys.version_info[:2])"
      OUTPUT_VARIABLE versioned OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed EQUAL 0)
      set(python ${versioned})
    endif()
  endif()
  file(INSTALL ${GRADUS_FROM}/ DESTINATION ${CMAKE_INSTALL_PREFIX}/${python}/dist-packages/gradus
    REGEX "__pycache__" EXCLUDE)
endif()
