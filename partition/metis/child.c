// The child process of Solve. It is this program started again under the name weft-metis. METIS runs while
// the loader initialises the program, and the process ends before Go's runtime begins.
#include "child.h"

#include <metis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if IDXTYPEWIDTH != 32
#error "weft is built with a METIS of 32-bit indices, as Debian has it"
#endif

enum { shared = 3 }; // the descriptor of the memory

static int solve(void)
{
	struct problem p;
	// METIS aborts on some inputs. Then no core file should be left.
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	if (pread(shared, &p, sizeof p, 0) != sizeof p) {
		fprintf(stderr, "weft-metis: no graph came with this name\n");
		return 1;
	}
	idx_t *memory = mmap(NULL, 4 * p.words, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (memory == MAP_FAILED) {
		perror("weft-metis");
		return 1;
	}
	idx_t options[METIS_NOPTIONS], cut;
	METIS_SetDefaultOptions(options);
	options[METIS_OPTION_SEED] = p.seed;
	((struct problem *)memory)->status = METIS_PartGraphKway(
	    &p.vertices, &p.constraints, memory + p.indptr, memory + p.neighbours,
	    p.vertex_weights ? memory + p.vertex_weights : NULL, NULL,
	    p.edge_weights ? memory + p.edge_weights : NULL, &p.parts, NULL, NULL, options, &cut,
	    memory + p.part);
	return 0;
}

__attribute__((constructor)) static void child(int argc, char **argv)
{
	if (argc != 1 || strcmp(argv[0], "weft-metis") || !getenv("WEFT_RUN_METIS")) return;
	int status = solve();
	fflush(NULL); // the output of METIS
	_exit(status);
}
