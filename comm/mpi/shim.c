//go:build mpi

#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

static MPI_Comm ours;
static int wake = -1; // an eventfd
static atomic_int awaited; // messages under way that somebody waits for

// By slot, slots of them. A free one holds MPI_REQUEST_NULL, which MPI_Testsome passes over.
static MPI_Request *requests;
static int slots;

// Room for MPI_Testsome to report on every slot.
static int *which;
static MPI_Status *statuses;
static weft_mpi_end *ended;

int weft_mpi_init(int *rank, int *size)
{
	// Open MPI has handlers of its own for faults, without the SA_ONSTACK that Go needs.
	setenv("OMPI_MCA_opal_signal", "", 1);

	// Networks that register memory like to keep the registration until they see it unmapped, by intercepting
	// the C library. Go unmaps by system calls, which they do not see: the next mapping at the address would
	// be sent or received through the old one's pages. So no registration is kept, unless the user says
	// otherwise.
	setenv("OMPI_MCA_mpi_leave_pinned", "0", 0);
	setenv("UCX_RCACHE_ENABLE", "n", 0);
	setenv("FI_MR_CACHE_MONITOR", "disabled", 0);

	int provided;
	int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
	if (error) return error;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (provided < MPI_THREAD_FUNNELED) return MPI_ERR_OTHER;
	if ((error = MPI_Comm_dup(MPI_COMM_WORLD, &ours))) return error;
	if ((error = MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN))) return error;
	if ((wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) return MPI_ERR_OTHER;
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); // this thread rests to the microsecond, not to 50
	if ((error = MPI_Comm_rank(ours, rank))) return error;
	return MPI_Comm_size(ours, size);
}

// Makes room for a slot.
static int reserve(int slot)
{
	if (slot < slots) return MPI_SUCCESS;
	int more = 2 * slot + 64;
	void *p;
	if (!(p = realloc(requests, more * sizeof *requests))) return MPI_ERR_NO_MEM;
	requests = p;
	if (!(p = realloc(which, more * sizeof *which))) return MPI_ERR_NO_MEM;
	which = p;
	if (!(p = realloc(statuses, more * sizeof *statuses))) return MPI_ERR_NO_MEM;
	statuses = p;
	if (!(p = realloc(ended, more * sizeof *ended))) return MPI_ERR_NO_MEM;
	ended = p;
	while (slots < more) requests[slots++] = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

// Synchronous: small messages would pile up without limit at a receiver that does not ask for them.
int weft_mpi_send(const void *data, int bytes, int to, int tag, int slot)
{
	int error = reserve(slot);
	return error ? error : MPI_Issend(data, bytes, MPI_BYTE, to, tag, ours, &requests[slot]);
}

int weft_mpi_receive(void *data, int bytes, int from, int tag, int slot)
{
	int error = reserve(slot);
	return error ? error : MPI_Irecv(data, bytes, MPI_BYTE, from, tag, ours, &requests[slot]);
}

// Gives the messages that have ended, and whether any were under way.
static int test(int *active, int *count)
{
	int n;
	*active = *count = 0;
	int error = MPI_Testsome(slots, requests, &n, which, statuses);
	if (error && error != MPI_ERR_IN_STATUS) return error;
	if (n == MPI_UNDEFINED) return MPI_SUCCESS;
	for (int i = 0; i < n; i++) {
		ended[i].slot = which[i];
		ended[i].error = error ? statuses[i].MPI_ERROR : MPI_SUCCESS;
		ended[i].bytes = 0;
		if (!ended[i].error) MPI_Get_count(&statuses[i], MPI_BYTE, &ended[i].bytes);
	}
	*active = 1;
	*count = n;
	return MPI_SUCCESS;
}

static int64_t now(void) // in nanoseconds
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// MPI moves data only inside its calls, so that there is nothing to wait on but to poll. Ranks may outnumber
// cores, and a rank that waits must leave its core to those that compute: after a while each poll is followed
// by a rest. A rest is an eighth of the wait so far, so that polling adds no more than that to what MPI
// takes. While nobody waits for a message, the rank computes and rests are as long as they may be: what
// comes and goes meanwhile is in the buffers of the network.
int weft_mpi_wait(int *count, const weft_mpi_end **ends)
{
	const int64_t spinning = 20000, longest = 1000000;
	int64_t start = now();
	*ends = ended;
	for (;;) {
		int active;
		int error = test(&active, count);
		if (error || *count) return error;
		int64_t waited = now() - start;
		if (active && awaited && waited < spinning) continue;
		struct timespec rest = {.tv_nsec = awaited && waited / 8 < longest ? waited / 8 : longest};
		struct pollfd woken = {.fd = wake, .events = POLLIN};
		if (ppoll(&woken, 1, active ? &rest : NULL, NULL) > 0) {
			uint64_t wakes;
			if (read(wake, &wakes, sizeof wakes) == sizeof wakes) return MPI_SUCCESS;
		}
	}
}

void weft_mpi_await(int more)
{
	atomic_fetch_add(&awaited, more);
}

void weft_mpi_wake(void)
{
	uint64_t one = 1;
	while (write(wake, &one, sizeof one) < 0 && errno == EINTR) {}
}

int weft_mpi_finalize(void)
{
	MPI_Comm_free(&ours);
	return MPI_Finalize();
}

int weft_mpi_is_truncation(int error)
{
	int class;
	return !MPI_Error_class(error, &class) && class == MPI_ERR_TRUNCATE;
}

const char *weft_mpi_text(int error)
{
	static char text[MPI_MAX_ERROR_STRING];
	int length;
	return MPI_Error_string(error, text, &length) ? "an unknown error of MPI" : text;
}

const char *weft_mpi_library(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;
	return MPI_Get_library_version(text, &length) ? "an unknown MPI" : text;
}
