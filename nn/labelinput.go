package nn

import "weft/autograd"

// LabelInput gives a model the labels of some training vertices as input beside the features (masked label
// prediction; Shi et al. 2021, section 3.2; DGL's --use-labels). An epoch shows each label with a
// probability, and computes the loss of the others. Inference shows all labels.
type LabelInput struct {
	Probability float64 // in [0, 1); 0: no labels are input
	Seed        uint64
}

// Shows returns which vertices, by their original ids, show their labels in an epoch; 0 is inference. The
// answer does not depend on which worker holds a vertex.
func (l LabelInput) Shows(epoch int) func(vertex int64) bool {
	if epoch == 0 {
		return func(int64) bool { return true }
	}
	key := autograd.Random{Seed: l.Seed, Epoch: epoch}.Key("label-input")
	return func(vertex int64) bool {
		return float64(autograd.Mix(key^uint64(vertex))>>11) < l.Probability*(1<<53)
	}
}
