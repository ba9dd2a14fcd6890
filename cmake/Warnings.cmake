# The warnings of every target of this project; a consumer of the installed package never inherits them.
add_library(memest_warnings INTERFACE)
target_compile_options(
  memest_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wshadow
            -Wnon-virtual-dtor
            -Wold-style-cast
            -Wswitch-enum  # a switch names every case of its enum, so a new case is a warning everywhere
            # False alarms of the optimizer of g++ 12: on std::string (GCC bug 105651), on moved-from smart pointers. The analyzer
            # of clang-tidy looks for the same mistakes.
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized>
            $<$<BOOL:${MEMEST_WERROR}>:-Werror>
)
