// A shared library that is no plugin.
extern "C" int unrelated() { return 1; }
