# `find_package(memest)` from another project: memest::core, memest::reader, memest::report and the tool memest::memest.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# A static build is a program: its libraries would ask for those that it was built with.
if(MEMEST_STATIC)
  install(TARGETS memest RUNTIME COMPONENT program)
else()
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/memest)
  get_property(installed_targets GLOBAL PROPERTY memest_installed_targets)
  install(TARGETS ${installed_targets} EXPORT memestTargets RUNTIME COMPONENT program)
  install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT memestTargets NAMESPACE memest:: DESTINATION ${package_dir})

  configure_package_config_file(
    cmake/memestConfig.cmake.in ${PROJECT_BINARY_DIR}/memestConfig.cmake INSTALL_DESTINATION ${package_dir}
  )
  write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/memestConfigVersion.cmake COMPATIBILITY SameMinorVersion
  )
  install(FILES ${PROJECT_BINARY_DIR}/memestConfig.cmake ${PROJECT_BINARY_DIR}/memestConfigVersion.cmake
          DESTINATION ${package_dir}
  )
endif()

# Another machine's program cannot be run here: then its packager writes them, by `memest completions` and `memest man`.
if(NOT CMAKE_CROSSCOMPILING)
  install(
    CODE
      "set(MEMEST \"$<TARGET_FILE:memest>\")
       set(FOLDER \"${PROJECT_BINARY_DIR}/pages\")
       set(DATADIR \"${CMAKE_INSTALL_DATADIR}\")
       set(MANDIR \"${CMAKE_INSTALL_MANDIR}\")
       include(\"${PROJECT_SOURCE_DIR}/cmake/InstallPages.cmake\")"
    COMPONENT pages
  )
endif()

# A wheel: the program among the environment's, the library in the package that opens it.
if(SKBUILD)
  install(TARGETS memest RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  install(TARGETS memest_library LIBRARY DESTINATION memest COMPONENT python)
endif()

# `cpack -G DEB`: the program with its manual pages and completions. It is built with MEMEST_STATIC=ALL, so that one package serves every Debian and Ubuntu.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/memest RENAME copyright COMPONENT program)
install(FILES THIRD-PARTY-NOTICES DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/memest COMPONENT program)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the memest authors <memest@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program pages)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_NAME memest)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
