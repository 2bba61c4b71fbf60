package predictions

import (
	"iter"
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/train/metric"
	"weft/train/worker"
)

// Scorer measures predictions while they are written. It keeps only the rows of the vertices of a split.
type Scorer struct {
	part     []uint8      // by vertex of the graph: in which parts of the split it is, as bits
	vertices []int32      // as Table.Vertices
	labels   graph.Labels // of all vertices
	kept     []int32      // the vertices whose rows are kept
	rows     []float32
}

// NewScorer makes a scorer for predictions of a graph's vertices (Table.Vertices) on a split.
func NewScorer(l graph.Labels, s *graph.Split, own int, vertices []int32) *Scorer {
	c := &Scorer{part: make([]uint8, own), vertices: vertices, labels: l}
	for k, ids := range s.Parts() {
		for _, v := range *ids {
			c.part[v] |= 1 << k
		}
	}
	return c
}

// Watch returns the rows. As they pass by, it keeps the ones that Scores needs.
func (c *Scorer) Watch(rows worker.Rows) worker.Rows {
	rows.Each = c.watched(rows.Each, rows.Columns)
	return rows
}

func (c *Scorer) watched(each iter.Seq[[]float32], columns int) iter.Seq[[]float32] {
	return func(yield func([]float32) bool) {
		at := 0
		for batch := range each {
			for row := range slices.Chunk(batch, columns) {
				v := int32(at)
				if c.vertices != nil {
					v = c.vertices[at]
				}
				if c.part[v] != 0 {
					c.kept, c.rows = append(c.kept, v), append(c.rows, row...)
				}
				at++
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// Scores are a metric, by name, on each part of the split. They are NaN for a part of which no vertex was
// predicted.
func (c *Scorer) Scores(name string) (s metric.Scores, err error) {
	var parts [3][]int64 // rows
	for row, v := range c.kept {
		for k := range parts {
			if c.part[v]&(1<<k) != 0 {
				parts[k] = append(parts[k], int64(row))
			}
		}
	}
	labels := c.labels.Select(c.kept)
	for k, to := range []*float64{&s.Train, &s.Val, &s.Test} {
		if labels.Continuous() {
			scores, err := metric.OfValues(c.rows, &labels, parts[k], comm.Alone())
			if err != nil {
				return s, err
			}
			*to = scores[name]
			continue
		}
		measure := metric.Named(name, &labels)
		if *to, err = measure(c.rows, &labels, parts[k], comm.Alone()); err != nil {
			return s, err
		}
	}
	return s, nil
}
