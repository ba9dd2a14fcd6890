# memest_embed_configs(OUTPUT): a C++ source that holds every file under configs/, so that the tool needs no data folder beside
# it. The files are found by a glob, unlike sources: a catalog grows by dropping a file in, and CONFIGURE_DEPENDS makes the next
# build see it.
function(memest_embed_configs output)
  file(
    GLOB_RECURSE configs CONFIGURE_DEPENDS
    RELATIVE ${PROJECT_SOURCE_DIR}/configs
    ${PROJECT_SOURCE_DIR}/configs/*.yaml ${PROJECT_SOURCE_DIR}/configs/*.json
  )
  list(SORT configs)
  list(TRANSFORM configs PREPEND ${PROJECT_SOURCE_DIR}/configs/ OUTPUT_VARIABLE config_paths)
  string(REPLACE ";" "\n" config_list "${configs}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/configs.txt CONTENT "${config_list}")
  set(script ${PROJECT_SOURCE_DIR}/cmake/WriteEmbeddedConfigs.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${PROJECT_SOURCE_DIR}/configs -D LIST=${PROJECT_BINARY_DIR}/configs.txt
            -D OUTPUT=${output} -P ${script}
    DEPENDS ${config_paths} ${PROJECT_BINARY_DIR}/configs.txt ${script}
    COMMENT "Embedding configs/"
    VERBATIM
  )
endfunction()
