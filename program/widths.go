package program

import "slices"

// Widths returns the numbers of the features that the program reads, 0 for none, and of its outputs.
func (p *Program) Widths() (features, outputs int) {
	if i := slices.IndexFunc(p.Operations, func(o Operation) bool { return o.Op == "features" }); i >= 0 {
		features = p.Operations[i].Shape[0]
	}
	return features, p.types[p.Output].size()
}
