package worker

import (
	"weft/internal/refusal"
	"weft/nn"
)

// The weights that training starts from.

// LoadInit sets the parameters to the initial weights of a file, if there is one.
func (w *model) LoadInit() error {
	if w.Init == "" {
		return nil
	}
	return ofInit(w.Init, w.Load(nn.ReadState(w.Init)))
}

// ReadInit reads the file of the initial weights.
func ReadInit(path string) (nn.State, error) {
	weights, err := nn.ReadState(path)
	return weights, ofInit(path, err)
}

// ofInit names the file in an error about the initial weights.
func ofInit(path string, err error) error {
	if refusal.Weights.In(err) {
		return refusal.Errorf("--init %s: %w", path, err)
	}
	return err
}
