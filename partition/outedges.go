package partition

import (
	"errors"

	"weft/graph"
)

// out gives the sinks of all partitions the edges out of their vertices.
func (d *divider) out() error {
	for _, e := range d.edges {
		if err := e.out(); err != nil {
			return err
		}
	}
	return nil
}

// out gives the sinks of all partitions the relation's out-edges.
func (e *edgeDivider) out() (err error) {
	var parts []*graph.Graph
	defer func() {
		for _, part := range parts {
			err = errors.Join(err, part.Close())
		}
	}()
	for _, to := range e.d.parts {
		part, err := to.Written(e.r)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	unload := func() {
		for _, part := range parts {
			part.Unload()
		}
	}
	list, most, err := e.lister(parts, unload)
	if err != nil {
		return err
	}
	for q, to := range e.d.parts {
		edges := int64(0)
		for p := range e.cut {
			edges += e.cut[p][q]
		}
		err := to.Out(e.r, edges, e.from, func(write func(*graph.Relation) error) error {
			written := make(chan error, 1) // the result of writing a range, while the next one is listed
			written <- nil
			for lo := e.source.Starts[q]; lo < e.source.Starts[q+1]; {
				hi := e.until(lo, e.source.Starts[q+1], most)
				rows, err := list(q, lo, hi)
				if err = errors.Join(err, <-written); err != nil {
					return err
				}
				e.d.reversed += int64(len(rows.Sources))
				e.d.progress.Report("reversing edges", e.d.reversed, e.d.whole.Edges)
				go func() { written <- parts[q].Guard(func() error { return write(rows) }) }()
				unload()
				lo = hi
			}
			return <-written
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lister lists the edges out of the sources of partition q at positions lo … hi−1, which ascend from call to
// call.
type lister func(q, lo, hi int) (*graph.Relation, error)

// lister returns the lister of the relation. most is the number of edges to ask it for. parts have the
// in-edges.
func (e *edgeDivider) lister(parts []*graph.Graph, unload func()) (list lister, most int64, err error) {
	var in []*graph.Relation
	for _, part := range parts {
		in = append(in, &part.Relations[0])
	}
	// The out-edges are the in-edges.
	if e.from.Symmetric && e.from.Weights == nil && e.from.Features.Columns == 0 {
		return func(q, lo, hi int) (rows *graph.Relation, err error) {
			first := e.source.Starts[q]
			err = parts[q].Guard(func() error {
				bounds := in[q].Indptr[lo-first : hi-first+1]
				rows = &graph.Relation{Sources: in[q].Sources[bounds[0]:bounds[hi-lo]]}
				for _, end := range bounds {
					rows.Indptr = append(rows.Indptr, end-bounds[0])
				}
				return nil
			})
			return rows, err
		}, batchEdges, nil
	}
	t, err := graph.NewTransposer(in, parts[0].Guard, unload)
	if err != nil {
		return nil, 0, err
	}
	return func(_, lo, hi int) (*graph.Relation, error) { return t.List(lo, hi) }, t.Most(), nil
}

// until returns the end of a range of source positions that begins at lo. The range has at most so many
// edges, unless it lies in one bin.
func (e *edgeDivider) until(lo, end int, most int64) int {
	edges, hi := int64(0), lo
	for hi < end {
		bin := hi >> e.shift
		edges += e.bins[bin]
		if edges > most && hi > lo {
			break
		}
		hi = min(end, (bin+1)<<e.shift)
	}
	return hi
}
