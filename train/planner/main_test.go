package planner

import (
	"os"
	"testing"

	"weft/partition/metis"
)

// TestMain runs METIS where a test has started it.
func TestMain(m *testing.M) {
	metis.Child()
	os.Exit(m.Run())
}
