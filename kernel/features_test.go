package kernel_test

import (
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestFeaturesOfForms: each form of attention takes features of edges with the vector or weight of that form,
// and panics with the other.
func TestFeaturesOfForms(t *testing.T) {
	with(t, func(s *suite) {
		const heads, width, features = 2, 3, 4
		g := s.network(s.tangled(9, 5), false)
		n := g.a.Rows
		rows := s.normal(n, heads*width)
		v1 := kernel.Attention{
			Heads: heads, Width: width, Slope: .2, Source: rows,
			SourceScore: s.normal(n, heads), TargetScore: s.normal(n, heads),
		}
		v2 := kernel.Attention{
			Heads: heads, Width: width, Slope: .2, Source: rows, Target: rows,
			A: s.normal(1, heads*width),
		}
		dot := kernel.Attention{Heads: heads, Width: width, Source: rows, Target: rows, Key: rows}
		vector, _ := s.features(g, features, heads, 0)
		weight, _ := s.features(g, features, heads, width)
		for _, c := range []struct {
			form  kernel.Attention
			edges kernel.EdgeFeatures
			takes bool
		}{
			{v1, vector, true},
			{v1, weight, false},
			{v2, vector, false},
			{v2, weight, true},
			{dot, vector, false},
			{dot, weight, true},
		} {
			c.form.Edges = c.edges
			func() {
				defer func() {
					if panics := recover() != nil; panics == c.takes {
						t.Errorf("GATv2 %t, dot products %t, vector %t: panics %t", c.form.A != nil,
							c.form.Key != nil, c.edges.Vector != nil, panics)
					}
				}()
				s.team.Attend(s.team.AttentionStart(n, heads, width, tensor.Float32), c.form,
					g.a, nil, kernel.Last)
			}()
		}
	})
}
