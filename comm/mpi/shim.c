#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "shim.h"

// A handle of MPI. Open MPI's handles are pointers, and MPICH's are ints. MPICH reads an argument from the
// lower half of the register. It writes a result to the lower half of a handle that was 0 before, as the
// processors on which weft runs are little-endian.
typedef intptr_t handle;

// The functions of MPI that weft calls, by their names without MPI_. Arrays of requests and statuses have the
// library's layout, and are passed as void *.
#define FUNCTIONS(F) \
	F(Init_thread, (int *argc, char ***argv, int required, int *provided)) \
	F(Finalize, (void)) \
	F(Comm_dup, (handle comm, handle *copy)) \
	F(Comm_free, (handle *comm)) \
	F(Comm_rank, (handle comm, int *rank)) \
	F(Comm_size, (handle comm, int *size)) \
	F(Comm_set_errhandler, (handle comm, handle errhandler)) \
	F(Issend, (const void *data, int count, handle type, int to, int tag, handle comm, void *request)) \
	F(Irecv, (void *data, int count, handle type, int from, int tag, handle comm, void *request)) \
	F(Testsome, (int count, void *requests, int *ended, int *which, void *statuses)) \
	F(Get_count, (const void *status, handle type, int *count)) \
	F(Error_class, (int error, int *class)) \
	F(Error_string, (int error, char *text, int *length)) \
	F(Get_library_version, (char *text, int *length))

// The loaded library: its functions, constants and sizes.
static struct {
#define DECLARE(name, arguments) int (*name) arguments;
	FUNCTIONS(DECLARE)

	int is_mpich;
	handle comm_world, byte, errors_return, request_null;
	int handle_bytes, status_bytes, status_error;
	int err_truncate, err_other, err_in_status, err_no_mem;
} mpi;

static void *loaded; // the handle from dlopen
static int takes_device; // see weft_mpi_takes_device

// Finds the functions, constants and sizes of the library. Returns a name that it lacks, or NULL.
static const char *find(void *from)
{
#define FIND(name, arguments) \
	if (!(*(void **)&mpi.name = dlsym(from, "MPI_" #name))) return "MPI_" #name;
	FUNCTIONS(FIND)

	// Programs are linked with MPIR_Dup_fn, so that all libraries with MPICH's interface have it.
	mpi.is_mpich = dlsym(from, "MPIR_Dup_fn") != NULL;
#define TAKE(abi) \
	mpi.handle_bytes = abi##_HANDLE, mpi.status_bytes = abi##_STATUS, mpi.status_error = abi##_STATUS_ERROR, \
	mpi.err_truncate = abi##_ERR_TRUNCATE, mpi.err_other = abi##_ERR_OTHER, \
	mpi.err_in_status = abi##_ERR_IN_STATUS, mpi.err_no_mem = abi##_ERR_NO_MEM
	if (mpi.is_mpich) {
		TAKE(MPICH);
		mpi.comm_world = MPICH_COMM_WORLD;
		mpi.byte = MPICH_BYTE;
		mpi.errors_return = MPICH_ERRORS_RETURN;
		mpi.request_null = MPICH_REQUEST_NULL;
		return NULL;
	}
	TAKE(OPENMPI);
#define ADDRESS(field, name) \
	if (!(mpi.field = (handle)dlsym(from, name))) return name;
	ADDRESS(comm_world, "ompi_mpi_comm_world")
	ADDRESS(byte, "ompi_mpi_byte")
	ADDRESS(errors_return, "ompi_mpi_errors_return")
	ADDRESS(request_null, "ompi_request_null")
	return NULL;
}

// Network libraries, such as UCX, install handlers for signals when they are loaded. Their handlers lack the
// SA_ONSTACK that Go needs. So each signal that was handled or ignored before keeps its action.
static struct sigaction kept[NSIG];

static void keep_signals(void)
{
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &kept[s])) kept[s].sa_handler = SIG_DFL; // the C library's own
}

static void restore_signals(void)
{
	for (int s = 1; s < NSIG; s++)
		if (kept[s].sa_handler != SIG_DFL) sigaction(s, &kept[s], NULL);
}

// RTLD_GLOBAL: Open MPI's plugins look up the library's names in the global scope.
const char *weft_mpi_load(const char *name)
{
	static char why[1024];
	keep_signals();
	void *opened = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	restore_signals();
	if (!opened) return dlerror();
	const char *missing = find(opened);
	if (missing) {
		snprintf(why, sizeof why, "%s: neither Open MPI nor MPICH, as it lacks %s", name, missing);
		dlclose(opened);
		return why;
	}
	loaded = opened;
	return NULL;
}

const char *weft_mpi_library(void)
{
	static char text[TEXT];
	int length;
	return mpi.Get_library_version(text, &length) ? "an unknown MPI" : text;
}

int weft_mpi_is_mpich(void)
{
	return mpi.is_mpich;
}

const char *weft_mpi_file(void)
{
	struct link_map *map;
	return dlinfo(loaded, RTLD_DI_LINKMAP, &map) ? "" : map->l_name;
}

static handle ours; // the communicator
static int wake = -1; // an eventfd
static atomic_int awaited; // messages under way for which the program waits

// The requests, by slot; `slots` is their number. A free slot holds the null request, which MPI_Testsome
// ignores.
static char *requests;
static int slots;

// The buffers in which MPI_Testsome reports, with an element for each slot.
static int *which;
static char *statuses;
static weft_mpi_end *ended;

int weft_mpi_init(int *rank, int *size)
{
	// Otherwise Open MPI would handle faults.
	setenv("OMPI_MCA_opal_signal", "", 1);

	// Networks that register memory keep a registration until they see the memory unmapped, by intercepting
	// the C library. Go unmaps by system calls, which they do not see. The next mapping at the address would
	// then be sent or received through the pages of the old one. So no registration is kept, unless the user
	// sets it otherwise.
	setenv("OMPI_MCA_mpi_leave_pinned", "0", 0);
	setenv("UCX_RCACHE_ENABLE", "n", 0);
	setenv("FI_MR_CACHE_MONITOR", "disabled", 0);

	int provided;
	keep_signals();
	int error = mpi.Init_thread(NULL, NULL, THREAD_FUNNELED, &provided);
	restore_signals();
	if (error) return error;
	mpi.Comm_set_errhandler(mpi.comm_world, mpi.errors_return);
	if (provided < THREAD_FUNNELED) return mpi.err_other;
	if ((error = mpi.Comm_dup(mpi.comm_world, &ours))) return error;
	if ((error = mpi.Comm_set_errhandler(ours, mpi.errors_return))) return error;
	if ((wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) return mpi.err_other;
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); // this thread sleeps to the microsecond, not to 50
	int (*query)(void) = dlsym(loaded, "MPIX_Query_cuda_support");
	takes_device = query && query() == 1;
	if ((error = mpi.Comm_rank(ours, rank))) return error;
	return mpi.Comm_size(ours, size);
}

int weft_mpi_takes_device(void)
{
	return takes_device;
}

static char *request(int slot)
{
	return requests + (size_t)slot * mpi.handle_bytes;
}

static const char *status(int i)
{
	return statuses + (size_t)i * mpi.status_bytes;
}

// Grows the arrays so that they have the slot.
static int reserve(int slot)
{
	if (slot < slots) return SUCCESS;
	int more = 2 * slot + 64;
	void *p;
	if (!(p = realloc(requests, (size_t)more * mpi.handle_bytes))) return mpi.err_no_mem;
	requests = p;
	if (!(p = realloc(which, more * sizeof *which))) return mpi.err_no_mem;
	which = p;
	if (!(p = realloc(statuses, (size_t)more * mpi.status_bytes))) return mpi.err_no_mem;
	statuses = p;
	if (!(p = realloc(ended, more * sizeof *ended))) return mpi.err_no_mem;
	ended = p;
	for (; slots < more; slots++) memcpy(request(slots), &mpi.request_null, mpi.handle_bytes);
	return SUCCESS;
}

// Sends are synchronous: otherwise small messages would pile up without limit at a receiver that does not ask
// for them.
int weft_mpi_send(const void *data, int bytes, int to, int tag, int slot)
{
	int error = reserve(slot);
	return error ? error : mpi.Issend(data, bytes, mpi.byte, to, tag, ours, request(slot));
}

int weft_mpi_receive(void *data, int bytes, int from, int tag, int slot)
{
	int error = reserve(slot);
	return error ? error : mpi.Irecv(data, bytes, mpi.byte, from, tag, ours, request(slot));
}

// Tests all slots. *count becomes the number of messages that have ended, and *active whether any were under
// way.
static int test(int *active, int *count)
{
	int n;
	*active = *count = 0;
	int error = mpi.Testsome(slots, requests, &n, which, statuses);
	if (error && error != mpi.err_in_status) return error;
	if (n == UNDEFINED) return SUCCESS;
	for (int i = 0; i < n; i++) {
		ended[i].slot = which[i];
		ended[i].error = SUCCESS;
		if (error) memcpy(&ended[i].error, status(i) + mpi.status_error, sizeof ended[i].error);
		ended[i].bytes = 0;
		if (!ended[i].error) mpi.Get_count(status(i), mpi.byte, &ended[i].bytes);
	}
	*active = 1;
	*count = n;
	return SUCCESS;
}

static int64_t now(void) // in nanoseconds
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// MPI moves data only inside its calls, so that waiting means polling. Ranks may outnumber cores, and a rank
// that waits must leave its core to ranks that compute. So after a while each poll is followed by a sleep. A
// sleep is an eighth of the wait so far, so that polling adds no more than that to the time that MPI takes.
// While the program waits for no message, it computes, and sleeps are as long as they may be: messages that
// come and go meanwhile are in the buffers of the network.
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
			if (read(wake, &wakes, sizeof wakes) == sizeof wakes) return SUCCESS;
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
	mpi.Comm_free(&ours);
	return mpi.Finalize();
}

int weft_mpi_is_truncation(int error)
{
	int class;
	return !mpi.Error_class(error, &class) && class == mpi.err_truncate;
}

const char *weft_mpi_text(int error)
{
	static char text[TEXT];
	int length;
	return mpi.Error_string(error, text, &length) ? "an unknown error of MPI" : text;
}
