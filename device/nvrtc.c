#include "nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>

int weft_nvrtc_version(const char *library, int *major, int *minor) {
	void *from = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int (*version)(int *, int *) = from ? dlsym(from, "nvrtcVersion") : NULL;
	return version ? version(major, minor) : -1;
}

int weft_nvrtc_compile(const char *library, const weft_source *sources, int count, char **options,
	int option_count, weft_compiled *compiled) {
	void *from = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!from)
		return -1;
#define FIND(name, ...) \
	int (*name)(__VA_ARGS__) = dlsym(from, "nvrtc" #name); \
	if (!name) \
		return -1;
	FIND(CreateProgram, void **program, const char *text, const char *name, int count, char **texts,
		char **names)
	FIND(CompileProgram, void *program, int count, char **options)
	FIND(DestroyProgram, void **program)
	FIND(GetProgramLogSize, void *program, size_t *bytes)
	FIND(GetProgramLog, void *program, char *log)
	FIND(GetCUBINSize, void *program, size_t *bytes)
	FIND(GetCUBIN, void *program, char *image)
	char *texts[count], *names[count];
	for (int i = 1; i < count; i++)
		texts[i - 1] = sources[i].text, names[i - 1] = sources[i].name;
	void *program;
	int status = CreateProgram(&program, sources[0].text, sources[0].name, count - 1, texts, names);
	if (status)
		return status;
	status = CompileProgram(program, option_count, options);
	size_t bytes;
	if (!GetProgramLogSize(program, &bytes) && (compiled->log = calloc(1, bytes + 1)))
		GetProgramLog(program, compiled->log);
	if (!status)
		status = GetCUBINSize(program, &compiled->bytes);
	if (!status && (compiled->image = malloc(compiled->bytes)))
		status = GetCUBIN(program, compiled->image);
	DestroyProgram(&program);
	return status;
}
