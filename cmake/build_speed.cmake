# What would make building faster and changes nothing else; so far only what was tried and left out.
#   lld 14 (Debian 12): keeps one row of .eh_frame_hdr per address. GCC emits zero-length `*.cold` functions whose row hides that of
#     the function at the same address, and an exception thrown there ends in std::terminate instead of its handler. GNU ld it is.
#   Precompiled CAF headers: 8 s and 197 MB to make, 1.7 s saved per file that uses them, and no use beside ccache.
