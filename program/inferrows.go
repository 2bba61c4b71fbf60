package program

import (
	"errors"
	"fmt"
	"slices"
)

// The types of operations that read the graph, or move rows along its edges.

func inferFeatures(rows RowKind) func(*Program, *Operation, []Type) (Type, error) {
	return func(p *Program, o *Operation, _ []Type) (Type, error) {
		if len(o.Shape) != 1 || o.Shape[0] < 1 {
			return Type{}, fmt.Errorf("a shape of %v, and rows of features have one size", o.Shape)
		}
		return p.rows(rows, o, o.Shape...)
	}
}

// rows returns the type of rows for the vertex type or the relation that an operation names.
func (p *Program) rows(rows RowKind, o *Operation, shape ...int) (Type, error) {
	t := Type{Rows: rows, TypeName: o.TypeName, Shape: shape}
	if rows != Edges {
		return t, nil
	}
	r := p.relation(o.TypeName)
	switch t.Loops = o.loops(); {
	case r == nil:
		return t, fmt.Errorf("there is no relation %q", o.TypeName)
	case r.Source != r.Target && t.Loops != stored:
		return t, fmt.Errorf("edges of %q have no loops: their ends are of two types", o.TypeName)
	}
	return t, nil
}

func inferWeight(p *Program, o *Operation, _ []Type) (Type, error) { return p.rows(Edges, o) }

func inferVertices(*Program, *Operation, []Type) (Type, error) { return Type{}, nil }

func inferTable(p *Program, o *Operation, _ []Type) (Type, error) {
	q := p.Parameter(o.Name)
	if q == nil || len(q.Shape) != 2 {
		return Type{}, fmt.Errorf("there is no parameter %q that is a table", o.Name)
	}
	if !q.Trained {
		return Type{}, fmt.Errorf("the table %q is not trained; give its rows as features", o.Name)
	}
	return Type{Rows: Vertices, TypeName: o.TypeName, Shape: q.Shape[1:]}, nil
}

func inferParameter(p *Program, o *Operation, _ []Type) (Type, error) {
	q := p.Parameter(o.Name)
	if q == nil {
		return Type{}, fmt.Errorf("there is no parameter %q", o.Name)
	}
	return Type{Shape: q.Shape}, nil
}

func inferConstant(_ *Program, o *Operation, _ []Type) (Type, error) {
	if slices.ContainsFunc(o.Shape, notPositive) || len(o.Values) != 1 && len(o.Values) != size(o.Shape) {
		return Type{}, fmt.Errorf("%d values for a shape of %v", len(o.Values), o.Shape)
	}
	return Type{Shape: o.Shape}, nil
}

func inferOnes(p *Program, o *Operation, _ []Type) (Type, error) {
	switch o.Rows {
	case "":
		return Type{}, errors.New("lacks rows: vertices or edges")
	case "vertices":
		return p.rows(Vertices, o)
	}
	return p.rows(Edges, o)
}

func inferGather(p *Program, o *Operation, in []Type) (Type, error) {
	t, err := p.rows(Edges, o, in[0].Shape...)
	switch {
	case err != nil:
		return t, err
	case in[0].Rows != Vertices:
		return t, fmt.Errorf("reads %s, and it takes rows of vertices", in[0])
	case o.End == "":
		return t, errors.New("lacks an end: source or target")
	case in[0].TypeName != p.relation(o.TypeName).end(o.End):
		return t, fmt.Errorf("reads %s, and the %ss of %q are of another type", in[0], o.End, o.TypeName)
	}
	return t, nil
}

func inferScatter(p *Program, o *Operation, in []Type) (Type, error) {
	switch {
	case in[0].Rows != Edges:
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges", in[0])
	case o.Reduce == "":
		return Type{}, errors.New("lacks what it reduces by: sum, mean, max, min or mul")
	}
	return p.aggregated(in[0].TypeName, o.End, in[0].Shape), nil
}

// aggregated returns the type of rows that are aggregated at an end of a relation.
func (p *Program) aggregated(relation, end string, shape []int) Type {
	return Type{Rows: Vertices, TypeName: p.relation(relation).end(end), Shape: shape}
}

func inferEdgeSoftmax(_ *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges", in[0])
	}
	return in[0], nil
}

func inferWithoutLoops(p *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges || in[0].Loops != stored || !p.mayLoop(in[0]) {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of stored edges", in[0])
	}
	t := in[0]
	t.Loops = removed
	return t, nil
}

// mayLoop reports whether both ends of the edges are of one type.
func (p *Program) mayLoop(t Type) bool {
	r := p.relation(t.TypeName)
	return r.Source == r.Target
}

// atLoops reports whether a value has numbers for self loops: a row for each vertex, or one for all.
func (p *Program) atLoops(x, edges Type) bool {
	return p.mayLoop(edges) && slices.Equal(x.Shape, edges.Shape) &&
		(x.Rows == None || x.sameRows(p.aggregated(edges.TypeName, "", nil)))
}

func inferWithLoops(p *Program, _ *Operation, in []Type) (Type, error) {
	t := in[0]
	to := withLoops[t.Loops]
	switch {
	case t.Rows != Edges || to == "":
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges without added loops", t)
	case !p.atLoops(in[1], t):
		return Type{}, fmt.Errorf("the loops have %s, and the edges rows of shape %v", in[1], t.Shape)
	}
	t.Loops = to
	return t, nil
}

func inferLoopValues(p *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges || in[0].Loops != stored || !p.atLoops(in[1], in[0]) {
		return Type{}, fmt.Errorf("reads %s and %s, and it takes rows of stored edges and of vertices", in[0], in[1])
	}
	return p.aggregated(in[0].TypeName, "", in[0].Shape), nil
}
