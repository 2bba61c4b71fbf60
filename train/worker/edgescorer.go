package worker

import (
	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// EdgeScorer computes outputs of edges from the rows of the vertices at their ends.
type EdgeScorer struct {
	gnn.EdgeScorer
	Team      *kernel.Team
	Function  func(gnn.Edges) *autograd.Var // made by EdgeScorer.Rows
	Row       func(kind int, vertex int32) []float32
	Recording bool // the tape has the gradients of Source, Target and Features
}

// EdgeScores are outputs of edges, and what they were computed from, on a tape of their own.
type EdgeScores struct {
	gnn.Edges
	Outputs *autograd.Var // edges × outputs, Float32
}

// Score computes the outputs of edges from one number to before another.
func (s *EdgeScorer) Score(e *graph.Edges, from, to int) EdgeScores {
	tape, set := autograd.NewTape(s.Team), &autograd.RowSet{Here: to - from, Total: autograd.NotVertices}
	tape.Recording = s.Recording
	rows := func(columns int, row func(edge int) []float32) *tensor.Matrix {
		m := s.Team.Memory.New(tensor.Buffers, set.Here, columns)
		values := m.WriteFloats()
		for k := range set.Here {
			copy(values[k*columns:(k+1)*columns], row(from+k))
		}
		return m
	}
	end := func(kind int, vertices []int32) *autograd.Var {
		row := func(edge int) []float32 { return s.Row(kind, vertices[edge]) }
		return tape.Input(rows(s.Width, row), set)
	}
	read := gnn.Edges{Tape: tape, Source: end(s.Source, e.Source), Target: end(s.Target, e.Target)}
	if f := s.Features; f > 0 {
		read.Features = tape.Input(rows(f, func(edge int) []float32 { return e.Features[edge*f:] }), set)
	}
	if s.Weighted {
		read.Weight = tape.Constant(rows(1, func(edge int) []float32 { return e.Weights[edge:] }), set)
	}
	return EdgeScores{read, tape.Scope(func() *autograd.Var { return autograd.Float32(s.Function(read)) })}
}

// Release releases what the outputs were computed from.
func (s *EdgeScores) Release() {
	for _, v := range []*autograd.Var{s.Source, s.Target, s.Features, s.Weight} {
		if v != nil {
			v.Value().Release()
		}
	}
}
