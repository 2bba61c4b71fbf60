// The part of MPI that weft needs, with plain types, for both Open MPI and MPICH. One thread makes every call
// from weft_mpi_init on. A message under way has a slot, a small number that the caller chooses. Functions
// return an MPI error code, 0 for none.

// Loads a library of MPI. The loader searches for it if its name has no slash. Returns NULL, or the reason
// why it does not load. It is called before all other functions.
const char *weft_mpi_load(const char *name);

// The loaded library: its own text of name and version, its file, and whether it has MPICH's binary
// interface.
const char *weft_mpi_library(void);
const char *weft_mpi_file(void);
int weft_mpi_is_mpich(void);

// Initialises MPI, and duplicates MPI_COMM_WORLD, so that messages of other code are not taken for weft's.
int weft_mpi_init(int *rank, int *size);

// Whether the library accepts addresses of an NVIDIA GPU, as it says itself after weft_mpi_init.
int weft_mpi_takes_device(void);

// Begin to send or receive a message in a free slot. data must stay valid until the message ends.
int weft_mpi_send(const void *data, int bytes, int to, int tag, int slot);
int weft_mpi_receive(void *data, int bytes, int from, int tag, int slot);

typedef struct {
	int slot;
	int error; // an MPI error code
	int bytes; // of a receive
} weft_mpi_end;

// Waits until messages end, and returns them. Their slots are free again. *ends is valid until the next call.
// After a weft_mpi_wake it also returns, perhaps with no message.
int weft_mpi_wait(int *count, const weft_mpi_end **ends);

// Ends the current or the next weft_mpi_wait. Any thread may call it after weft_mpi_init.
void weft_mpi_wake(void);

// Changes by `more` the number of messages under way for which the program waits. Any thread may call it.
void weft_mpi_await(int more);

int weft_mpi_finalize(void);

// Whether an error means that a message was longer than the buffer of its receive.
int weft_mpi_is_truncation(int error);

// The text of an error; valid until the next call.
const char *weft_mpi_text(int error);
