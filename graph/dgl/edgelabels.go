package dgl

import (
	"math"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/npy"
)

// label is the column of the labels of a relation's edges; "": none is read.
func (c *contents) label(r *relation) string {
	at := slices.IndexFunc(labelNames, r.has)
	if !c.labelled || at < 0 || r.rows == 0 || r.rows > math.MaxInt32 {
		return ""
	}
	return labelNames[at]
}

// labelEdges gives a relation the labels of its edges, if there are any, with their masks.
func (c *contents) labelEdges(r *relation, to *streamed.Relation,
	divide func(*graph.Frame) error,
) error {
	name := c.label(r)
	if name == "" {
		return nil
	}
	var labels graph.Labels
	err := r.array(name, func(a *npy.Array) (err error) {
		labels, err = arrays.ValuesOrClasses(a, r.rows)
		return err
	})
	if err != nil || !labels.There() {
		return err
	}
	masks := edgeMasks
	for part, mask := range masks {
		if !r.has(mask) {
			masks[part] = ""
		}
	}
	frame := graph.Frame{Labels: labels.Named(name)}
	if frame.Splits, err = r.splits(masks, &frame.Labels); err != nil {
		return err
	}
	to.Label(frame, divide)
	return nil
}
