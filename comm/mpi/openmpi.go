//go:build mpi && !mpich

package mpi

// The library is chosen by file, since Go's build cache does not see a tag that only a #cgo line depends on.

// #cgo pkg-config: ompi-c
import "C"
