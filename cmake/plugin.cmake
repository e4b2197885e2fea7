# Plugins: shared libraries that a running Troupe loads. A plugin links nothing of Troupe; what it calls is resolved from the
# program that loads it, so there is one copy of every table. Included by this tree and by find_package(troupe).

# Layers and modes are compiled into plugins, and without optimisation they take a multiple of the time: whoever names no build type
# gets Release.
get_property(troupe_many_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT troupe_many_configurations AND NOT CMAKE_BUILD_TYPE)
  message(STATUS "troupe: no build type is given: Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# troupe_add_plugin(NAME SOURCE...): builds libNAME.so, for `plugins = ["libNAME.so"]`.
function(troupe_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX lib CXX_VISIBILITY_PRESET default)
  target_link_libraries(${name} PRIVATE troupe::plugin)
endfunction()
