package program

import (
	"fmt"
	"slices"
	"strings"

	"weft/gnn"
	"weft/kernel"
)

// Steps lists the steps that compute the program, except leaves. The steps of a message function follow it.
func (p *Program) Steps() string {
	outputs := p.build(allStates, append([]int{p.Output}, p.EdgeOutputs...)...)
	return stepsOf(newCode(inBoth, outputs, storage(false, inBoth), func(*value) bool { return false }))
}

// SparseSteps lists the steps on a graph whose features are sparse.
func (p *Program) SparseSteps() string {
	return p.forFeatures(gnn.Schema{Types: []gnn.VertexType{{Sparse: true}}}).Steps()
}

// Expressions returns the expressions of message functions, in their order.
func (p *Program) Expressions() (all []*kernel.Expression) {
	outputs := p.build(allStates, append([]int{p.Output}, p.EdgeOutputs...)...)
	c := newCode(inBoth, outputs, storage(false, inBoth), func(*value) bool { return false })
	for _, s := range c.steps {
		if r := s.regions[inBoth]; r != nil {
			for _, edgeStep := range r.edges.steps {
				if c, is := edgeStep.fused.(*cluster); is {
					all = append(all, &c.expression)
				}
			}
		}
	}
	return all
}

func stepsOf(c *code) string {
	var steps []string
	for _, s := range c.steps {
		switch s.op {
		case "features", "parameter", "constant", "edge_features", "edge_weight", "ones", "vertices":
			continue
		}
		text := s.text()
		if r := s.regions[inBoth]; r != nil {
			text += " (" + stepsOf(r.edges) + ")"
		}
		steps = append(steps, text)
	}
	return strings.Join(steps, "; ")
}

// text describes a step in a line.
func (s *step) text() string {
	switch f := s.fused.(type) {
	case *productAlong:
		return f.text()
	case *dot:
		return "dot of heads"
	case *productOverRows:
		return "product over rows"
	case *scores:
		return textOf(f.attend) + " with its scores"
	case *finish:
		var parts []string
		for _, x := range f.terms {
			parts = append(parts, x.op)
		}
		for _, x := range f.products {
			if x.along != nil {
				parts = append(parts, x.along.text())
			} else {
				parts = append(parts, "linear")
			}
		}
		parts = append(parts, slices.Repeat([]string{"bias"}, len(f.biases))...)
		text := strings.Join(parts, " + ")
		if f.norm != nil {
			text = f.norm.op + "(" + text + ")"
		}
		for act := range activations {
			if activations[act] == f.act {
				text = act + "(" + text + ")"
			}
		}
		if f.mask.P > 0 {
			text = "dropout(" + text + ")"
		}
		return text
	case *cluster:
		names := []string{s.op}
		for _, x := range f.absorbed {
			names = append(names, x.op)
		}
		slices.Sort(names)
		return "pointwise " + strings.Join(names, " ")
	}
	return textOf(s.value)
}

func (f *productAlong) text() string { return textOf(f.aggregate) + " of linear" }

// textOf describes an operation that aggregates, or names another.
func textOf(v *value) string {
	switch v.op {
	case opAggregate, "scatter":
		text := fmt.Sprintf("%s %s", v.op, v.o.Reduce)
		if v.op == "scatter" {
			text = "messages " + v.o.Reduce
			if v.regions[inBoth].columnwise {
				text += ", columnwise"
			}
		}
		if v.o.Weighted {
			text += ", weighted"
		}
		if set := v.setOfEdges(); set != stored {
			text += ", loops " + set
		}
		if v.o.End == "source" {
			text += ", reversed"
		}
		return text
	case opAttend:
		text := "attention " + []string{
			"of sums", "of combined rows", "of products", "of each column",
		}[v.attention.form]
		if v.o.Loops != stored {
			text += ", loops " + v.o.Loops
		}
		return text
	}
	return v.op
}

// Described returns, by the name of an operation, how many values it reads and its attributes.
func Described() map[string]string {
	described := map[string]string{}
	for name, k := range kinds {
		described[name] = strings.Join(append([]string{k.operands()}, strings.Fields(k.attributes)...), " ")
	}
	return described
}

// Rules returns the names of the rules, in their order.
func Rules() (names []string) {
	for _, r := range slices.Concat(rules, lowering) {
		names = append(names, r.name)
	}
	return names
}

// Without calls do while the rule of that name is off.
func Without(name string, do func()) {
	each, last := rules, lowering
	defer func() { rules, lowering = each, last }()
	is := func(r rule) bool { return r.name == name }
	rules, lowering = slices.DeleteFunc(slices.Clone(each), is), slices.DeleteFunc(slices.Clone(last), is)
	do()
}
