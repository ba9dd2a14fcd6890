# What a build carries with it. MEMEST_STATIC is OFF (what is installed is used, and shared), LIBRARIES (the dependencies are built
# from source and linked statically, as is the C++ runtime: a program that needs glibc alone) or ALL (glibc too: one that needs
# nothing, but opens no GPU module either).
set(MEMEST_STATIC OFF CACHE STRING "What is linked statically: OFF, LIBRARIES or ALL")
set_property(CACHE MEMEST_STATIC PROPERTY STRINGS OFF LIBRARIES ALL)
if(NOT MEMEST_STATIC MATCHES "^(OFF|LIBRARIES|ALL)$")
  message(FATAL_ERROR "MEMEST_STATIC is OFF, LIBRARIES or ALL, not ${MEMEST_STATIC}")
endif()
if(MEMEST_STATIC)  # to give away: zig writes 130 MB of debug information otherwise
  add_link_options(-s)
endif()
if(MEMEST_STATIC STREQUAL "ALL")
  if(MEMEST_PYTHON)
    message(FATAL_ERROR "MEMEST_PYTHON makes a shared library, which MEMEST_STATIC=ALL cannot")
  endif()
  add_link_options(-static)
elseif(MEMEST_STATIC AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # zig's C++ runtime is static anyhow
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
