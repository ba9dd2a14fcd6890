# `find_package(memest)` from another project: memest::core, memest::reader, memest::report and the tool memest::memest.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/memest)
get_property(installed_targets GLOBAL PROPERTY memest_installed_targets)
install(TARGETS ${installed_targets} EXPORT memestTargets)
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
