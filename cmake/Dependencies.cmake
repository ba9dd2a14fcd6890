# Every dependency, one declaration each: an installed package if it is new enough, else the release archive, pinned by version
# and SHA-256. With MEMEST_STATIC always the archive, or the folder that FETCHCONTENT_SOURCE_DIR_PACKAGE names. (CMake 3.24 has
# FIND_PACKAGE_ARGS for this; Ubuntu 22.04 ships 3.22.)
include(FetchContent)

# memest_dependency(PACKAGE AT_LEAST URL SHA256 [OPTIONS NAME=VALUE...] [HEADERS TARGET]): OPTIONS are those of the fetched
# project. HEADERS makes TARGET of the archive's root folder and leaves the archive's own build alone.
function(memest_dependency)
  cmake_parse_arguments(PARSE_ARGV 0 dependency "" "PACKAGE;AT_LEAST;URL;SHA256;HEADERS" "OPTIONS")
  if(NOT MEMEST_STATIC)
    find_package(${dependency_PACKAGE} ${dependency_AT_LEAST} QUIET)
    if(${dependency_PACKAGE}_FOUND)
      return()
    endif()
    message(STATUS "${dependency_PACKAGE} ${dependency_AT_LEAST} is not installed: fetching ${dependency_URL}")
  endif()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # lets the options below reach the fetched project
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # releases of before CMake 4 ask for less
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_UNITY_BUILD OFF)
  foreach(option IN LISTS dependency_OPTIONS)
    string(REGEX MATCH "^([^=]+)=(.*)$" option ${option})
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
  if(dependency_HEADERS)
    set(no_build SOURCE_SUBDIR no-such-folder)  # MakeAvailable builds only what has a CMakeLists.txt
  endif()
  FetchContent_Declare(
    ${dependency_PACKAGE} URL ${dependency_URL} URL_HASH SHA256=${dependency_SHA256} ${no_build}
  )
  FetchContent_MakeAvailable(${dependency_PACKAGE})
  if(dependency_HEADERS)
    FetchContent_GetProperties(${dependency_PACKAGE} SOURCE_DIR folder)
    add_library(${dependency_HEADERS} INTERFACE IMPORTED)
    target_include_directories(${dependency_HEADERS} INTERFACE ${folder})
  endif()
endfunction()

# YAML_CPP_INSTALL and its like: this project's libraries are static, so a package installed from it needs theirs as well.
memest_dependency(
  PACKAGE yaml-cpp
  AT_LEAST 0.7
  URL https://github.com/jbeder/yaml-cpp/archive/refs/tags/0.8.0.tar.gz
  SHA256 fbe74bbdcee21d656715688706da3c8becfd946d92cd44705cc6098bb23b3a16
  OPTIONS YAML_CPP_INSTALL=ON YAML_CPP_BUILD_TOOLS=OFF YAML_CPP_BUILD_CONTRIB=OFF
)
if(NOT TARGET yaml-cpp::yaml-cpp)  # named so from 0.8 on
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
memest_dependency(
  PACKAGE nlohmann_json
  AT_LEAST 3.10
  URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
  SHA256 d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d
  OPTIONS JSON_Install=ON
)
memest_dependency(
  PACKAGE fmt
  AT_LEAST 8.1
  URL https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  SHA256 5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2
  OPTIONS FMT_INSTALL=ON
)
memest_dependency(
  PACKAGE Eigen3
  AT_LEAST 3.4
  URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
  SHA256 b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626
  HEADERS Eigen3::Eigen  # its own build defines targets that clash with others'
)
memest_dependency(
  PACKAGE CLI11
  AT_LEAST 2.1
  URL https://github.com/CLIUtils/CLI11/archive/v2.3.2.tar.gz
  SHA256 aac0ab42108131ac5d3344a9db0fdf25c4db652296641955720a4fbe52334e22
)
memest_dependency(
  PACKAGE ZLIB
  AT_LEAST 1.2.11
  URL https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
  SHA256 9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23
  OPTIONS ZLIB_BUILD_EXAMPLES=OFF
)
if(NOT TARGET ZLIB::ZLIB)  # fetched: its own build names no such target
  add_library(ZLIB::ZLIB INTERFACE IMPORTED)
  target_link_libraries(ZLIB::ZLIB INTERFACE zlibstatic)
  FetchContent_GetProperties(ZLIB SOURCE_DIR zlib_source BINARY_DIR zlib_binary)
  target_include_directories(ZLIB::ZLIB INTERFACE ${zlib_source} ${zlib_binary})
endif()
memest_dependency(
  PACKAGE tomlplusplus
  AT_LEAST 3.0
  URL https://github.com/marzer/tomlplusplus/archive/refs/tags/v3.4.0.tar.gz
  SHA256 8517f65938a4faae9ccf8ebb36631a38c1cadfb5efa85d9a72e15b9e97d25155
)
if(MEMEST_TESTS)
  memest_dependency(
    PACKAGE Catch2
    AT_LEAST 3.0
      URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
    SHA256 c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c
  )
  memest_dependency(  # its package states no version
    PACKAGE valijson
    URL https://github.com/tristanpenman/valijson/archive/v1.0.tar.gz
    SHA256 6b9f0bc89880feb3fe09aa469cd81f6168897d2fbb4e715853da3b94afd3779a
    OPTIONS valijson_BUILD_TESTS=OFF valijson_BUILD_EXAMPLES=OFF
  )
endif()
if(MEMEST_BENCH)
  memest_dependency(
    PACKAGE benchmark
    AT_LEAST 1.6
      URL https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    SHA256 6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7
    OPTIONS BENCHMARK_ENABLE_TESTING=OFF BENCHMARK_ENABLE_INSTALL=OFF
  )
endif()
