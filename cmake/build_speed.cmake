# Options that only speed up builds. None yet; these were tried and rejected:
#   lld 14 (Debian 12): keeps one entry of .eh_frame_hdr per address. GCC emits zero-length `*.cold`
#     functions, whose entry hides that of the function at the same address. An exception thrown there
#     then ends in std::terminate instead of its handler. Hence GNU ld.
#   Precompiled CAF headers: take 8 s and 197 MB to make, save 1.7 s per file that uses them, and give
#     no gain with ccache.
