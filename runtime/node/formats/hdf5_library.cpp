#include "runtime/node/formats/hdf5_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#if __has_include(<hdf5/serial/hdf5.h>)
#include <hdf5/serial/hdf5.h>
static_assert(sizeof(hid_t) == sizeof(troupe::hdf5::id) && sizeof(hsize_t) == sizeof(troupe::hdf5::extent));
static_assert(int{H5T_INTEGER} == troupe::hdf5::integers && int{H5T_FLOAT} == troupe::hdf5::floats);
static_assert(int{H5D_VIRTUAL} == troupe::hdf5::virtual_layout && sizeof(herr_t) == sizeof(int));
#endif

namespace troupe::hdf5 {
namespace {

constexpr const char* usual_file = "libhdf5_serial.so.103";
constexpr const char* package = "install the package libhdf5-103-1 (apt-get install libhdf5-103-1)";

class finder {
 public:
  explicit finder(void* library) : library_(library) {}
  template <class F>
  finder& function(const char* name, F*& f) {
    f = reinterpret_cast<F*>(symbol(name));
    return *this;
  }
  // The library's variable of a type. It has a value after H5open().
  finder& type(const char* name, id& t) {
    if (const auto* at = static_cast<const id*>(symbol(name))) t = *at;
    return *this;
  }
  std::string missing;  // the first name that the library lacks

 private:
  void* symbol(const char* name) {
    void* found = dlsym(library_, name);
    if (found == nullptr && missing.empty()) missing = name;
    return found;
  }
  void* library_;
};

void find_functions(finder& f, library& l) {
  f.function("H5Eset_auto2", l.silence)
      .function("H5Fopen", l.open_file)
      .function("H5Fclose", l.close_file)
      .function("H5Dopen2", l.open_dataset)
      .function("H5Dclose", l.close_dataset)
      .function("H5Dget_space", l.space_of)
      .function("H5Dget_type", l.type_of)
      .function("H5Dget_create_plist", l.creation_of)
      .function("H5Dread", l.read)
      .function("H5Sclose", l.close_space)
      .function("H5Sget_simple_extent_ndims", l.rank)
      .function("H5Sget_simple_extent_dims", l.extents)
      .function("H5Tclose", l.close_type)
      .function("H5Tget_class", l.class_of)
      .function("H5Tget_size", l.size_of)
      .function("H5Tget_sign", l.sign_of)
      .function("H5Pclose", l.close_list)
      .function("H5Pget_layout", l.layout)
      .function("H5Pget_external_count", l.external_files)
      .function("H5Fget_name", l.file_name);
}

void find_types(finder& f, library& l) {
  f.type("H5T_NATIVE_FLOAT_g", l.f4)
      .type("H5T_NATIVE_DOUBLE_g", l.f8)
      .type("H5T_NATIVE_INT8_g", l.i1)
      .type("H5T_NATIVE_INT16_g", l.i2)
      .type("H5T_NATIVE_INT32_g", l.i4)
      .type("H5T_NATIVE_INT64_g", l.i8)
      .type("H5T_NATIVE_UINT8_g", l.u1)
      .type("H5T_NATIVE_UINT16_g", l.u2)
      .type("H5T_NATIVE_UINT32_g", l.u4);
}

// The library stays open until the process ends. Returns what is wrong.
std::string opened(library& l) {
  const char* named = std::getenv("TROUPE_HDF5_LIBRARY");
  const char* file = named != nullptr ? named : usual_file;
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return std::string("the HDF5 library cannot be loaded: ") + package + ": " + (why != nullptr ? why : file);
  }
  finder f(handle);
  int (*start)() = nullptr;
  int (*version)(unsigned*, unsigned*, unsigned*) = nullptr;
  f.function("H5open", start).function("H5get_libversion", version);
  find_functions(f, l);
  if (!f.missing.empty()) return std::string(file) + " is no HDF5 library: it has no " + f.missing + "; " + package;
  unsigned major = 0, minor = 0, release = 0;
  if (version(&major, &minor, &release) < 0 || major != 1 || minor < 10 || start() < 0)
    return std::string(file) + ": version 1.10 or later is needed, not " + std::to_string(major) + "." + std::to_string(minor) +
           "; " + package;
  find_types(f, l);
  if (!f.missing.empty()) return std::string(file) + " has no " + f.missing + "; " + package;
  l.silence(usual, nullptr, nullptr);  // the library prints its errors otherwise
  return {};
}

}  // namespace

expected<library*> open_library() {
  static library l{};
  static const std::string wrong = opened(l);
  if (!wrong.empty()) return unexpected(error(wrong));
  return &l;
}

}  // namespace troupe::hdf5
