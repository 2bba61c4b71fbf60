package kernel

import (
	"errors"
	"testing"

	"weft/tensor"
)

// TestRefusedProduct: a product that lacks memory is an OutOfMemory, of which a job makes a failed run;
// another refusal is not.
func TestRefusedProduct(t *testing.T) {
	const memory, invalidArguments = 1, 2 // of oneDNN's statuses
	if err, ok := refused(memory, 3, 5, 7).(error); !ok || !errors.As(err, &tensor.OutOfMemory{}) {
		t.Errorf("without memory: %v", refused(memory, 3, 5, 7))
	}
	if _, ok := refused(invalidArguments, 3, 5, 7).(error); ok {
		t.Error("invalid arguments are an error of the system's")
	}
}
