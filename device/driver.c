#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>

// Numbers of NVIDIA's cuda.h.
enum {
	COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76, PAGEABLE_MEMORY_ACCESS = 88,
	L2_CACHE_SIZE = 38
};
enum { HOST_MEMORY_FULL = 2 }; // CUDA_ERROR_OUT_OF_MEMORY
enum { STREAM_NON_BLOCKING = 1, EVENT_BLOCKING_SYNC = 1, EVENT_DISABLE_TIMING = 2 };
#define LAUNCH_BUFFER_POINTER ((void *)1)
#define LAUNCH_BUFFER_SIZE ((void *)2)

int weft_load(weft_driver *d, const char *library, const char **loader, const char **missing) {
	void *from = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!from) {
		*loader = dlerror();
		return -1;
	}
#define FIND(name, parameters) \
	if (!(*(void **)&d->name = dlsym(from, #name))) { \
		*missing = #name; \
		return -1; \
	}
	WEFT_DRIVER_FUNCTIONS(FIND)
	d->has_graphs = 1;
#define LOOK_FOR(name, parameters) d->has_graphs &= !!(*(void **)&d->name = dlsym(from, #name));
	WEFT_GRAPH_FUNCTIONS(LOOK_FOR)
	int (*on_cpu)(void) = dlsym(from, "weft_on_cpu");
	d->needs_no_code = on_cpu && on_cpu();
	return 0;
}

// A goroutine may move to another thread, and a context belongs to a thread. So each call first sets the
// context.
#define IN_CONTEXT(call) \
	int status = d->cuCtxSetCurrent(d->context); \
	return status ? status : d->call

int weft_version(const weft_driver *d, int *version) { return d->cuDriverGetVersion(version); }
int weft_start(const weft_driver *d, int *cards) {
	int status = d->cuInit(0);
	return status ? status : d->cuDeviceGetCount(cards);
}
void weft_error(const weft_driver *d, int status, const char **name, const char **text) {
	if (d->cuGetErrorName(status, name))
		*name = NULL;
	if (d->cuGetErrorString(status, text))
		*text = NULL;
}
int weft_select(weft_driver *d, int number, char *name, int bytes, char uuid[16], int *major, int *minor) {
	int status = d->cuDeviceGet(&d->device, number);
	if (!status)
		status = d->cuDeviceGetName(name, bytes, d->device);
	if (!status)
		status = d->cuDeviceGetUuid_v2(uuid, d->device);
	if (!status)
		status = d->cuDeviceGetAttribute(major, COMPUTE_CAPABILITY_MAJOR, d->device);
	if (!status)
		status = d->cuDeviceGetAttribute(minor, COMPUTE_CAPABILITY_MINOR, d->device);
	if (!status)
		status = d->cuDeviceGetAttribute(&d->cache, L2_CACHE_SIZE, d->device);
	return status ? status : d->cuDeviceGetAttribute(&d->reads_pageable, PAGEABLE_MEMORY_ACCESS, d->device);
}
int weft_begin(weft_driver *d) {
	int status = d->cuDevicePrimaryCtxRetain(&d->context, d->device);
	if (status)
		d->context = NULL;
	return status;
}
int weft_use(const weft_driver *d) { return d->cuCtxSetCurrent(d->context); }
int weft_end(weft_driver *d) {
	if (!d->context)
		return 0;
	int first = d->cuCtxSetCurrent(d->context), status = d->module ? d->cuModuleUnload(d->module) : 0;
	first = first ? first : status;
	status = d->cuDevicePrimaryCtxRelease_v2(d->device);
	return first ? first : status;
}
int weft_stream(const weft_driver *d, void **stream) {
	IN_CONTEXT(cuStreamCreate(stream, STREAM_NON_BLOCKING));
}
int weft_end_stream(const weft_driver *d, void *stream) { IN_CONTEXT(cuStreamDestroy_v2(stream)); }
int weft_module(weft_driver *d, const void *image) { IN_CONTEXT(cuModuleLoadData(&d->module, image)); }
int weft_function(const weft_driver *d, const char *name, void **function) {
	IN_CONTEXT(cuModuleGetFunction(function, d->module, name));
}
int weft_memory(const weft_driver *d, size_t *free, size_t *total) {
	IN_CONTEXT(cuMemGetInfo_v2(free, total));
}
int weft_alloc(const weft_driver *d, device_address *address, size_t bytes) {
	IN_CONTEXT(cuMemAlloc_v2(address, bytes));
}
int weft_free(const weft_driver *d, device_address address) { IN_CONTEXT(cuMemFree_v2(address)); }
int weft_to_device(const weft_driver *d, void *stream, device_address to, const void *from, size_t bytes) {
	int status = weft_up(d, stream, to, from, bytes);
	return status || !d->reads_pageable ? status : d->cuStreamSynchronize(stream);
}
int weft_to_host(const weft_driver *d, void *stream, void *to, device_address from, size_t bytes) {
	IN_CONTEXT(cuMemcpyDtoHAsync_v2(to, from, bytes, stream));
}
int weft_copy(const weft_driver *d, void *stream, device_address to, device_address from, size_t bytes) {
	IN_CONTEXT(cuMemcpyDtoDAsync_v2(to, from, bytes, stream));
}
int weft_launch(const weft_driver *d, void *stream, const weft_kernel *kernels, int n, char *args,
                int *failed) {
	int status = d->cuCtxSetCurrent(d->context);
	for (*failed = 0; *failed < n && !status; ++*failed) {
		const weft_kernel *k = &kernels[*failed];
		size_t bytes = k->bytes;
		void *extra[] = {LAUNCH_BUFFER_POINTER, args + k->at, LAUNCH_BUFFER_SIZE, &bytes, NULL};
		status = d->cuLaunchKernel(k->function, k->blocks, 1, 1, k->threads, 1, 1, 0, stream, NULL, extra);
		if (status)
			break;
	}
	return status;
}
static weft_node node_of(const weft_kernel *k, void **parameters) {
	return (weft_node){.function = k->function, .grid_x = k->blocks, .grid_y = 1, .grid_z = 1,
		.block_x = k->threads, .block_y = 1, .block_z = 1, .parameters = parameters};
}
int weft_make_graph(const weft_driver *d, weft_graph *g, const weft_kernel *kernels, int n, char *args) {
	*g = (weft_graph){.nodes = calloc(n, sizeof *g->nodes)};
	int status = g->nodes ? d->cuCtxSetCurrent(d->context) : HOST_MEMORY_FULL;
	if (!status)
		status = d->cuGraphCreate(&g->graph, 0);
	for (int k = 0; k < n && !status; k++) {
		void *parameters[] = {args + kernels[k].at};
		weft_node node = node_of(&kernels[k], parameters);
		status = d->cuGraphAddKernelNode_v2(&g->nodes[k], g->graph, k ? &g->nodes[k - 1] : NULL, k ? 1 : 0,
		                                    &node);
	}
	if (!status)
		status = d->cuGraphInstantiateWithFlags(&g->executable, g->graph, 0);
	if (status) {
		g->executable = NULL;
		weft_end_graph(d, g);
	}
	return status;
}
int weft_change_graph(const weft_driver *d, const weft_graph *g, const weft_kernel *kernels, char *args,
	const int *changed, int n) {
	int status = d->cuCtxSetCurrent(d->context);
	for (int i = 0; i < n && !status; i++) {
		const weft_kernel *k = &kernels[changed[i]];
		void *parameters[] = {args + k->at};
		weft_node node = node_of(k, parameters);
		status = d->cuGraphExecKernelNodeSetParams_v2(g->executable, g->nodes[changed[i]], &node);
	}
	return status;
}
int weft_run_graph(const weft_driver *d, void *stream, const weft_graph *g) {
	IN_CONTEXT(cuGraphLaunch(g->executable, stream));
}
int weft_end_graph(const weft_driver *d, weft_graph *g) {
	int first = d->cuCtxSetCurrent(d->context),
	    status = g->executable ? d->cuGraphExecDestroy(g->executable) : 0;
	first = first ? first : status;
	status = g->graph ? d->cuGraphDestroy(g->graph) : 0;
	free(g->nodes);
	*g = (weft_graph){0};
	return first ? first : status;
}
int weft_wait(const weft_driver *d, void *stream) { IN_CONTEXT(cuStreamSynchronize(stream)); }
int weft_pinned(const weft_driver *d, void **memory, size_t bytes) {
	IN_CONTEXT(cuMemHostAlloc(memory, bytes, 0));
}
int weft_free_pinned(const weft_driver *d, void *memory) { IN_CONTEXT(cuMemFreeHost(memory)); }
int weft_up(const weft_driver *d, void *stream, device_address to, const void *from, size_t bytes) {
	IN_CONTEXT(cuMemcpyHtoDAsync_v2(to, from, bytes, stream));
}
int weft_event(const weft_driver *d, void **event) {
	IN_CONTEXT(cuEventCreate(event, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING));
}
int weft_timer(const weft_driver *d, void **event) { IN_CONTEXT(cuEventCreate(event, EVENT_BLOCKING_SYNC)); }
int weft_elapsed(const weft_driver *d, float *milliseconds, void *from, void *to) {
	IN_CONTEXT(cuEventElapsedTime(milliseconds, from, to));
}
int weft_end_event(const weft_driver *d, void *event) { IN_CONTEXT(cuEventDestroy_v2(event)); }
int weft_record(const weft_driver *d, void *event, void *stream) { IN_CONTEXT(cuEventRecord(event, stream)); }
int weft_after(const weft_driver *d, void *stream, void *event) {
	IN_CONTEXT(cuStreamWaitEvent(stream, event, 0));
}
int weft_wait_event(const weft_driver *d, void *event) { IN_CONTEXT(cuEventSynchronize(event)); }
