// NVIDIA's compiler for kernels, in a library that is loaded at run time.
#ifndef WEFT_NVRTC_H
#define WEFT_NVRTC_H
#include <stddef.h>

typedef struct {
	char *name, *text;
} weft_source;

// The result of a compilation. image and log are allocated by malloc, and the caller frees them. Either may
// be NULL.
typedef struct {
	char *image, *log;
	size_t bytes; // of image
} weft_compiled;

// Both functions return NVRTC's status, or −1 if the library cannot be loaded or lacks a function.
int weft_nvrtc_version(const char *library, int *major, int *minor);
// The first source is the program. The others are the files that it includes.
int weft_nvrtc_compile(const char *library, const weft_source *sources, int count, char **options,
	int option_count, weft_compiled *compiled);
#endif
