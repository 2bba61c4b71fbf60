// The differences between the two binary interfaces of MPI, as their mpi.h define them: Open MPI's, and
// MPICH's, which Intel MPI, MVAPICH and others share. testdata/abi.c compares these numbers with the headers.

enum {
	OPENMPI_HANDLE = 8, // bytes of a handle: a communicator, datatype, error handler or request
	OPENMPI_STATUS = 24, // bytes of an MPI_Status
	OPENMPI_STATUS_ERROR = 8, // where in it MPI_ERROR is
	OPENMPI_ERR_TRUNCATE = 15,
	OPENMPI_ERR_OTHER = 16,
	OPENMPI_ERR_IN_STATUS = 18,
	OPENMPI_ERR_NO_MEM = 39,

	MPICH_HANDLE = 4,
	MPICH_STATUS = 20,
	MPICH_STATUS_ERROR = 16,
	MPICH_ERR_TRUNCATE = 14,
	MPICH_ERR_OTHER = 15,
	MPICH_ERR_IN_STATUS = 17,
	MPICH_ERR_NO_MEM = 34,

	// MPICH's handles are numbers. Those of Open MPI are addresses in its library.
	MPICH_COMM_WORLD = 0x44000000,
	MPICH_BYTE = 0x4c00010d,
	MPICH_ERRORS_RETURN = 0x54000001,
	MPICH_REQUEST_NULL = 0x2c000000,

	// Equal in both
	SUCCESS = 0,
	THREAD_FUNNELED = 1,
	UNDEFINED = -32766,
	TEXT = 8192, // bytes that an error's text or a library's version fits into
};
