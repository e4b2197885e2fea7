# Options that only speed up builds.
# GCC collects its garbage from 128 MB on, which takes a sixth of the time of a file with many templates. With 1 GB it
# collects practically never. A job then takes up to 1.5 GB instead of 1.1.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
endif()
# These were tried and rejected:
#   lld 14 (Debian 12): keeps one entry of .eh_frame_hdr per address. GCC emits zero-length `*.cold`
#     functions, whose entry hides that of the function at the same address. An exception thrown there
#     then ends in std::terminate instead of its handler. Hence GNU ld.
#   Precompiled headers: those of CAF take 8 s and 197 MB to make, save 1.7 s per file that uses them, and give
#     no gain with ccache. Those of GoogleTest, JSON and the standard library take 10 s and save 1 s of 47: the time
#     goes to templates, not to reading.
