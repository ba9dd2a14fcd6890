# `find_package(memest)` from another project, ctest label `install`: installs into the build folder and builds tests/consumer
# against it.
set(prefix ${PROJECT_BINARY_DIR}/installed)
add_test(NAME install.prefix COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
add_test(
  NAME install.consumer
  COMMAND
    ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR}/tests/consumer ${PROJECT_BINARY_DIR}/consumer
    --build-generator ${CMAKE_GENERATOR} --build-options -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} --test-command consumer
)
set_tests_properties(install.prefix PROPERTIES FIXTURES_SETUP installed)
set_tests_properties(install.consumer PROPERTIES FIXTURES_REQUIRED installed)
set_tests_properties(install.prefix install.consumer PROPERTIES LABELS install)
