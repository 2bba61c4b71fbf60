package program

import "slices"

// What a program returns, and what it reads of edges.

// Outputs returns the number of columns of all outputs of vertices.
func (p *Program) Outputs() (columns int) {
	for _, of := range p.OutputsByType() {
		columns += of.Columns
	}
	return columns
}

// Output is what a program gives for the vertices of a type, or the edges of a relation.
type Output struct {
	Of      string // the vertex type or the relation; empty: there is one
	Columns int
}

// OutputsByType returns the program's outputs of vertices.
func (p *Program) OutputsByType() []Output { return p.outputsAt(p.outputs()) }

// OutputsByRelation returns the program's outputs of edges; their Of is the relation, empty if there is one.
func (p *Program) OutputsByRelation() []Output { return p.outputsAt(p.EdgeOutputs) }

func (p *Program) outputsAt(values []int) (all []Output) {
	for _, at := range values {
		all = append(all, Output{p.types[at].Of, p.types[at].size()})
	}
	return all
}

// OutputType returns the vertex type of the first output's rows; empty: there is one.
func (p *Program) OutputType() string { return p.types[p.Output].Of }

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
