# Plugins: shared libraries that a running Troupe loads. A plugin links no library of Troupe; its
# symbols are resolved from the program that loads it, so there is one copy of every table. Included
# by this tree and by find_package(troupe).

# The default build type is Release, because layers and modes without optimisation are several times
# slower.
get_property(troupe_many_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT troupe_many_configurations AND NOT CMAKE_BUILD_TYPE)
  message(STATUS "troupe: CMAKE_BUILD_TYPE is not set, using Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# troupe_add_plugin(NAME SOURCE...): builds libNAME.so, for `plugins = ["libNAME.so"]`.
function(troupe_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX lib CXX_VISIBILITY_PRESET default)
  target_link_libraries(${name} PRIVATE troupe::plugin)
endfunction()
