package reports

import (
	"testing"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
)

// TestGroupsOfEdges: an edge is in the groups of its own columns, where the first of them may be the weight,
// and is none of its features. Numbers and dates have no groups.
func TestGroupsOfEdges(t *testing.T) {
	list := columns.List{
		{Name: "amount", Kind: columns.Number},
		{Name: "online", Kind: columns.Boolean, Gaps: true},
		{Name: "day", Kind: columns.Date},
		{Name: "kind", Kind: columns.Category, Categories: []string{"card", "cash"}, Gaps: true},
	}
	rows := [][]float32{ // online, whether it is missing, day, card, cash, whether the kind is missing
		{1, 0, 20_000, 1, 0, 0}, {0, 0, 1, 0, 1, 0}, {.5, 1, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 1},
	}
	want := map[string][]string{
		"online": {"yes", "no", "(missing)", "no"}, "kind": {"card", "cash", "(other)", "(missing)"},
	}
	for _, weighted := range []bool{false, true} {
		r := &graph.Relation{NumberColumns: list, Frame: graph.Frame{Features: graph.Features{Columns: 7}}}
		if weighted {
			r.Features.Columns, r.Weights = 6, []float32{1, 1, 0, 1}
		}
		for _, row := range rows {
			if !weighted {
				r.Features.Dense = append(r.Features.Dense, 1)
			}
			r.Features.Dense = append(r.Features.Dense, row...)
		}
		groups := ofEdges(r).groupings("")
		assert.Len(t, groups, len(want))
		for _, g := range groups {
			for edge, name := range want[g.name] {
				assert.Equal(t, name, g.group(int64(edge)), "%s of edge %d, weights %v", g.name, edge,
					weighted)
			}
		}
	}
	relation := &graph.Relation{
		NumberColumns: columns.List{{Name: "sure", Kind: columns.Boolean}}, Weights: []float32{0, 1},
	}
	assert.Equal(t, "yes", ofEdges(relation).groupings("")[0].group(1)) // the weight itself
}
