# A room is one static library `memest::ROOM`, its headers in include/memest/ROOM, its sources in src/ROOM.
#
#   memest_room(NAME SOURCES file... [USES target...] [PRIVATELY target...] [GENERATED file...])
#
# USES are the rooms (or packages) that the room's public headers include; PRIVATELY those that only its sources do. What a
# room does not link it cannot call, so these lines are the floor plan as the linker sees it. Rooms are position-independent: the
# library for other languages and the GPU module are shared.
#
# A quick build (the preset `quick`, CMAKE_UNITY_BUILD) compiles the sources of a room as one or two: their headers are read once. Two
# that give one name to two things in their unnamed namespaces cannot meet there (tests/fences/local_names.sh).
#
# GENERATED are sources that a command of the build writes.
function(memest_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;USES;PRIVATELY;GENERATED")
  set(target memest_${name})
  add_library(${target} STATIC ${room_SOURCES})
  add_library(memest::${name} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(
    ${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src
  )
  target_link_libraries(
    ${target}
    PUBLIC ${room_USES}
    PRIVATE ${room_PRIVATELY} $<BUILD_INTERFACE:memest_warnings>
  )
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  if(room_GENERATED)
    memest_generated(${target}_generated OBJECT ${room_GENERATED})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_generated>)
  endif()
  set_property(GLOBAL APPEND PROPERTY memest_installed_targets ${target})
endfunction()

# memest_generated(NAME KIND SOURCE...): a library of sources that a command of the build writes. It is its own and links nothing: in a
# target that links others the command would wait until those are built, and with it every source of the target.
function(memest_generated name kind)
  add_library(${name} ${kind} ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
endfunction()
