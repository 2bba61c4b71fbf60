package kernel

import (
	"errors"
	"testing"

	"weft/tensor"
)

// TestRefusedProduct: a product that lacks memory panics with an OutOfMemory, which a job turns into a failed
// run. Another refusal does not.
func TestRefusedProduct(t *testing.T) {
	const memory, invalidArguments = 1, 2 // statuses of oneDNN
	if err, ok := refused(memory, 3, 5, 7).(error); !ok || !errors.As(err, &tensor.OutOfMemory{}) {
		t.Errorf("without memory: %v", refused(memory, 3, 5, 7))
	}
	if _, ok := refused(invalidArguments, 3, 5, 7).(error); ok {
		t.Error("invalid arguments are an error of the system's")
	}
}
