// The part of MPI that weft needs, with plain types, for Open MPI and MPICH alike. One thread makes every
// call from weft_mpi_init on. A message under way has a slot, a small number that the caller
// chooses. Functions return an MPI error code, 0 for none.

// Loads a library of MPI, which the loader searches for if its name has no slash. It returns NULL, or why it
// does not load. One is loaded before anything else is called.
const char *weft_mpi_load(const char *name);

// What is loaded: the library's own text of its name and version, its file, and whether it has MPICH's binary
// interface.
const char *weft_mpi_library(void);
const char *weft_mpi_file(void);
int weft_mpi_is_mpich(void);

// Begins, and duplicates MPI_COMM_WORLD, so that no other code's messages meet ours.
int weft_mpi_init(int *rank, int *size);

// Whether the library says, after the start, that it takes addresses of a GPU of NVIDIA's.
int weft_mpi_takes_device(void);

// Start a message in a free slot.
int weft_mpi_send(const void *data, int bytes, int to, int tag, int slot);
int weft_mpi_receive(void *data, int bytes, int from, int tag, int slot);

typedef struct {
	int slot;
	int error; // an MPI error code
	int bytes; // of a receive
} weft_mpi_end;

// Makes progress until messages end, and gives these: their slots are free again, and *ends is valid until
// the next call. It also returns, perhaps with none, after a weft_mpi_wake.
int weft_mpi_wait(int *count, const weft_mpi_end **ends);

// Any thread may call it, after weft_mpi_init.
void weft_mpi_wake(void);

// Says that somebody waits for so many more of the messages under way. Any thread may call it.
void weft_mpi_await(int more);

int weft_mpi_finalize(void);

// Whether an error says that a message was longer than the buffer of its receive.
int weft_mpi_is_truncation(int error);

// What an error means; valid until the next call.
const char *weft_mpi_text(int error);
