// NVIDIA's compiler for kernels, in a library that is loaded at run time.
#ifndef WEFT_NVRTC_H
#define WEFT_NVRTC_H
#include <stddef.h>

typedef struct {
	char *name, *text;
} weft_source;

// What is malloc'ed is the caller's, and NULL where there is none.
typedef struct {
	char *image, *log;
	size_t bytes; // of image
} weft_compiled;

// Both return NVRTC's status; −1: the library cannot be loaded or lacks a function.
int weft_nvrtc_version(const char *library, int *major, int *minor);
// The first source is the program, and the rest what it includes.
int weft_nvrtc_compile(const char *library, const weft_source *sources, int count, char **options,
	int option_count, weft_compiled *compiled);
#endif
