/* NVML of one GPU that another process fills; built by platforms/cuda/conftest.py. */
#include <string.h>

struct size { unsigned long long total, free, used; };
struct process { unsigned pid; unsigned long long used; unsigned gpu, compute; };

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
  *device = device;
  return strcmp(bus, "0000:1b:00.0") ? 6 : 0;
}
int nvmlDeviceGetMemoryInfo(void *device, struct size *size) {
  (void)device;
  size->total = 143771ull << 20;
  size->free = 312ull << 20;
  size->used = size->total - size->free;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *found) {
  (void)device;
  if (*count < 2) return 7;
  *count = 2;
  found[0] = (struct process){41, ~0ull, 0, 0};
  found[1] = (struct process){4242, 107366ull << 20, 0, 0};
  return 0;
}
