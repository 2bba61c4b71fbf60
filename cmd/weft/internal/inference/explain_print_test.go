package inference

import (
	"bytes"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestStrongestFirst: the features of an edge itself stand before the edges that pass messages where one of
// them contributes more, else behind these, and never among the columns of vertices: in print and on the
// page.
func TestStrongestFirst(t *testing.T) {
	for own, want := range map[float64][]string{
		-3: {"amount of the edge itself", "a → b", "c5", "age"},
		.5: {"a → b", "amount of the edge itself", "c5", "age"},
	} {
		x := &explanation{Kind: "class", Edge: &labelledEdge{}}
		x.Edges = []explainedEdge{{Source: "a", Target: "b", Contribution: 2}}
		x.Vertices = []explainedVertex{{Vertex: "c5", Column: "age", Contribution: 1}}
		x.Columns = []explainedColumn{
			{Column: "age", Contribution: 9}, {Column: "amount", OfEdge: true, Contribution: own},
		}
		var printed, page bytes.Buffer
		x.Print(&printed)
		p := &explainedPage{explanation: x}
		require.NoError(t, p.write(&page))
		for _, text := range []string{printed.String(), page.String()} {
			at := -1
			for _, row := range want {
				next := strings.Index(text[at+1:], row)
				require.Equal(t, true, next >= 0, "%s behind byte %d of %s", row, at, text)
				at += 1 + next
			}
			assert.Equal(t, 1, strings.Count(text, "amount of the edge itself"))
		}
	}
}
