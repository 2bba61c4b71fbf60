package paralleltest

import (
	"testing"

	"go.uber.org/goleak"

	"weft/partition/metis"
)

// TestMain runs METIS where a test has started it, and fails where a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	metis.Child()
	goleak.VerifyTestMain(m)
}
