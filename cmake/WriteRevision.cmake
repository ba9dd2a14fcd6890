# cmake -DGIT=... -DSOURCE=... -DOUTPUT=... -P WriteRevision.cmake; an empty GIT is no revision.
set(revision "")
if(GIT)
  execute_process(
    COMMAND ${GIT} rev-parse --short=12 HEAD
    WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE
  )
endif()
file(
  WRITE ${OUTPUT}
  "#include \"cli/version/revision.hpp\"\n\nstd::string_view memest::revision() { return \"${revision}\"; }\n"
)
