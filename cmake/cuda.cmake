# The CUDA backend, libtroupe_cuda.so (ops/cuda). Sets TROUPE_HAVE_CUDA if it can be built: the toolkit
# is installed and TROUPE_CUDA is ON; and TROUPE_NVCC_OPTIONS for its kernels.
# CMAKE_CUDA_ARCHITECTURES: the GPUs to compile for, e.g. "80;90;100". By default those of this machine,
# or 90 if it has none; the library also runs on later ones, whose driver compiles it at the first start.
set(TROUPE_HAVE_CUDA OFF)
# Sums, quotients and square roots have the CPU's bits. ptxas prints each kernel's registers and spills.
set(TROUPE_NVCC_OPTIONS -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -Werror=all-warnings -Xptxas=-v)
if(TROUPE_CUDA)
  find_program(TROUPE_NVCC nvcc PATHS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(TROUPE_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${TROUPE_NVCC})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE _troupe_no_gpu OUTPUT_QUIET ERROR_QUIET)
    if(_troupe_no_gpu)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    else()
      set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know that nvcc 12 and later support C++20
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(TROUPE_HAVE_CUDA ON)
  endif()
endif()
message(STATUS "CUDA backend: ${TROUPE_HAVE_CUDA}")
