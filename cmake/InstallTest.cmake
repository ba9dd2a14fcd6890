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
add_test(
  NAME install.pages
  COMMAND sh -c "cd '${prefix}/share' && grep -q 'complete -F _memest memest' bash-completion/completions/memest &&
    grep -q '^#compdef memest' zsh/site-functions/_memest && grep -q 'complete -c memest' fish/vendor_completions.d/memest.fish &&
    grep -q 'SH SYNOPSIS' man/man1/memest.1 && for command in $('$<TARGET_FILE:memest>' completions bash | sed -n \"s/^_memest_commands='\\(.*\\)'/\\1/p\");
    do grep -q 'SH OPTIONS' man/man1/memest-$command.1 || exit 1; done"
)
set_tests_properties(install.pages PROPERTIES FIXTURES_REQUIRED installed LABELS install)
