# Toolchain of a wheel: zig (`ziglang` of the Python package index) is a clang with the headers and the symbol versions of every
# glibc, so that one machine builds for all Linux since 2014 (manylinux_2_17). MEMEST_ZIG names the program.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(zig_target x86_64-linux-gnu.2.17)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MEMEST_ZIG)
set(CMAKE_C_COMPILER ${MEMEST_ZIG} cc -target ${zig_target})
set(CMAKE_CXX_COMPILER ${MEMEST_ZIG} c++ -target ${zig_target})
# Headers of this machine's /usr/include belong to its own glibc.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
