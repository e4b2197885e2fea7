// Properties of GPUs for cuDNN's planner, written from NVIDIA's published specifications. Clocks,
// cache sizes and PCI identifiers are approximate, so a real device may rank engines in another
// order.
#pragma once

namespace troupe::vgpu {

inline constexpr const char* properties_a100 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 108, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 8370, "isTccDriver": 0,
"supportCoopLaunch": 1, "totalGlobalMem": 85017755648, "smClockRateKHz": 1410000,
"memClockRateKHz": 1593000, "l2CacheSize": 41943040, "cudaDeviceId": 0, "deviceVer": 800,
"driverVer": 13000, "deviceName": "NVIDIA A100-SXM4-80GB"})";
inline constexpr const char* properties_h100 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 9008, "isTccDriver": 0,
"supportCoopLaunch": 1, "totalGlobalMem": 85017755648, "smClockRateKHz": 1980000,
"memClockRateKHz": 2619000, "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": 900,
"driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3"})";
inline constexpr const char* properties_b200 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 148, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 10497, "isTccDriver": 0,
"supportCoopLaunch": 1, "totalGlobalMem": 191500000000, "smClockRateKHz": 1965000,
"memClockRateKHz": 3996000, "l2CacheSize": 132644864, "cudaDeviceId": 0, "deviceVer": 1000,
"driverVer": 13000, "deviceName": "NVIDIA B200"})";

}  // namespace troupe::vgpu
