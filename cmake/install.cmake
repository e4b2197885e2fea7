# Installation (`cmake --install`; the components are those of packages.cmake), and the properties of programs that load plugins. Included after
# all targets are defined.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(plugin)

# troupe::plugin: headers, and the compiler flags on which the bits of results depend.
add_library(troupe_plugin INTERFACE)
target_link_libraries(troupe_plugin INTERFACE troupe_flags)
target_include_directories(troupe_flags INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>)

# The pure libraries: ops, and runtime without node. Users link them as troupe::ops and troupe::core.
get_property(_troupe_ops DIRECTORY ${CMAKE_SOURCE_DIR}/ops PROPERTY BUILDSYSTEM_TARGETS)
get_property(_troupe_runtime DIRECTORY ${CMAKE_SOURCE_DIR}/runtime PROPERTY BUILDSYSTEM_TARGETS)
set(_troupe_pure troupe_flags troupe_plugin ${_troupe_ops} ${_troupe_runtime})
list(FILTER _troupe_pure INCLUDE REGEX "^troupe_")
list(REMOVE_ITEM _troupe_pure troupe_hub)  # part of the daemon and libtroupe_exchange; users do not link it
set(_troupe_archives)
foreach(t IN LISTS _troupe_pure)
  string(REPLACE "troupe_" "" _troupe_short ${t})
  set_target_properties(${t} PROPERTIES EXPORT_NAME ${_troupe_short})
  add_library(troupe::${_troupe_short} ALIAS ${t})
  get_target_property(_troupe_type ${t} TYPE)
  if(_troupe_type STREQUAL STATIC_LIBRARY)
    list(APPEND _troupe_archives ${t})
  endif()
endforeach()

# troupe_host(PROGRAM...): lets the program load plugins. It contains all of the pure libraries, used
# or not, and exports its symbols.
list(JOIN _troupe_archives "," _troupe_whole)
function(troupe_host)
  foreach(program IN LISTS ARGN)
    if(TARGET ${program})
      set_target_properties(${program} PROPERTIES ENABLE_EXPORTS ON LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${_troupe_whole}")
    endif()
  endforeach()
endfunction()
troupe_host(troupe trouped)

install(TARGETS ${_troupe_pure} EXPORT troupeTargets COMPONENT dev)
foreach(program troupe trouped)
  if(TARGET ${program})
    install(TARGETS ${program} COMPONENT ${program})
  endif()
endforeach()
if(TARGET troupe)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT troupe REGEX "/(_?trouped|troupe-cluster[.])" EXCLUDE)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT trouped
    FILES_MATCHING REGEX "/(_?trouped|troupe-cluster[.])[^/]*$")
endif()
if(TARGET troupe_cuda)  # where ops/gpu.hpp looks for it
  install(TARGETS troupe_cuda LIBRARY DESTINATION lib/troupe COMPONENT cuda)
endif()
# troupe::embedded, for programs that train from their own main() (actors/embedded.hpp). A separate
# export, so that users of layers alone do not need CAF.
if(TARGET troupe_actors)
  get_property(_troupe_node DIRECTORY ${CMAKE_SOURCE_DIR}/runtime/node PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER _troupe_node INCLUDE REGEX "^troupe_")
  list(REMOVE_ITEM _troupe_node troupe_certificates troupe_predict)
  set(_troupe_embedded troupe_actors troupe_hub troupe_shared ${_troupe_node})
  foreach(t IN LISTS _troupe_embedded)
    string(REPLACE "troupe_" "" _troupe_short ${t})
    set_target_properties(${t} PROPERTIES EXPORT_NAME ${_troupe_short})
  endforeach()
  set_target_properties(troupe_actors PROPERTIES EXPORT_NAME embedded)
  add_library(troupe::embedded ALIAS troupe_actors)
  install(TARGETS ${_troupe_embedded} EXPORT troupeEmbeddedTargets COMPONENT dev)
  install(DIRECTORY runtime/node DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/runtime COMPONENT dev FILES_MATCHING PATTERN "*.hpp")
  install(DIRECTORY actors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe COMPONENT dev FILES_MATCHING PATTERN "*.hpp" PATTERN "*_caf.hpp" EXCLUDE
    PATTERN "actors/control" EXCLUDE PATTERN "actors/repl" EXCLUDE)
endif()
if(TARGET troupe_predict)
  add_library(troupe::predict ALIAS troupe_predict)
  install(TARGETS troupe_predict EXPORT troupeTargets LIBRARY COMPONENT predict NAMELINK_COMPONENT dev
    PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
endif()
if(TARGET troupe_exchange)
  add_library(troupe::exchange ALIAS troupe_exchange)
  install(TARGETS troupe_exchange EXPORT troupeTargets LIBRARY COMPONENT exchange NAMELINK_COMPONENT dev
    PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
endif()
if(TARGET troupe_python)
  set(TROUPE_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Where Python looks for packages, below the prefix")
  install(TARGETS troupe_python LIBRARY DESTINATION ${TROUPE_PYTHON_DIR}/troupe COMPONENT python)
  install(DIRECTORY python/troupe DESTINATION ${TROUPE_PYTHON_DIR} COMPONENT python FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
  install(FILES examples/own_loop/troupe_exchange.py DESTINATION ${TROUPE_PYTHON_DIR}/troupe COMPONENT python RENAME exchange.py)
endif()
install(DIRECTORY ops runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe COMPONENT dev
  FILES_MATCHING PATTERN "*.hpp" PATTERN "runtime/node" EXCLUDE PATTERN "runtime/exchange" EXCLUDE PATTERN "ops/cuda" EXCLUDE)
install(DIRECTORY configs examples DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT troupe PATTERN "__pycache__" EXCLUDE)
# Pages, examples and configurations keep their relative paths, so that links in pages work.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT troupe FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT troupe)
# systemd reads units from /usr/lib and /usr/local/lib, independently of the folder of the libraries.
# The unit names the prefix, which is known when Troupe is installed.
set(_troupe_unit ${CMAKE_SOURCE_DIR}/configs/systemd/trouped.service.in)
install(CODE "set(prefix \${CMAKE_INSTALL_PREFIX})
configure_file(${_troupe_unit} ${CMAKE_BINARY_DIR}/trouped.service @ONLY)" COMPONENT trouped)
install(FILES ${CMAKE_BINARY_DIR}/trouped.service DESTINATION lib/systemd/system COMPONENT trouped)

set(_troupe_package ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
configure_package_config_file(cmake/troupeConfig.cmake.in ${CMAKE_BINARY_DIR}/troupeConfig.cmake INSTALL_DESTINATION ${_troupe_package}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT troupeTargets NAMESPACE troupe:: DESTINATION ${_troupe_package} COMPONENT dev)
if(TARGET troupe_actors)
  install(EXPORT troupeEmbeddedTargets NAMESPACE troupe:: DESTINATION ${_troupe_package} COMPONENT dev)
  install(FILES cmake/FindCAF.cmake DESTINATION ${_troupe_package} COMPONENT dev)
endif()
install(FILES ${CMAKE_BINARY_DIR}/troupeConfig.cmake ${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake cmake/plugin.cmake
  DESTINATION ${_troupe_package} COMPONENT dev)
include(packages)
