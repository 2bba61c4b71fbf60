//go:build !mpi

package mpi

import (
	"strings"
	"testing"

	"weft/internal/refusal"
)

func TestWithoutMPI(t *testing.T) {
	if Built() || Library() != "" {
		t.Errorf("built %v with %q", Built(), Library())
	}
	_, err := Start(0)
	if !refusal.Is(err) || !strings.Contains(err.Error(), "built without MPI") || strings.Contains(err.Error(), "\n") {
		t.Errorf("start: %v", err)
	}
}
