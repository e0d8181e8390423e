# SPDX-License-Identifier: Apache-2.0
# Debian packages: `cpack -G DEB` in a directory of the build.
set(GRADUS_MAINTAINER "Gradus maintainers <maintainers@gradus.invalid>" CACHE STRING "Maintainer of the packages: NAME <ADDRESS>")
set(GRADUS_REVISION 1 CACHE STRING "Revision of the packages of this version")

# gradus_package(NAME SYNOPSIS DESCRIPTION COMPONENTS...): one package, of components and of its own files for Debian, with
# the maintainer's scripts of debian/NAME.
set(CPACK_COMPONENTS_ALL)
function(gradus_package name synopsis description)
  string(TOUPPER ${name} upper)
  set(doc ${CMAKE_CURRENT_BINARY_DIR}/debian/${name})
  file(MAKE_DIRECTORY ${doc})
  add_custom_command(OUTPUT ${doc}/changelog.gz COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/page ${doc}/changelog.gz
    cat ${PROJECT_SOURCE_DIR}/CHANGELOG.md DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md VERBATIM)
  add_custom_command(OUTPUT ${doc}/changelog.Debian.gz COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/page ${doc}/changelog.Debian.gz
    ${CMAKE_CURRENT_SOURCE_DIR}/debian/changelog ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${GRADUS_REVISION} ${GRADUS_MAINTAINER}
    DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${CMAKE_CURRENT_SOURCE_DIR}/debian/changelog VERBATIM)
  add_custom_target(changelog-${name} ALL DEPENDS ${doc}/changelog.gz ${doc}/changelog.Debian.gz)
  install(FILES ${doc}/changelog.gz ${doc}/changelog.Debian.gz ${CMAKE_CURRENT_SOURCE_DIR}/debian/copyright
    DESTINATION share/doc/${name} COMPONENT debian-${name} EXCLUDE_FROM_ALL)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/debian/${name}.lintian-overrides)
    install(FILES debian/${name}.lintian-overrides DESTINATION share/lintian/overrides RENAME ${name}
      COMPONENT debian-${name} EXCLUDE_FROM_ALL)
  endif()
  file(GLOB scripts ${CMAKE_CURRENT_SOURCE_DIR}/debian/${name}/*)
  set(components ${ARGN} debian-${name})
  foreach(component ${components})
    string(TOUPPER ${component} of)
    set(CPACK_COMPONENT_${of}_GROUP ${name} PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${components} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_FILE_NAME DEB-DEFAULT PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${synopsis}\n${description}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${scripts} PARENT_SCOPE)
endfunction()

set(cluster "parameter-server training cluster")
set(about "Gradus trains models on a cluster of parameter servers and workers:
synchronous training with the same bits for any number of them, asynchronous
training with bounded staleness, checkpoints, and recovery from the loss of
any process.
.")
gradus_package(gradus "${cluster} - client and documents"
  "${about}
This package has the command gradus, which submits jobs and looks at them,
and trains on this machine alone where gradus-server is installed, too." client)
gradus_package(gradus-server "${cluster} - master, servers and workers"
  "${about}
This package has the programs that a cluster is made of, gradus-master,
gradus-ps and gradus-worker, and gradus-serve, which answers requests with a
trained model. None of them is started by itself: enable the units that this
host is to run." server)
gradus_package(libgradus1 "${cluster} - libraries"
  "${about}
This package has the libraries that worker programs and clients of other
people are linked with." lib)
gradus_package(libgradus-dev "${cluster} - headers"
  "${about}
This package has what worker programs, clients, update rules and plug-ins in
C are built with." dev)
gradus_package(python3-gradus "${cluster} - Python package"
  "${about}
This package has the Python module gradus: models of your own, with PyTorch
or NumPy, and a client of clusters." python)

set(CPACK_DEBIAN_GRADUS_PACKAGE_RECOMMENDS "gradus-server (= ${PROJECT_VERSION}-${GRADUS_REVISION})")
set(CPACK_DEBIAN_GRADUS_PACKAGE_SUGGESTS python3-gradus)
set(CPACK_DEBIAN_GRADUS-SERVER_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_GRADUS-SERVER_PACKAGE_RECOMMENDS gradus)
set(CPACK_DEBIAN_LIBGRADUS-DEV_PACKAGE_DEPENDS "libgradus1 (= ${PROJECT_VERSION}-${GRADUS_REVISION})")
set(CPACK_DEBIAN_LIBGRADUS-DEV_PACKAGE_SUGGESTS pkg-config)
set(CPACK_DEBIAN_LIBGRADUS-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBGRADUS1_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PYTHON3-GRADUS_PACKAGE_DEPENDS
  "python3 (>= 3.9), python3-numpy, libgradus1 (= ${PROJECT_VERSION}-${GRADUS_REVISION})")
set(CPACK_DEBIAN_PYTHON3-GRADUS_PACKAGE_RECOMMENDS "gradus, gradus-server")
set(CPACK_DEBIAN_PYTHON3-GRADUS_PACKAGE_SUGGESTS python3-torch)
set(CPACK_DEBIAN_PYTHON3-GRADUS_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-GRADUS_PACKAGE_ARCHITECTURE all)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gradus)
set(CPACK_PACKAGE_CONTACT ${GRADUS_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_RELEASE ${GRADUS_REVISION})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/ldconfig_by_trigger.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# As `DESTDIR=... cmake --install --prefix /usr` does: units name /usr/bin, settings are in /etc.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
include(CPack)
