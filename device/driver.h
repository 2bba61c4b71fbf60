// The functions of NVIDIA's driver that weft calls. The driver is a library that is loaded at run time. The
// driver's types, and the type of a GPU's addresses, are declared here, as building weft needs no CUDA.
#ifndef WEFT_DRIVER_H
#define WEFT_DRIVER_H
#include <stddef.h>

typedef unsigned long long device_address;

#define WEFT_DRIVER_FUNCTIONS(F) \
	F(cuInit, (unsigned flags)) \
	F(cuDriverGetVersion, (int *version)) \
	F(cuGetErrorName, (int status, const char **text)) \
	F(cuGetErrorString, (int status, const char **text)) \
	F(cuDeviceGetCount, (int *count)) \
	F(cuDeviceGet, (int *device, int number)) \
	F(cuDeviceGetName, (char *name, int bytes, int device)) \
	F(cuDeviceGetUuid_v2, (char uuid[16], int device)) \
	F(cuDeviceGetAttribute, (int *value, int which, int device)) \
	F(cuDevicePrimaryCtxRetain, (void **context, int device)) \
	F(cuDevicePrimaryCtxRelease_v2, (int device)) \
	F(cuCtxSetCurrent, (void *context)) \
	F(cuMemGetInfo_v2, (size_t *free, size_t *total)) \
	F(cuMemAlloc_v2, (device_address *address, size_t bytes)) \
	F(cuMemFree_v2, (device_address address)) \
	F(cuMemcpyHtoDAsync_v2, (device_address to, const void *from, size_t bytes, void *stream)) \
	F(cuMemcpyDtoHAsync_v2, (void *to, device_address from, size_t bytes, void *stream)) \
	F(cuMemcpyDtoDAsync_v2, (device_address to, device_address from, size_t bytes, void *stream)) \
	F(cuStreamCreate, (void **stream, unsigned flags)) \
	F(cuStreamDestroy_v2, (void *stream)) \
	F(cuStreamSynchronize, (void *stream)) \
	F(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags)) \
	F(cuMemFreeHost, (void *memory)) \
	F(cuEventCreate, (void **event, unsigned flags)) \
	F(cuEventDestroy_v2, (void *event)) \
	F(cuEventRecord, (void *event, void *stream)) \
	F(cuEventSynchronize, (void *event)) \
	F(cuEventElapsedTime, (float *milliseconds, void *from, void *to)) \
	F(cuStreamWaitEvent, (void *stream, void *event, unsigned flags)) \
	F(cuModuleLoadData, (void **module, const void *image)) \
	F(cuModuleUnload, (void *module)) \
	F(cuModuleGetFunction, (void **function, void *module, const char *name)) \
	F(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
		unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra))

// A kernel's node in a graph: CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h.
typedef struct {
	void *function;
	unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
	void **parameters, **extra;
	void *kernel, *context;
} weft_node;

// The driver's functions for graphs. If a driver lacks one, kernels are launched one by one.
#define WEFT_GRAPH_FUNCTIONS(F) \
	F(cuGraphCreate, (void **graph, unsigned flags)) \
	F(cuGraphDestroy, (void *graph)) \
	F(cuGraphAddKernelNode_v2, \
	  (void **node, void *graph, void *const *after, size_t count, const weft_node *what)) \
	F(cuGraphInstantiateWithFlags, (void **executable, void *graph, unsigned long long flags)) \
	F(cuGraphExecDestroy, (void *executable)) \
	F(cuGraphExecKernelNodeSetParams_v2, (void *executable, void *node, const weft_node *what)) \
	F(cuGraphLaunch, (void *executable, void *stream))

typedef struct {
#define WEFT_POINTER(name, parameters) int(*name) parameters;
	WEFT_DRIVER_FUNCTIONS(WEFT_POINTER)
	WEFT_GRAPH_FUNCTIONS(WEFT_POINTER)
#undef WEFT_POINTER
	int has_graphs;
	int needs_no_code; // the library is bin/libcuda-on-cpu.so, which has the kernels in it
	int device;
	int cache; // bytes of the second-level cache
	int reads_pageable; // the card reads all of the host's memory: a copy from it may continue after its call
	void *context, *module;
} weft_driver;

// Loads the library. If that fails, either *loader is the loader's text, or *missing the function that the
// library lacks.
int weft_load(weft_driver *d, const char *library, const char **loader, const char **missing);

// All other functions return the driver's status, 0 for success. A stream runs its copies and launches in
// order. The memory from which weft_to_device copies is not pinned, and may be changed after the call.
int weft_version(const weft_driver *d, int *version);
int weft_start(const weft_driver *d, int *cards);
void weft_error(const weft_driver *d, int status, const char **name, const char **text);
int weft_select(weft_driver *d, int number, char *name, int bytes, char uuid[16], int *major, int *minor);
int weft_begin(weft_driver *d);
int weft_use(const weft_driver *d);
int weft_end(weft_driver *d);
int weft_stream(const weft_driver *d, void **stream);
int weft_end_stream(const weft_driver *d, void *stream);
int weft_module(weft_driver *d, const void *image);
int weft_function(const weft_driver *d, const char *name, void **function);
int weft_memory(const weft_driver *d, size_t *free, size_t *total);
int weft_alloc(const weft_driver *d, device_address *address, size_t bytes);
int weft_free(const weft_driver *d, device_address address);
int weft_to_device(const weft_driver *d, void *stream, device_address to, const void *from, size_t bytes);
int weft_to_host(const weft_driver *d, void *stream, void *to, device_address from, size_t bytes);
int weft_copy(const weft_driver *d, void *stream, device_address to, device_address from, size_t bytes);
// A kernel to launch. Its arguments are `bytes` bytes at offset `at` of the memory args.
typedef struct {
	void *function;
	unsigned blocks, threads;
	size_t at, bytes;
} weft_kernel;
// Launches n kernels in order. If one fails, the rest are not launched, and *failed is its number.
int weft_launch(const weft_driver *d, void *stream, const weft_kernel *kernels, int n, char *args,
                int *failed);
// A graph of kernels. Each waits for the one before it.
typedef struct {
	void *graph, *executable, **nodes;
} weft_graph;
// Makes a graph. If that fails, g is empty.
int weft_make_graph(const weft_driver *d, weft_graph *g, const weft_kernel *kernels, int n, char *args);
// Gives other arguments to the n kernels whose numbers are listed in `changed`. If that fails, the graph must
// not be run.
int weft_change_graph(const weft_driver *d, const weft_graph *g, const weft_kernel *kernels, char *args,
	const int *changed, int n);
int weft_run_graph(const weft_driver *d, void *stream, const weft_graph *g);
int weft_end_graph(const weft_driver *d, weft_graph *g);
int weft_wait(const weft_driver *d, void *stream);
// Pinned memory of the host. A copy from it may continue after its call.
int weft_pinned(const weft_driver *d, void **memory, size_t bytes);
int weft_free_pinned(const weft_driver *d, void *memory);
int weft_up(const weft_driver *d, void *stream, device_address to, const void *from, size_t bytes);
int weft_event(const weft_driver *d, void **event);
int weft_timer(const weft_driver *d, void **event); // an event that records the time
int weft_elapsed(const weft_driver *d, float *milliseconds, void *from, void *to);
int weft_end_event(const weft_driver *d, void *event);
int weft_record(const weft_driver *d, void *event, void *stream);
int weft_after(const weft_driver *d, void *stream, void *event);
int weft_wait_event(const weft_driver *d, void *event);
#endif
