# A room is one static library `memest::ROOM`, its headers in include/memest/ROOM, its sources in src/ROOM.
#
#   memest_room(NAME SOURCES file... [USES target...] [PRIVATELY target...] [APART file...])
#
# USES are the rooms (or packages) that the room's public headers include; PRIVATELY those that only its sources do. What a
# room does not link it cannot call, so these lines are the floor plan as the linker sees it. Rooms are position-independent: the
# library for other languages and the GPU module are shared.
#
# A quick build (the preset `quick`, CMAKE_UNITY_BUILD) compiles many sources of a room as one: their headers are read once. Two that
# give one name to two things in their anonymous namespaces cannot meet there; APART are those that are compiled alone.
function(memest_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;USES;PRIVATELY;APART")
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
  set_source_files_properties(${room_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_property(GLOBAL APPEND PROPERTY memest_installed_targets ${target})
endfunction()
