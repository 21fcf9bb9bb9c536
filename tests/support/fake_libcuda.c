/* A driver with one GPU that is an H200 in all that is asked; built by platforms/cuda/conftest.py. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const int attributes[][2] = {
    {1, 1024}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32}, {12, 65536},
    {13, 1980000}, {16, 132}, {36, 3201000}, {37, 6144}, {38, 62914560}, {39, 2048}, {75, 9},
    {76, 0}, {81, 233472}, {82, 65536}, {97, 232448},
};

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) {
  const char *said = getenv("FAKE_DRIVER");
  *version = said ? atoi(said) : 13000;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = context;
  return 0;
}
int cuCtxPushCurrent_v2(void *context) { return context ? 0 : 201; }
int cuCtxPopCurrent_v2(void **context) { *context = 0; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = (size_t)300 << 20;
  *total = (size_t)143156 << 20;
  return 0;
}
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number == 0 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) {
  (void)device;
  strncpy(name, "NVIDIA H200", (size_t)length);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = 150109945856;
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
    if (attributes[i][0] == attribute) {
      *value = attributes[i][1];
      return 0;
    }
  return 1;
}
int cuGetErrorString(int error, const char **text) {
  *text = error == 1 ? "invalid argument" : "unknown";
  return 0;
}
