package program_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/program"
)

// states returns a program of layers whose edges have a state: e' = tanh(e·w + x_j), x' = Σ_j e'.
func states(layers int) string {
	operations := []string{
		`{"op": "features", "shape": [4]}`, `{"op": "edge_features", "shape": [4]}`,
		`{"op": "parameter", "name": "w"}`,
	}
	x, e := 0, 1
	add := func(format string, args ...any) int {
		operations = append(operations, fmt.Sprintf(format, args...))
		return len(operations) - 1
	}
	for range layers {
		source := add(`{"op": "gather", "in": [%d], "end": "source"}`, x)
		product := add(`{"op": "linear", "in": [%d, 2]}`, e)
		sum := add(`{"op": "add", "in": [%d, %d]}`, product, source)
		e = add(`{"op": "tanh", "in": [%d]}`, sum)
		x = add(`{"op": "scatter", "in": [%d], "reduce": "sum"}`, e)
	}
	return fmt.Sprintf(`{"version": 1, "class": "States", "parameters": [{"name": "w", "shape": [4, 4], `+
		`"trained": true}], "operations": [%s], "output": %d}`, strings.Join(operations, ", "), x)
}

// TestStatesAreKept: the cost of an edge is linear in the depth, because each layer reads the rows that the
// layer before kept.
func TestStatesAreKept(t *testing.T) {
	cost := func(layers int) (edge int) {
		p, err := program.Read(strings.NewReader(states(layers)))
		require.NoError(t, err)
		specs, err := p.Blocks(gnn.OneType(4, 4), 0, 1)
		require.NoError(t, err)
		for _, s := range specs {
			edge += s.Cost.Edge
		}
		return edge
	}
	perLayer := cost(2) - cost(1)
	assert.Equal(t, cost(2)+6*perLayer, cost(8))
	assert.Equal(t, "apply_edges (tanh(gather + linear)); messages sum (); "+
		"messages sum (tanh(gather + linear))", steps(t, states(2)))
}

// TestKeeping: of a chain of states every n-th is kept, and the states between are computed again from the
// last kept one. If none is kept, the work for an edge is quadratic in the depth.
func TestKeeping(t *testing.T) {
	const layers = 9
	p, err := program.Read(strings.NewReader(states(layers)))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 4, 0}, p.Keepings())
	const columns, operations = 4, 4 + 2 // of a state, for each column: a product, a sum and tanh
	for _, c := range []struct{ every, states, computed, fromFeatures int }{
		{1, 8, 9, 1}, {2, 4, 4*2 + 5, 2}, {4, 2, 2*4 + 2*(1+2+3) + 1, 4}, {9, 0, 45, 9}, {0, 0, 45, 9},
	} {
		kept := p.Keeping(c.every)
		assert.Equal(t, c.states, kept.States(), "every %d", c.every)
		specs, err := kept.Blocks(gnn.OneType(columns, columns), 0, 1)
		require.NoError(t, err)
		edge := 0
		for _, s := range specs {
			edge += s.Cost.Edge
		}
		want := columns * (operations*c.computed + c.fromFeatures + layers + c.states)
		assert.Equal(t, want, edge, "every %d", c.every)
	}
	assert.Equal(t, 8, p.States(), "of the program itself")
	few, err := program.Read(strings.NewReader(states(2)))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, few.Keepings(), "of one state")
}

// TestEdgesCrossBesideVertices: a pipeline is not cut where rows of edges alone would pass to the next stage.
func TestEdgesCrossBesideVertices(t *testing.T) {
	for _, c := range []struct {
		last string // the value that the second layer adds to its messages
		want []int  // the columns of vertices and of edges before each block
	}{
		{`{"op": "add", "in": [9, 8]}`, []int{4, 0}},
		{`{"op": "add", "in": [10, 2]}`, []int{4, 0, 4, 4}},
	} {
		p, err := program.Read(strings.NewReader(`{"version": 1, "class": "Crossing", "parameters": [
			{"name": "w", "shape": [4, 4], "trained": true}], "operations": [
			{"op": "features", "shape": [4]}, {"op": "gather", "in": [0], "end": "source"},
			{"op": "scatter", "in": [1], "reduce": "sum"}, {"op": "gather", "in": [2], "end": "source"},
			{"op": "gather", "in": [2], "end": "target"}, {"op": "mul", "in": [3, 4]},
			{"op": "parameter", "name": "w"}, {"op": "linear", "in": [5, 6]},
			{"op": "scatter", "in": [7], "reduce": "max"}, {"op": "scatter", "in": [7], "reduce": "min"},
			{"op": "add", "in": [8, 9]}, ` + c.last + `], "output": 11}`))
		require.NoError(t, err)
		specs, err := p.Blocks(gnn.OneType(4, 0), 0, 2)
		require.NoError(t, err)
		var got []int
		for _, s := range specs {
			edges := 0
			for _, e := range s.Edges {
				edges += e.Columns
			}
			got = append(got, s.In, edges)
		}
		assert.Equal(t, c.want, got)
	}
}

// returning adds outputs of edges to a program.
func returning(text string, values ...int) string {
	return strings.TrimSuffix(text, "}") + fmt.Sprintf(`, "edge_outputs": %s}`,
		strings.ReplaceAll(fmt.Sprint(values), " ", ", "))
}

// TestEdgeOutputsAreKept: an output of edges is kept once, however many states are kept, and layers read it.
// If its state is aggregated at the edges' sources, its rows have their order.
func TestEdgeOutputsAreKept(t *testing.T) {
	const second = 11 // the value that is the second state
	p, err := program.Read(strings.NewReader(returning(states(3), second)))
	require.NoError(t, err)
	for _, c := range []struct{ every, states int }{{1, 2}, {2, 1}, {0, 1}} {
		assert.Equal(t, c.states, p.Keeping(c.every).States(), "every %d", c.every)
	}
	assert.Equal(t, []program.Output{{Columns: 4}}, p.OutputsByRelation())
	assert.Equal(t, "apply_edges (tanh(gather + linear)); messages sum (); apply_edges (tanh(gather + linear)); "+
		"messages sum ()", steps(t, returning(states(2), second)))
	gathered := strings.Replace(states(2), `"op": "edge_features", "shape": [4]`,
		`"op": "gather", "in": [0], "end": "target"`, 1)
	atSources := strings.ReplaceAll(gathered, `"reduce"`, `"end": "source", "reduce"`)
	// Features are read at the targets alone, so that a state plus features is not read at the sources.
	withFeatures := strings.NewReplacer(`{"op": "gather", "in": [7], "end": "source"}`,
		`{"op": "edge_features", "shape": [4]}`, `{"op": "linear", "in": [6, 2]}`, `{"op": "add", "in": [6, 8]}`,
		`{"op": "add", "in": [9, 8]}`, `{"op": "gather", "in": [7], "end": "source"}`).Replace(atSources)
	for _, c := range []struct {
		text     string
		output   int
		reversed bool
	}{
		{gathered, second, false}, {atSources, second, true}, {withFeatures, second - 2, false},
	} {
		p, err := program.Read(strings.NewReader(returning(c.text, c.output)))
		require.NoError(t, err)
		assert.Equal(t, 1, p.States(), "reversed: %t", c.reversed)
		specs, err := p.Blocks(gnn.OneType(4, 4), 0, 1)
		require.NoError(t, err)
		assert.Equal(t, []gnn.EdgeState{{
			Along: gnn.Along{Relation: "edge", Reversed: c.reversed}, Loops: gnn.StoredLoops, Columns: 4,
		}}, specs[len(specs)-1].EdgeOutputs)
	}
}

// TestRefusesEdgeOutputs: an output of edges must be rows of stored edges, and there may be one for each
// relation.
func TestRefusesEdgeOutputs(t *testing.T) {
	loops := strings.Replace(states(1), `"end": "source"}`, `"end": "source", "loops": "removed"}`, 1)
	loops = strings.Replace(loops, `{"op": "edge_features", "shape": [4]}`,
		`{"op": "gather", "in": [0], "end": "target", "loops": "removed"}`, 1)
	for text, reason := range map[string]string{
		returning(states(1), 50):   "there is no value 50",
		returning(states(1), 0):    "rows of vertices",
		returning(states(1), 1, 4): "two have rows of edges",
		returning(loops, 3):        "(no loops)",
	} {
		_, err := program.Read(strings.NewReader(text))
		assert.Refused(t, err, reason, "trace the model again")
	}
}
