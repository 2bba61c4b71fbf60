package program

import "slices"

// Questions about a program: its outputs, and how it reads edges.

// Outputs returns the number of columns of all outputs of vertices.
func (p *Program) Outputs() (columns int) {
	for _, output := range p.OutputsByType() {
		columns += output.Columns
	}
	return columns
}

// Output describes an output of a program, for the vertices of a type or for the edges of a relation.
type Output struct {
	TypeName string // the vertex type or the relation; empty: the only one
	Columns  int
}

// OutputsByType returns the program's outputs of vertices.
func (p *Program) OutputsByType() []Output { return p.outputsAt(p.outputs()) }

// OutputsByRelation returns the program's outputs of edges, whose TypeName is the relation.
func (p *Program) OutputsByRelation() []Output { return p.outputsAt(p.EdgeOutputs) }

func (p *Program) outputsAt(values []int) (all []Output) {
	for _, at := range values {
		all = append(all, Output{p.types[at].TypeName, p.types[at].size()})
	}
	return all
}

// OutputType returns the vertex type of the first output's rows; empty: the only one.
func (p *Program) OutputType() string { return p.types[p.Output].TypeName }

// ReadsWeights reports whether the program reads the weights of edges.
func (p *Program) ReadsWeights() bool {
	return slices.ContainsFunc(p.Operations, func(o Operation) bool { return o.Op == "edge_weight" })
}

// AtSources reports whether values of edges are aggregated at the edges' sources.
func (p *Program) AtSources() bool {
	return slices.ContainsFunc(p.Operations, func(o Operation) bool {
		return o.Op != "gather" && o.End == "source"
	})
}
