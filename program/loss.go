package program

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/nn"
)

// Loss is a loss as data: operations on the logits and the labels of some vertices. The last one makes one
// number. The rows of its values are these vertices, and sums over rows are over those of all workers. Labels
// that are classes have the shape [], and labels of several columns have the shape [columns].
type Loss struct {
	*Program
	logits, labels []int // their shapes
	code           *code
}

// Operations that only a loss has.
const (
	opLogits = "logits"
	opLabels = "labels"
)

// notInLosses are the operations that a loss cannot have, besides operations on rows of edges.
var notInLosses = []string{
	"features", "edge_features", "edge_weight", "parameter", "table", "gather", "dropout", "batch_norm",
	"uniform", "training",
}

// inferOfLoss returns the type of an input of a loss.
func inferOfLoss(_ *Program, o *Operation, _ []Type) (Type, error) {
	if len(o.Shape) > 1 || slices.ContainsFunc(o.Shape, notPositive) {
		return Type{}, fmt.Errorf("a shape of %v, and rows have one size", o.Shape)
	}
	return Type{Rows: Vertices, Shape: o.Shape}, nil
}

// ReadLoss reads a loss and checks it. An error is a refusal.
func ReadLoss(r io.Reader) (*Loss, error) {
	l := &Loss{}
	_, err := read(r, func(p *Program) error { l.Program = p; return l.check() })
	return l, err
}

func (l *Loss) check() error {
	p := l.Program
	if len(p.Parameters)+len(p.Relations)+len(p.Updates) > 0 {
		return errors.New("a loss has no parameters, relations or updates")
	}
	if err := p.checkOperations(); err != nil {
		return err
	}
	read := map[string]*[]int{opLogits: &l.logits, opLabels: &l.labels}
	for i, o := range p.Operations {
		if slices.Contains(notInLosses, o.Op) || p.types[i].Rows == Edges {
			return fmt.Errorf("%s: a loss reads logits and labels alone", p.describe(i))
		}
		if shape := read[o.Op]; shape != nil {
			if *shape != nil && !slices.Equal(*shape, o.Shape) {
				return fmt.Errorf("%s: %s of two shapes", p.describe(i), o.Op)
			}
			*shape = append([]int{}, o.Shape...)
		}
	}
	if t := p.types[p.Output]; t.Rows != None || t.size() != 1 {
		return fmt.Errorf("output: %s, and a loss is one number", t)
	}
	if len(p.Others)+len(p.EdgeOutputs) > 0 {
		return errors.New("output: a loss has one")
	}
	p.built, p.maps = p.build(allStates, p.Output), newColumnMaps()
	isInput := func(v *value) bool { return v.op == opLogits || v.op == opLabels }
	if !slices.ContainsFunc(reachable(p.built...), func(v *value) bool { return v.op == opLogits }) {
		return errors.New("output: does not depend on the logits")
	}
	l.code = newCode(inBoth, p.built, storage(false, inBoth), isInput)
	return nil
}

// Check refuses a graph whose labels the loss does not fit. The graph has so many classes or columns; several
// says that they are columns, because a vertex has several labels, or values.
func (l *Loss) Check(columns int, several bool) error {
	fits := l.labels == nil || several && size(l.labels) == columns || !several && len(l.labels) == 0
	switch {
	case size(l.logits) != columns:
		return refusal.Errorf("the loss %s reads %d logits of a vertex, and the graph's labels need %d; trace it "+
			"for this graph", l.Class, size(l.logits), columns)
	case !fits:
		return refusal.Errorf("the loss %s reads labels of shape %v, and those of the graph are other ones; trace "+
			"it for this graph", l.Class, l.labels)
	}
	return nil
}

// For returns the loss as a function on a worker.
func (l *Loss) For() nn.LossFunc {
	b := l.newBlock(gnn.Env{}, l.code, nil, nil)
	return func(output *autograd.Var, labels nn.Labels) *autograd.Var {
		p := &pass{block: b, code: l.code, rows: output, tape: output.Tape()}
		p.vars = map[*value]*autograd.Var{}
		for _, v := range reachable(l.built...) {
			switch v.op {
			case opLogits:
				p.vars[v] = output
			case opLabels:
				p.vars[v] = labels.AsRows(output)
			}
		}
		return p.result(l.built[0])
	}
}
