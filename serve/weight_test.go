package serve

import (
	"fmt"
	"reflect"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/train"
)

// TestWeight: in a graph whose edges have weights a new edge without one has the weight 1.
func TestWeight(t *testing.T) {
	m, _ := trained(t, func(o *train.Options, g *graph.Graph) {
		r := &g.Relations[0]
		for k := range r.Sources {
			r.Weights = append(r.Weights, float32(1+k%3))
		}
		o.Model = "gcn"
	})
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	with := func(end string) answered {
		return predict(t, s, fmt.Sprintf(`{"columns": ["probabilities"], "new": [{"id": "x", "features":
			[1, 0, -2, 0.5, 3], "edges": {"in": [%s, {"id": "v7", "weight": 2}]}}]}`, end))
	}
	one, two := with(`{"id": "v9", "weight": 1}`), with(`{"id": "v9", "weight": 2}`)
	assert.Equal(t, one, with(`"v9"`))
	assert.Equal(t, one, with(`{"id": "v9"}`))
	assert.Equal(t, false, reflect.DeepEqual(one, two))
}
