package setting

import (
	"strings"
	"testing"

	"weft/graph/generate"
)

// TestMorePartitionsThanVertices: the refusal names the setting that asks for too many partitions.
func TestMorePartitionsThanVertices(t *testing.T) {
	g, err := generate.Graph(generate.Options{Kind: generate.SBM, Vertices: 6, Degree: 2, Features: 3, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		parallel   string
		partitions int
		named      string
	}{{"graph=7", 0, "parallel graph=7: "}, {"", 7, "partitions 7: "}, {"graph=2", 7, "partitions 7: "}} {
		o := Defaults()
		o.Parallel, o.Partitions = c.parallel, c.partitions
		r, err := o.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CheckGraph(g); err == nil || !strings.HasPrefix(err.Error(), c.named) {
			t.Errorf("%v does not begin with %q", err, c.named)
		}
	}
}
