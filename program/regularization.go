package program

import (
	"errors"
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// checkRegularization checks that the number that is added to the loss depends on parameters of the model
// alone, and builds it.
func (p *Program) checkRegularization() error {
	if p.Regularization == nil {
		return nil
	}
	at := *p.Regularization
	if at < 0 || at >= len(p.Operations) {
		return fmt.Errorf("regularization: there is no value %d, as there are %d operations", at, len(p.Operations))
	}
	if t := p.types[at]; t.Rows != None || t.size() != 1 {
		return fmt.Errorf("regularization: %s, and it is one number", t)
	}
	read := map[string]bool{}
	for _, v := range reachable(p.built...) {
		if v.op == "parameter" {
			read[v.o.Name] = true
		}
		if v.op == "batch_norm" {
			read[v.o.Weight], read[v.o.Bias] = true, true
		}
	}
	p.added = p.build(allStates, at)[0]
	for _, v := range reachable(p.added) {
		switch {
		case v.Rows != None || v.op == "vertices":
			return errors.New("regularization: depends on the graph, and it is of parameters alone")
		case v.op == "parameter" && !read[v.o.Name]:
			return fmt.Errorf("regularization: reads %q, which the model does not", v.o.Name)
		}
	}
	return nil
}

// Regularization is what a program adds to the loss, as a worker computes it: of its stage's parameters.
type Regularization struct {
	block *block
	total *value
}

// NewRegularization returns the terms of the regularization that are of the parameters of a stage; nil: there
// are none. The first stage has those of no trained parameters. It refuses a term of which other stages hold
// parameters, too.
func (p *Program) NewRegularization(ps *nn.Params, first bool) (*Regularization, error) {
	if p == nil || p.added == nil {
		return nil, nil
	}
	total, err := p.termsHere(first, func(name string) bool { return ps.Named(name) != nil })
	if total == nil || err != nil {
		return nil, err
	}
	c := newCode(inTraining, []*value{total}, storage(false, inTraining), func(*value) bool { return false })
	return &Regularization{p.newBlock(gnn.Env{Params: ps}, c, nil, nil), total}, nil
}

// termsHere is the sum of the terms of which all trained parameters are here, and on the first stage of those
// that have none.
func (p *Program) termsHere(first bool, here func(name string) bool) (total *value, err error) {
	b := &builder{program: p, known: map[string]*value{}}
	again := map[*value]*value{}
	for _, v := range reachable(p.added) {
		again[v] = b.again(v, again)
	}
	factors := map[*value]float64{p.added: 1}
	for _, v := range slices.Backward(reachable(p.added)) {
		factor := factors[v]
		if factor == 0 {
			continue
		}
		if parts := partsOf(v); parts != nil {
			for x, by := range parts {
				factors[x] += factor * by
			}
			continue
		}
		held, trained := 0, 0
		for _, x := range reachable(v) {
			if x.op == "parameter" && p.Parameter(x.o.Name).Trained {
				trained++
				if here(x.o.Name) {
					held++
				}
			}
		}
		switch {
		case held == 0 && (trained > 0 || !first):
			continue
		case held < trained:
			return nil, fmt.Errorf("the regularization has a term of parameters of several stages (%s); write a sum "+
				"of terms that are each of one layer's, or take --parallel graph=N", v.describe())
		}
		term := b.make(Operation{Op: "mul"}, b.make(Operation{Op: "reshape"}, again[v]), b.constant(factor))
		if total != nil {
			term = b.make(Operation{Op: "add"}, total, term)
		}
		total = term
	}
	return total, nil
}

// partsOf are the values of which v is a sum with these factors; nil: it is none.
func partsOf(v *value) map[*value]float64 {
	number := func(k int) (float64, bool) { return v.in[k].isConstant() }
	switch v.op {
	case "add", "sub":
		sign := map[string]float64{"add": 1, "sub": -1}[v.op]
		parts := map[*value]float64{v.in[0]: 1}
		parts[v.in[1]] += sign
		return parts
	case "neg":
		return map[*value]float64{v.in[0]: -1}
	case "reshape":
		return map[*value]float64{v.in[0]: 1}
	case "mul":
		for k := range 2 {
			if c, is := number(k); is {
				return map[*value]float64{v.in[1-k]: c}
			}
		}
	case "div":
		if c, is := number(1); is {
			return map[*value]float64{v.in[0]: 1 / c}
		}
	}
	return nil
}

// AddGradient adds the gradient to those of the parameters, and returns the value.
func (r *Regularization) AddGradient(team *kernel.Team) (added float64) {
	t := autograd.NewTrainingTape(team, autograd.Random{})
	t.Storage = tensor.Float32
	z := t.Scope(func() *autograd.Var {
		p := &pass{block: r.block, code: r.block.code, tape: t, vars: map[*value]*autograd.Var{}}
		return p.result(r.total)
	})
	for _, x := range z.Value().ReadFloats() { // one, and none in a plan
		added = float64(x)
	}
	root := team.Memory.New(tensor.Gradients, 1, 1)
	team.Fill(root, 1)
	t.Backward(autograd.Root{Var: z, Grad: root})
	return added
}
