# SPDX-License-Identifier: Apache-2.0
# cpack gives each package with libraries scripts that call ldconfig, unless it has scripts of its own. Debian calls it by the
# trigger of debian/libgradus1/triggers, once for all packages, so these scripts are taken out again.
foreach(file IN LISTS CPACK_PACKAGE_FILES)
  if(NOT file MATCHES "/libgradus1_[^/]*[.]deb$")
    continue()
  endif()
  set(dir "${file}.d")
  file(REMOVE_RECURSE "${dir}")
  execute_process(COMMAND dpkg-deb --raw-extract "${file}" "${dir}" COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE "${dir}/DEBIAN/postinst" "${dir}/DEBIAN/postrm")
  execute_process(COMMAND dpkg-deb --root-owner-group -Zxz --build "${dir}" "${file}"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE "${dir}")
endforeach()
