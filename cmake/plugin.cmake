# Plugins: shared libraries that a running Troupe loads. A plugin links nothing of Troupe; what it calls is resolved from the
# program that loads it, so there is one copy of every table. Included by this tree and by find_package(troupe).

# troupe_add_plugin(NAME SOURCE...): builds libNAME.so, for `plugins = ["libNAME.so"]`.
function(troupe_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX lib CXX_VISIBILITY_PRESET default)
  target_link_libraries(${name} PRIVATE troupe::plugin)
endfunction()
