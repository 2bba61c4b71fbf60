// A stub of NVRTC. The environment sets how it behaves:
//   STUB_VERSION  its version
//   STUB_LOG      a file to which each compilation appends its options
//   STUB_FAILS    if set, a text with which compilations fail; one that begins with - is an option, and
//                 compilations that have it fail, with status 5
// It refuses a program without the headers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[4096];

int nvrtcVersion(int *major, int *minor) {
	return sscanf(getenv("STUB_VERSION"), "%d.%d", major, minor) != 2;
}
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, char **texts,
                       char **names) {
	int found = 0;
	for (int i = 0; i < count; i++)
		if (!strchr(names[i], '.') || !strchr(texts[i], ' '))
			return 1;
		else
			found += !strcmp(names[i], "weft.h") || !strcmp(names[i], "warp.cuh") ||
			         !strcmp(names[i], "stdint.h");
	*program = text;
	return strcmp(name, "kernels.cu") || !strstr(source, "#include") || found != 3;
}
int nvrtcCompileProgram(void *program, int count, char **options) {
	FILE *log = fopen(getenv("STUB_LOG"), "a");
	*text = 0;
	for (int i = 0; i < count; i++)
		strcat(strcat(text, options[i]), " ");
	fprintf(log, "%s\n", text);
	fclose(log);
	const char *fails = getenv("STUB_FAILS");
	return !*fails ? 0 : *fails != '-' ? 6 : strstr(text, fails) ? 5 : 0;
}
int nvrtcDestroyProgram(void **program) { return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *bytes) { *bytes = 100; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { strcpy(log, getenv("STUB_FAILS")); return 0; }
int nvrtcGetCUBINSize(void *program, size_t *bytes) { *bytes = strlen(text) + 1; return 0; }
int nvrtcGetCUBIN(void *program, char *image) { strcpy(image, text); return 0; }
