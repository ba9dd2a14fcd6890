# The fences: the rules of the house as tests, ctest label `fence`. Each is a script over a source tree; beside each runs its own
# test, a small tree that breaks the rules and must be refused.
foreach(fence IN ITEMS include_directions dependencies sizes leftovers type_names frameworks sharding words
                     parameters local_names)
  set(folder ${PROJECT_SOURCE_DIR}/tests/fences)
  add_test(NAME fence.${fence} COMMAND ${folder}/${fence}.sh ${PROJECT_SOURCE_DIR})
  add_test(NAME fence.${fence}.refuses
           COMMAND ${folder}/refuses.sh ${folder}/${fence}.sh ${folder}/bad/${fence}
  )
  set_tests_properties(fence.${fence} fence.${fence}.refuses PROPERTIES LABELS fence)
endforeach()

# memest_headers_alone(NAME TARGET header...): compiles a unit for each header that includes nothing but it, twice: a header
# brings what it needs, and guards itself.
function(memest_headers_alone name target)
  foreach(header IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER ${header} unit)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${unit}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND units ${unit})
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${units})
  target_link_libraries(${target} PRIVATE memest::core memest::reader memest::report)
  target_compile_options(${target} PRIVATE -O0)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ${target})
  set_tests_properties(${name} PROPERTIES LABELS fence RESOURCE_LOCK build_folder)
endfunction()

# memest_first_includes(OUT source...): what each source includes first.
function(memest_first_includes out)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
    if(first MATCHES "\"(.*)\"")
      list(APPEND includes ${PROJECT_SOURCE_DIR}/include/${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${out} ${includes} PARENT_SCOPE)
endfunction()

# A glob, because a header that no list names is the one that this fence is for. A header that a source includes first stands alone
# where that source is compiled, unless the build joins sources.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/memest/*.hpp)
if(NOT "$CACHE{CMAKE_UNITY_BUILD}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
  memest_first_includes(compiled_alone ${sources})
  list(REMOVE_ITEM headers ${compiled_alone})
endif()
memest_headers_alone(fence.header_alone memest_headers ${headers})
memest_headers_alone(
  fence.header_alone.refuses memest_bad_header ${PROJECT_SOURCE_DIR}/tests/fences/bad/header_alone/needs_string.hpp
)
set_tests_properties(fence.header_alone.refuses PROPERTIES WILL_FAIL TRUE)
