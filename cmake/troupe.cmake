# Functions for libraries and tests.
# troupe_box(NAME [DIRS dir...] [DEPS lib...] [PRIVATE lib...] [ALONE pattern...]): a library of all
# files in the folders DIRS, so that a new file needs no entry. With TROUPE_UNITY eight files are
# compiled as one, which halves the time; files that match ALONE are compiled by themselves.
include_guard()

add_library(troupe_flags INTERFACE)
target_include_directories(troupe_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_compile_features(troupe_flags INTERFACE cxx_std_20)
# -Wno-restrict: GCC 12 reports false overlaps in std::string's operator+ (GCC bug 105651).
target_compile_options(troupe_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Werror;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-ffp-contract=off>)
# Names of source files in programs are relative to the tree, so that every checkout builds the same
# bytes. ccache compiles by paths relative to the build folder (scripts/lib/common.sh).
file(RELATIVE_PATH _troupe_up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
target_compile_options(troupe_flags INTERFACE $<BUILD_INTERFACE:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=;-fmacro-prefix-map=${_troupe_up}=>)
target_compile_definitions(troupe_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
if(TROUPE_THREAD_SANITIZER)
  target_compile_options(troupe_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(troupe_flags INTERFACE -fsanitize=thread)
endif()
if(TROUPE_SANITIZE)
  # The checks of null pointers and of virtual tables take a sixth of the compile time. ASan reports
  # the use of a null pointer as well.
  target_compile_options(troupe_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(troupe_flags INTERFACE -fsanitize=address,undefined)
endif()

function(troupe_box name)
  cmake_parse_arguments(BOX "" "" "DIRS;DEPS;PRIVATE;ALONE" ${ARGN})
  if(NOT BOX_DIRS)
    set(BOX_DIRS .)
  endif()
  set(globs)
  foreach(d IN LISTS BOX_DIRS)
    list(APPEND globs ${CMAKE_CURRENT_SOURCE_DIR}/${d}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC troupe_flags ${BOX_DEPS} PRIVATE ${BOX_PRIVATE})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${TROUPE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    foreach(pattern IN LISTS BOX_ALONE)
      file(GLOB alone CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${pattern})
      set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE troupe_flags ${BOX_DEPS})
  endif()
endfunction()

# troupe_places(SOURCE...): defines TROUPE_SOURCE_DIR and TROUPE_BIN_DIR for the sources that use them.
# The others compile alike in every checkout, so that ccache finds them. CMake must run again when a
# source begins to use one.
function(troupe_places)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} named REGEX "TROUPE_(SOURCE|BIN)_DIR" LIMIT_COUNT 1)
    if(named)
      set_source_files_properties(${source} PROPERTIES
        COMPILE_DEFINITIONS "TROUPE_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\";TROUPE_BIN_DIR=\"${CMAKE_BINARY_DIR}/bin\"")
    endif()
  endforeach()
endfunction()

# -Wno-shadow: a local name of a test may also be a global name of another file in its unity. Options
# of libraries come after those of the target and override them.
add_library(troupe_test_flags INTERFACE)
if(TROUPE_UNITY)
  target_compile_options(troupe_test_flags INTERFACE -Wno-shadow)
endif()
if(TROUPE_SANITIZE)  # UBSan takes a third of the tests' compile time and matters only in the libraries
  target_compile_options(troupe_test_flags INTERFACE -fno-sanitize=undefined)
endif()

# troupe_tests(NAME [ALONE] [SUBFOLDERS] [LABEL label] [TIMEOUT seconds] [DEPS lib...]): a test program
# of all *.cpp files of a folder of tests/ (SUBFOLDERS: and below it). LABEL: quick (default), ci or
# nightly. ALONE: its tests do not run in parallel with other tests.
function(troupe_tests name)
  cmake_parse_arguments(T "ALONE;SUBFOLDERS" "LABEL;TIMEOUT" "DEPS" ${ARGN})
  set(glob GLOB)
  if(T_SUBFOLDERS)
    set(glob GLOB_RECURSE)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  if(NOT T_LABEL)
    set(T_LABEL quick)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_executable(${name} ${sources})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # -O1 for the code of the tests, which compiles faster
  target_link_libraries(${name} PRIVATE ${T_DEPS} GTest::gtest GTest::gmock GTest::gtest_main troupe_test_flags)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${TROUPE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  troupe_places(${sources})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT} RUN_SERIAL ${T_ALONE}
    ENVIRONMENT TROUPE_RUNS=off)
endfunction()
