package program

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/nn"
)

// Update sets a buffer after each training pass: the parameter Name, which is not trained, becomes the value
// number Value. The value may depend only on such parameters and on constants. All buffers are set at once.
type Update struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
}

// checkUpdates checks the updates of buffers, and builds their values.
func (p *Program) checkUpdates() error {
	known, values := map[string]bool{}, []int{}
	for _, u := range p.Updates {
		q := p.Parameter(u.Name)
		switch {
		case q == nil || q.Trained || known[u.Name]:
			return fmt.Errorf("updates: %q is no parameter that is not trained, or is there twice", u.Name)
		case u.Value < 0 || u.Value >= len(p.Operations):
			return fmt.Errorf("updates: there is no value %d, as there are %d operations", u.Value, len(p.Operations))
		case slices.ContainsFunc(p.Operations, func(o Operation) bool {
			return o.Op == "batch_norm" && slices.Contains([]string{o.Mean, o.Variance, o.Batches}, u.Name)
		}):
			return fmt.Errorf("updates: %q is of a batch norm, which moves it", u.Name)
		}
		if t := p.types[u.Value]; t.Rows != None || !slices.Equal(t.Shape, q.Shape) {
			return fmt.Errorf("updates: %q of shape %v becomes %s", u.Name, q.Shape, t)
		}
		known[u.Name], values = true, append(values, u.Value)
	}
	if len(values) == 0 {
		return nil
	}
	p.updates = p.build(allStates, values...)
	for _, v := range reachable(p.updates...) {
		if v.Rows != None || v.op == "vertices" || v.op == "training" || v.op == opChoose || p.isTrained(v) {
			return fmt.Errorf("updates: %s: depends on more than buffers and constants", v.describe())
		}
	}
	return nil
}

// isTrained reports whether a value is a parameter that is trained.
func (p *Program) isTrained(v *value) bool {
	return v.op == "parameter" && p.Parameter(v.o.Name).Trained
}

// updatesOf is the key of nn.Params.OnCommitOnce for a model's updates. Parts of a model may be built from
// programs that keep different states of edges, and the updates must run once.
type updatesOf struct{}

// moveBuffers makes a set of parameters run the updates of buffers after each training pass.
func (p *Program) moveBuffers(ps *nn.Params) {
	if len(p.updates) == 0 {
		return
	}
	ps.OnCommitOnce(updatesOf{}, func() func() {
		c := newCode(inTraining, p.updates, storage(false, inTraining), func(*value) bool { return false })
		b := p.newBlock(gnn.Env{Params: ps}, c, nil, nil)
		for _, u := range p.Updates {
			b.makeParameter(ps, u.Name)
		}
		return func() {
			t := autograd.NewTape(ps.Team())
			last := t.Scope(func() *autograd.Var {
				run := &pass{block: b, code: c, tape: t, vars: map[*value]*autograd.Var{}}
				run.run()
				var made [][]float32
				for _, v := range p.updates {
					made = append(made, slices.Clone(run.value(v).Value().ReadFloats()))
				}
				for k, u := range p.Updates {
					copy(b.frozen[u.Name].Write(), made[k])
				}
				return run.value(p.updates[0])
			})
			last.Drop()
		}
	})
}
