# memest_revision(OUTPUT): a C++ source with memest::revision(), the commit that is checked out. It is written anew when git's log of
# HEAD has grown. The text is empty where there is no git, or where this is no repository of its own: an archive, or a folder of
# another project.
function(memest_revision output)
  set(log)
  find_package(Git QUIET)
  if(GIT_FOUND)
    execute_process(
      COMMAND ${GIT_EXECUTABLE} rev-parse --show-toplevel --git-path logs/HEAD
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      OUTPUT_VARIABLE lines ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE
    )
    string(REPLACE "\n" ";" lines "${lines}")
    list(LENGTH lines count)
    if(count EQUAL 2)
      list(GET lines 0 top)
      list(GET lines 1 log_path)
      file(REAL_PATH ${PROJECT_SOURCE_DIR} own)
      file(REAL_PATH ${top} top)
      file(REAL_PATH ${log_path} log_path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      if(top STREQUAL own AND EXISTS ${log_path})
        set(log ${log_path})
      endif()
    endif()
  endif()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DGIT=$<$<BOOL:${log}>:${GIT_EXECUTABLE}>" -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/WriteRevision.cmake
    DEPENDS ${log} ${PROJECT_SOURCE_DIR}/cmake/WriteRevision.cmake
    COMMENT "Asking git for the revision"
    VERBATIM
  )
endfunction()
