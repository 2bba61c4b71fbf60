//go:build !mpi

package mpi

import (
	"time"

	"weft/comm"
	"weft/internal/refusal"
)

// Built reports whether this program contains MPI.
func Built() bool { return false }

// Library is the name and version of the MPI that this program is linked with, "" without one.
func Library() string { return "" }

// Start refuses, because this program contains no MPI.
func Start(time.Duration) (comm.Transport, error) {
	return nil, refusal.Errorf("this weft was built without MPI: install Open MPI (apt-get install libopenmpi-dev openmpi-bin) " +
		"and build it again with make build, or run it without mpirun")
}
