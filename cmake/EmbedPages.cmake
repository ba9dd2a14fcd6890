# Apache ECharts, which draws the charts of pages: one file, embedded where it is found. MEMEST_ECHARTS names the release's
# dist/echarts.min.js, is AUTO (fetched, and without a network left out: pages then have still drawings) or OFF. Sets memest_echarts,
# empty where there is none.
set(memest_echarts_version 5.5.1)
set(memest_echarts_sha256 e84270bd0cd5bdf60fefc26d00c2a391cb2e81f4d26a7a9ee16185a54773a3cf)
set(memest_echarts_url https://github.com/apache/echarts/raw/${memest_echarts_version}/dist/echarts.min.js)
set(MEMEST_ECHARTS AUTO CACHE STRING "echarts.min.js of Apache ECharts ${memest_echarts_version}: a file, AUTO or OFF")

# memest_is_echarts(FILE RESULT): whether the file is the release's, byte by byte.
function(memest_is_echarts file result)
  set(${result} FALSE PARENT_SCOPE)
  if(EXISTS ${file})
    file(SHA256 ${file} sha256)
    if(sha256 STREQUAL memest_echarts_sha256)
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(memest_find_echarts)
  set(memest_echarts "" PARENT_SCOPE)
  if(MEMEST_ECHARTS STREQUAL "OFF")
    return()
  endif()
  if(NOT MEMEST_ECHARTS STREQUAL "AUTO")
    memest_is_echarts(${MEMEST_ECHARTS} good)
    if(NOT good)
      message(FATAL_ERROR "MEMEST_ECHARTS: ${MEMEST_ECHARTS} is not dist/echarts.min.js of Apache ECharts ${memest_echarts_version}, "
                          "whose SHA-256 is ${memest_echarts_sha256}"
      )
    endif()
    set(memest_echarts ${MEMEST_ECHARTS} PARENT_SCOPE)
    return()
  endif()
  set(file ${PROJECT_BINARY_DIR}/echarts-${memest_echarts_version}.min.js)
  memest_is_echarts(${file} good)
  if(NOT good)
    message(STATUS "Fetching ${memest_echarts_url}")
    file(DOWNLOAD ${memest_echarts_url} ${file} TIMEOUT 60 INACTIVITY_TIMEOUT 10 STATUS status)
    memest_is_echarts(${file} good)
  endif()
  if(good)
    set(memest_echarts ${file} PARENT_SCOPE)
  else()
    list(GET status 1 why)
    message(STATUS "Pages have still drawings: Apache ECharts is not there (${why}); MEMEST_ECHARTS names its file")
  endif()
endfunction()

# memest_embed_pages(OUTPUT STYLE SCRIPT...): a C++ source that holds what pages are made of.
function(memest_embed_pages output style)
  memest_find_echarts()
  add_executable(memest_embed_pages ${PROJECT_SOURCE_DIR}/cmake/embed_pages.cpp)
  target_compile_features(memest_embed_pages PRIVATE cxx_std_20)
  target_link_libraries(memest_embed_pages PRIVATE ZLIB::ZLIB memest_warnings)
  set_target_properties(memest_embed_pages PROPERTIES CXX_EXTENSIONS OFF)
  add_custom_command(
    OUTPUT ${output}
    COMMAND $<TARGET_FILE:memest_embed_pages> ${output} "${memest_echarts}" ${style} ${ARGN}
    DEPENDS ${memest_echarts} ${style} ${ARGN} memest_embed_pages
    COMMENT "Embedding src/report/html/"
    VERBATIM
  )
endfunction()
