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
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms of g++ 12 on std::string (GCC bug 105651)
            $<$<BOOL:${MEMEST_WERROR}>:-Werror>
)
