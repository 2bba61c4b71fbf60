package exchange_test

import (
	"errors"
	"testing"

	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// TestBesidePanics: the error of a halo exchange is the reason why its other side panicked, such as memory
// that was refused.
func TestBesidePanics(t *testing.T) {
	for _, cause := range []error{
		tensor.OutOfMemory{Bytes: 1, Err: errors.New("none is left")},
		errors.New("a fault"),
	} {
		err := exchange.Beside(comm.Alone(), []exchange.Side{func(*comm.Comm) error {
			panic(exchange.Failure{Err: cause})
		}}, func() error { return nil })
		if !errors.Is(err, cause) {
			t.Errorf("%v, want one that wraps %v", err, cause)
		}
	}
}
