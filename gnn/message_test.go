package gnn_test

import (
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/tensor"
)

// TestMessageCheck: Check refuses a bad message function in one line, which names the layer.
func TestMessageCheck(t *testing.T) {
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	tape := autograd.NewTape(team)
	rows := func(n, cols int) *autograd.Var {
		set := &autograd.RowSet{Here: n, Total: n}
		return tape.Constant(team.Zeros(tensor.Features, n, cols), set)
	}
	source := rows(6, 3)
	right := gnn.Message{
		Source: source, Target: source, Columns: 3,
		Function: func(e gnn.Edges) *autograd.Var { return e.Source },
	}
	for _, c := range []struct {
		change func(m *gnn.Message)
		want   string // in the refusal; "": there is none
	}{
		{func(*gnn.Message) {}, ""},
		{func(m *gnn.Message) { m.Target, m.Columns, m.Parameters = nil, 7, []*nn.Param{{}} }, ""},
		{func(m *gnn.Message) { m.Target, m.Columnwise, m.Reduce = nil, true, gnn.KindMin }, ""},
		{func(m *gnn.Message) { m.Source = nil }, ""},
		{func(m *gnn.Message) { m.Source, m.Columnwise = nil, true }, ""},
		{func(m *gnn.Message) { m.Source, m.Target = nil, nil }, "set Message.Source or Message.Target"},
		{func(m *gnn.Message) { m.Function = nil }, "and Message.Function"},
		{func(m *gnn.Message) { m.Loops = gnn.LastLoops }, "has sources for loops, whose source is the target"},
		{func(m *gnn.Message) { m.Columns = 0 }, "messages of 0 columns"},
		{func(m *gnn.Message) { m.Target = rows(5, 3) }, "rows of 5 targets for the worker's 6 vertices"},
		{func(m *gnn.Message) { m.SourceParts, m.TargetParts = []int{2, 1}, []int{3} }, ""},
		{func(m *gnn.Message) { m.SourceParts = []int{2, 2} }, "make them add up"},
		{func(m *gnn.Message) { m.Target, m.TargetParts = nil, []int{3} }, "make them add up"},
		{func(m *gnn.Message) { m.Reduce = gnn.KindSymmetric }, "take KindSum, KindMean, KindMax or KindMin"},
		{func(m *gnn.Message) {
			m.Columnwise, m.Parameters = true, []*nn.Param{{Value: rows(1, 2).Value()}}
		}, "a parameter of another number"},
		{func(m *gnn.Message) {
			m.Columnwise, m.Columns = true, 2
		}, "messages of 2 columns and sources of 3"},
		{func(m *gnn.Message) {
			m.Columnwise, m.Columns = true, 4
		}, "messages of 4 columns and sources of 3"},
		{func(m *gnn.Message) {
			m.Columnwise, m.Target = true, rows(6, 1)
		}, "messages of 3 columns and targets of 1"},
	} {
		m := right
		c.change(&m)
		switch err := m.Check("convs.1", 6); {
		case err == nil && c.want != "":
			t.Errorf("no refusal, want %q", c.want)
		case err != nil && (c.want == "" || !refusal.Is(err) || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "convs.1: ") || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q, want %q", err, c.want)
		}
	}
}
