package program

import (
	"fmt"
	"slices"

	"weft/gnn"
	"weft/internal/refusal"
)

// Checks that a graph has everything that a program reads, and that its labels need as many outputs as the
// program has.

// checkEdgeOutput refuses a program unless it has one output of edges, for this relation.
func (p *Program) checkEdgeOutput(relation string) error {
	all := p.OutputsByRelation()
	if len(all) != 1 || all[0].TypeName != "" && all[0].TypeName != relation {
		return refusal.Errorf("the model %s does not return one row for each edge whose label is learned; return "+
			"these rows alone, edges × outputs", p.Class)
	}
	return nil
}

// refuseOutputs returns the refusal of labels that need outputs outputs, while the program has n.
func (p *Program) refuseOutputs(n, outputs int) error {
	return refusal.Errorf("the model %s has %d outputs, and the graph's labels need %d; change its last layer",
		p.Class, n, outputs)
}

// fits refuses a graph that lacks something that the program reads, or whose labels need another number of
// outputs.
func (p *Program) fits(schema gnn.Schema, outputs int) error {
	if err := p.fitsRows(schema); err != nil {
		return err
	}
	wanted := schema.Outputs
	if wanted == nil {
		wanted = []int{0}
	}
	var kinds []int
	for _, v := range p.built {
		if v.Rows == Vertices {
			kinds = append(kinds, schema.TypeOf(v.TypeName))
		}
	}
	if slices.Sort(kinds); !slices.Equal(kinds, wanted) {
		return refusal.Errorf("the model %s has outputs for the vertices of type %q alone, and others are to be "+
			"learned; return the logits of these", p.Class, p.OutputType())
	}
	if n := p.Outputs(); outputs > 0 && n != outputs {
		return p.refuseOutputs(n, outputs)
	}
	return nil
}

// fitsOperation refuses a graph that lacks something that an operation reads.
func (p *Program) fitsOperation(schema gnn.Schema, o *Operation, t Type) error {
	refuse := func(format string, args ...any) error {
		return refusal.Errorf("the model %s %s; trace it for this graph", p.Class, fmt.Sprintf(format, args...))
	}
	fits := func(what string, there, wanted int) error {
		if there == wanted {
			return nil
		}
		if t.TypeName != "" {
			what += fmt.Sprintf(" of %q", t.TypeName)
		}
		return refuse("reads %d %s, and the graph has %d", wanted, what, there)
	}
	switch t.Rows {
	case Vertices:
		i := schema.TypeOf(t.TypeName)
		switch {
		case i < 0:
			return refuse("reads vertices of type %q, and the graph has none", t.TypeName)
		case o.Op == "features":
			return fits("features of vertices", schema.Types[i].Columns, o.Shape[0])
		case o.Op == "table":
			return fits("vertices", schema.Types[i].Vertices, p.Parameter(o.Name).Shape[0])
		}
	case Edges:
		if len(schema.Relations) == 0 { // the schema is of a graph whose edges are not read yet
			return nil
		}
		r, want := schema.RelationOf(t.TypeName), p.relation(t.TypeName)
		switch {
		case r == nil || schema.TypeOf(want.Source) != r.Source || schema.TypeOf(want.Target) != r.Target:
			return refuse("reads the relation %q from %q to %q, and the graph has none", t.TypeName, want.Source, want.Target)
		case o.Op == "edge_features":
			return fits("features of edges", r.Columns, o.Shape[0])
		case o.Op == "edge_weight" && r.Unweighted:
			return refusal.Errorf("the model %s reads the weights of edges, and the graph has none; store "+
				"weights, or trace the model without", p.Class)
		}
	}
	return nil
}

// fitsRows refuses a graph that lacks something that the program reads.
func (p *Program) fitsRows(schema gnn.Schema) error {
	if len(p.Relations) == 0 && schema.Typed() {
		return refusal.Errorf("the model %s is for one type of vertices and of edges, and the graph has more; take "+
			"a graph of one type, or trace it for this graph", p.Class)
	}
	for i := range p.Operations {
		if err := p.fitsOperation(schema, &p.Operations[i], p.types[i]); err != nil {
			return err
		}
	}
	for _, v := range reachable(p.built...) {
		if isNormOfEdges(v) && v.o.End == "" {
			return refusal.Errorf("the model %s has a %s of edges that are aggregated at their sources and at "+
				"their targets; take a norm of each row, as torch.nn.LayerNorm, or one model for each end",
				p.Class, v.describe())
		}
	}
	return nil
}
