# Debian packages of the installed components, made by scripts/package. debian/finish.cmake adds what
# Debian's policy asks for; the files that differ by package are in debian/PACKAGE/.
# The release of the packages is in debian/changelog, whose date is that of all packaged files.
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/debian/changelog _troupe_release LIMIT_COUNT 1)
if(NOT _troupe_release MATCHES "^troupe \\(${PROJECT_VERSION}-([0-9]+)\\) ")
  message(FATAL_ERROR "cmake/debian/changelog begins with \"${_troupe_release}\", not with a release of ${PROJECT_VERSION}")
endif()
set(_troupe_release ${CMAKE_MATCH_1})
set(_troupe_same "(= ${PROJECT_VERSION}-${_troupe_release})")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_CONTACT "Troupe maintainers <maintainers@troupe.example>" CACHE STRING "Who maintains the packages, as NAME <ADDRESS>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian/finish.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${_troupe_release})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# troupe_package(COMPONENT NAME SUMMARY TEXT [SECTION s] [DEPENDS d] [RECOMMENDS r] [SUGGESTS s]): a
# package of the component; TEXT begins its description. Its control files are debian/NAME/postinst, prerm, postrm and triggers.
set(CPACK_COMPONENTS_ALL)
macro(troupe_package component name summary text)
  cmake_parse_arguments(P "" "SECTION" "DEPENDS;RECOMMENDS;SUGGESTS" ${ARGN})
  string(TOUPPER ${component} _troupe_upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${_troupe_upper}_PACKAGE_NAME ${name})
  set(CPACK_COMPONENT_${_troupe_upper}_DESCRIPTION "${summary}\n${text}")
  if(P_SECTION)
    set(CPACK_DEBIAN_${_troupe_upper}_PACKAGE_SECTION ${P_SECTION})
  endif()
  foreach(kind DEPENDS RECOMMENDS SUGGESTS)
    if(P_${kind})
      list(JOIN P_${kind} ", " CPACK_DEBIAN_${_troupe_upper}_PACKAGE_${kind})
    endif()
  endforeach()
  file(GLOB CPACK_DEBIAN_${_troupe_upper}_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/${name}/p*
    ${CMAKE_SOURCE_DIR}/cmake/debian/${name}/triggers)
endmacro()

set(_troupe_blas libopenblas0-openmp)  # the threads of the pthread build, apt's first choice, compete with Troupe's
if(TARGET troupe)
  troupe_package(troupe troupe "train neural networks with actors: the command"
    "The command troupe trains a job file in this process or on a cluster, applies
trained nets to data, imports and exports models of PyTorch, ONNX and Caffe,
simulates clusters and inspects runs. The package has the documentation,
example jobs and example programs."
    DEPENDS ${_troupe_blas} RECOMMENDS dataset-fashion-mnist SUGGESTS trouped python3-troupe libhdf5-103-1)
  troupe_package(trouped trouped "train neural networks with actors: the daemon of a cluster's node"
    "A cluster runs one daemon on each of its machines. Daemons train the jobs that
are submitted to them and survive the loss of a node. The package has a unit
for systemd, which it does not enable, and the system user troupe."
    DEPENDS ${_troupe_blas} adduser RECOMMENDS troupe SUGGESTS libhdf5-103-1)
endif()
if(TARGET troupe_predict)
  troupe_package(predict libtroupe-predict0 "predictions of nets trained by Troupe, from C"
    "The library loads a net file made by troupe export and applies it to the
caller's data, on the threads that the caller allows." SECTION libs
    DEPENDS ${_troupe_blas})
endif()
if(TARGET troupe_exchange)
  troupe_package(exchange libtroupe-exchange0 "averages the weights of training loops outside of Troupe"
    "A training loop of any framework joins a group of a Troupe cluster, and
exchanges its weights with the other loops of the group by one of Troupe's
synchronisation modes." SECTION libs)
endif()
if(TARGET troupe_actors)
  troupe_package(dev libtroupe-dev "develop layers, modes and programs with Troupe"
    "Headers, static libraries and CMake files for plugins with layers or
synchronisation modes of their own, for programs that train a job themselves,
and for users of libtroupe_predict and libtroupe_exchange." SECTION libdevel
    DEPENDS "libtroupe-predict0 ${_troupe_same}" "libtroupe-exchange0 ${_troupe_same}" libopenblas-openmp-dev libdnnl-dev zlib1g-dev
    RECOMMENDS cmake g++ libcaf-dev libboost1.81-dev libssl-dev libpng-dev libjpeg62-turbo-dev libsqlite3-dev libzip-dev libspdlog-dev nlohmann-json3-dev
    SUGGESTS troupe)
endif()
if(TARGET troupe_python)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(_troupe_python ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR})
  math(EXPR _troupe_next_python "${Python3_VERSION_MINOR} + 1")
  troupe_package(python python3-troupe "train neural networks with actors: the Python package"
    "The package troupe trains jobs with callbacks, shows weights as NumPy arrays
and DLPack tensors, traces PyTorch modules, runs simulations, and submits jobs
to clusters." SECTION python
    DEPENDS "python3 (>= ${_troupe_python}~)" "python3 (<< ${Python3_VERSION_MAJOR}.${_troupe_next_python})" python3-numpy python3-tomli-w ${_troupe_blas}
      "libtroupe-exchange0 ${_troupe_same}"
    SUGGESTS python3-torch)
endif()
if(TARGET troupe_cuda)
  # Debian has no package of CUDA 13 or cuDNN 9, so dpkg-shlibdeps cannot name them.
  troupe_package(cuda libtroupe-cuda "train neural networks with actors: the backend for NVIDIA GPUs"
    "Programs of Troupe open the library if a job names a GPU. It needs CUDA
${CUDAToolkit_VERSION_MAJOR} and cuDNN 9 of NVIDIA, which are not in Debian." SECTION contrib/science)
endif()
include(CPack)
