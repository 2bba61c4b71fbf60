package program

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"weft/internal/refusal"
)

// Hidden returns the program up to the input of its last layer with trained parameters, whose rows are the
// embeddings. It refuses a program whose last layer has several inputs of vertices, or none.
func (p *Program) Hidden() (*Program, error) {
	last, trained := 0, make([]bool, len(p.Operations)) // by operation: it is a tensor of trained parameters
	for k, o := range p.Operations {
		reads := slices.ContainsFunc(o.In, func(x int) bool { return trained[x] })
		switch {
		case p.types[k].Rows == None:
			trained[k] = reads || o.Op == "parameter" && p.Parameter(o.Name).Trained
		case reads || o.Op == "batch_norm":
			last = k
		}
	}
	path := p.Operations[last].Path
	within := func(k int) bool {
		return k == last || path != "" && strings.HasPrefix(p.Operations[k].Path+".", path+".")
	}
	var inputs []int
	for k, o := range p.Operations {
		for _, x := range o.In {
			if within(k) && !within(x) && x < last && p.types[x].Rows == Vertices &&
				!slices.Contains(inputs, x) {
				inputs = append(inputs, x)
			}
		}
	}
	if len(inputs) != 1 {
		return nil, refusal.Errorf("embeddings: %s of the model %s has %d inputs of vertices, and they are the "+
			"only one; name a layer in Python: run.embeddings(of=…)", cmp.Or(path, "the last layer"), p.Class,
			len(inputs))
	}
	cut := *p
	cut.Operations, cut.Output = p.Operations[:inputs[0]+1], inputs[0]
	cut.Others, cut.EdgeOutputs, cut.Updates = nil, nil, nil
	return Read(bytes.NewReader(cut.Text()))
}
