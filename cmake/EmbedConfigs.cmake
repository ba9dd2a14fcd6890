# memest_embed_configs(OUTPUT): a C++ source that holds every file under configs/ and its tree, so that the tool needs no data
# folder beside it and parses nothing of its own when it runs. A program writes it that has the library's own parser. The files are
# found by a glob, unlike sources: a catalog grows by dropping a file in, and CONFIGURE_DEPENDS makes the next build see it.
function(memest_embed_configs output)
  file(
    GLOB_RECURSE configs CONFIGURE_DEPENDS
    RELATIVE ${PROJECT_SOURCE_DIR}/configs
    ${PROJECT_SOURCE_DIR}/configs/*.yaml ${PROJECT_SOURCE_DIR}/configs/*.json
  )
  list(SORT configs)
  list(TRANSFORM configs PREPEND ${PROJECT_SOURCE_DIR}/configs/ OUTPUT_VARIABLE config_paths)
  string(REPLACE ";" "\n" config_list "${configs}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/configs.txt CONTENT "${config_list}\n")

  set(reader ${PROJECT_SOURCE_DIR}/src/reader/text)
  add_executable(
    memest_embed ${PROJECT_SOURCE_DIR}/cmake/embed_configs.cpp ${reader}/json.cpp ${reader}/text.cpp ${reader}/value.cpp
                 ${reader}/yaml.cpp
  )
  target_compile_features(memest_embed PRIVATE cxx_std_20)
  target_include_directories(memest_embed PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(memest_embed PRIVATE memest::diag memest::units yaml-cpp::yaml-cpp memest_warnings)
  set_target_properties(memest_embed PROPERTIES CXX_EXTENSIONS OFF)

  add_custom_command(
    OUTPUT ${output}
    COMMAND $<TARGET_FILE:memest_embed> ${PROJECT_SOURCE_DIR}/configs ${PROJECT_BINARY_DIR}/configs.txt ${output}
    DEPENDS ${config_paths} ${PROJECT_BINARY_DIR}/configs.txt memest_embed
    COMMENT "Embedding configs/"
    VERBATIM
  )
endfunction()

# memest_embed_text(FILE NAME OUTPUT): a C++ source in which memest::NAME() is the text of FILE, byte for byte.
function(memest_embed_text file name output)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(
    CONFIGURE
    OUTPUT ${output}
    CONTENT
      "#include \"reader/text/embedded_texts.hpp\"\n\nstd::string_view memest::@name@() {\n  return R\"memest(@text@)memest\";\n}\n"
    @ONLY
  )
endfunction()
