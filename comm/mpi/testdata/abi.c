// Asserts that the numbers of abi.h equal those of the mpi.h with which this file is compiled, Open MPI's or
// MPICH's.
#include <mpi.h>
#include <stddef.h>

#include "../abi.h"

#ifdef OPEN_MPI
#define OURS(name) OPENMPI_##name
_Static_assert((void *)MPI_COMM_WORLD == &ompi_mpi_comm_world, "MPI_COMM_WORLD");
_Static_assert((void *)MPI_BYTE == &ompi_mpi_byte, "MPI_BYTE");
_Static_assert((void *)MPI_ERRORS_RETURN == &ompi_mpi_errors_return, "MPI_ERRORS_RETURN");
_Static_assert((void *)MPI_REQUEST_NULL == &ompi_request_null, "MPI_REQUEST_NULL");
#else
#define OURS(name) MPICH_##name
_Static_assert(MPICH_COMM_WORLD == MPI_COMM_WORLD, "MPI_COMM_WORLD");
_Static_assert(MPICH_BYTE == MPI_BYTE, "MPI_BYTE");
_Static_assert(MPICH_ERRORS_RETURN == MPI_ERRORS_RETURN, "MPI_ERRORS_RETURN");
_Static_assert(MPICH_REQUEST_NULL == MPI_REQUEST_NULL, "MPI_REQUEST_NULL");
int (*in_all_libraries)(MPI_Comm, int, void *, void *, void *, int *) = MPIR_Dup_fn;
#endif

_Static_assert(OURS(HANDLE) == sizeof(MPI_Comm), "MPI_Comm");
_Static_assert(OURS(HANDLE) == sizeof(MPI_Datatype), "MPI_Datatype");
_Static_assert(OURS(HANDLE) == sizeof(MPI_Errhandler), "MPI_Errhandler");
_Static_assert(OURS(HANDLE) == sizeof(MPI_Request), "MPI_Request");
_Static_assert(OURS(STATUS) == sizeof(MPI_Status), "MPI_Status");
_Static_assert(OURS(STATUS_ERROR) == offsetof(MPI_Status, MPI_ERROR), "MPI_ERROR");
_Static_assert(sizeof(int) == sizeof(((MPI_Status *)0)->MPI_ERROR), "MPI_ERROR");
_Static_assert(OURS(ERR_TRUNCATE) == MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE");
_Static_assert(OURS(ERR_OTHER) == MPI_ERR_OTHER, "MPI_ERR_OTHER");
_Static_assert(OURS(ERR_IN_STATUS) == MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS");
_Static_assert(OURS(ERR_NO_MEM) == MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM");
_Static_assert(SUCCESS == MPI_SUCCESS, "MPI_SUCCESS");
_Static_assert(THREAD_FUNNELED == MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED");
_Static_assert(UNDEFINED == MPI_UNDEFINED, "MPI_UNDEFINED");
_Static_assert(TEXT >= MPI_MAX_ERROR_STRING, "MPI_MAX_ERROR_STRING");
_Static_assert(TEXT >= MPI_MAX_LIBRARY_VERSION_STRING, "MPI_MAX_LIBRARY_VERSION_STRING");
