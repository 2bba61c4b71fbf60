// A libcuda.so.1 without a GPU: the functions of NVIDIA's driver that weft calls, over on_cpu. weft loads it in
// place of the driver's (WEFT_CUDA names it), so that everything from the Go of an operation to the launch of its
// kernel is what runs on a GPU. Memory of the device is apart from the host's, between pages that fault, and
// filled with NaN. A kernel's code is not in the module: it is found by its name.
#include "on_cpu.h"
#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>
#include <sys/mman.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, LAUNCH_FAILED = 719 };
typedef int result;
typedef unsigned long long address;

// The kernels of the program, by name.
struct kernel {
	const char *name;
	void (*run)(const void *args);
	size_t bytes; // of what a launch passes
};
static std::vector<kernel> &kernels() {
	static std::vector<kernel> all;
	return all;
}
struct registered {
	registered(const char *name, void (*run)(const void *), size_t bytes) { kernels().push_back({name, run, bytes}); }
};
#define REGISTER(name, call) \
	static const registered register_##name(#name, [](const void *p) { name(*(const call *)p); }, sizeof(call));
#include "kernels.cu"

static std::mutex mu;
static std::map<address, size_t> live; // by the address of their first byte
static size_t used, limit = 8ull << 30;
static const size_t PAGE = 4096;

// Whether all these bytes are one allocation's.
static bool inside(address p, size_t bytes) {
	std::lock_guard<std::mutex> hold(mu);
	auto after = live.upper_bound(p);
	if (after == live.begin())
		return false;
	--after;
	return p + bytes <= after->first + after->second;
}

extern "C" {
int weft_on_cpu; // says which library this is: the module that it loads need have no code
result cuGetErrorName(int status, const char **text) {
	*text = status == INVALID ? "CUDA_ERROR_INVALID_VALUE" : status == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : status == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_LAUNCH_FAILED";
	return OK;
}
result cuGetErrorString(int status, const char **text) { return cuGetErrorName(status, text); }
result cuStreamDestroy_v2(void *) { return OK; }
result cuModuleUnload(void *) { return OK; }
result cuInit(unsigned) { return OK; }
result cuDriverGetVersion(int *v) { *v = 13000; return OK; }
result cuDeviceGetCount(int *n) { *n = 1; return OK; }
result cuDeviceGet(int *d, int k) { *d = k; return k ? INVALID : OK; }
result cuDeviceGetName(char *name, int n, int) { snprintf(name, n, "CPU in place of a GPU"); return OK; }
result cuDeviceGetAttribute(int *v, int what, int) { *v = what == 75 ? 9 : what == 76 ? 0 : what == 16 ? 2 : 0; return OK; } // capability 9.0, 2 multiprocessors
result cuDevicePrimaryCtxRetain(void **c, int) { *c = (void *)1; return OK; }
result cuDevicePrimaryCtxRelease_v2(int) { return OK; }
result cuCtxSetCurrent(void *) { return OK; }
result cuCtxSynchronize() { return OK; }
result cuMemGetInfo_v2(size_t *free, size_t *total) { *total = limit, *free = limit - used; return OK; }
result cuMemAlloc_v2(address *p, size_t n) {
	std::lock_guard<std::mutex> hold(mu);
	if (used + n > limit)
		return NO_MEMORY;
	size_t room = (n + PAGE - 1) / PAGE * PAGE;
	char *m = (char *)mmap(nullptr, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return NO_MEMORY;
	mprotect(m + PAGE, room, PROT_READ | PROT_WRITE);
	*p = (address)(m + PAGE + (room - n) / 256 * 256); // the end is near the page that faults
	memset((void *)*p, 0xff, n);
	live[*p] = n, used += n;
	return OK;
}
result cuMemFree_v2(address p) {
	std::lock_guard<std::mutex> hold(mu);
	auto it = live.find(p);
	if (it == live.end())
		return INVALID;
	size_t room = (it->second + PAGE - 1) / PAGE * PAGE;
	munmap((char *)(p / PAGE * PAGE) - PAGE, room + 2 * PAGE);
	used -= it->second;
	live.erase(it);
	return OK;
}
result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *) {
	if (!inside(to, n) || inside((address)from, 1))
		return INVALID;
	memcpy((void *)to, from, n);
	return OK;
}
result cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *) {
	if (!inside(from, n) || inside((address)to, 1))
		return INVALID;
	memcpy(to, (void *)from, n);
	return OK;
}
result cuMemcpyDtoDAsync_v2(address to, address from, size_t n, void *) {
	if (!inside(from, n) || !inside(to, n))
		return INVALID;
	memmove((void *)to, (void *)from, n);
	return OK;
}
result cuStreamCreate(void **s, unsigned) { *s = (void *)1; return OK; }
result cuStreamSynchronize(void *) { return OK; }
result cuModuleLoadData(void **m, const void *image) { *m = (void *)image; return image ? OK : INVALID; }
result cuModuleGetFunction(void **f, void *, const char *name) {
	for (const kernel &k : kernels())
		if (!strcmp(k.name, name)) {
			*f = (void *)&k;
			return OK;
		}
	return NOT_FOUND;
}
// A kernel takes one struct. extra has it as a GPU's driver takes it: CU_LAUNCH_PARAM_BUFFER_POINTER, its address,
// …_SIZE, the address of its size, …_END.
result cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned, void *, void **, void **extra) {
	const kernel *k = (const kernel *)f;
	if (gy != 1 || gz != 1 || by != 1 || bz != 1 || !extra || extra[0] != (void *)1 || extra[2] != (void *)2 || *(size_t *)extra[3] != k->bytes || !gx || bx > BLOCK)
		return INVALID;
	static const char *order = getenv("ON_CPU_ORDER");
	on_cpu::run(k->run, extra[1], gx, bx, 0, gx, order && *order == 'b' ? on_cpu::BACKWARD : order && *order == 'd' ? on_cpu::DRAWN : on_cpu::FORWARD, 42);
	return OK;
}
}
