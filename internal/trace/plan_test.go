package trace_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/require"
	"weft/internal/trace"
)

// TestPlan: a plan's recorder lists the steps of each goroutine of a worker in one order, with the track of
// each kernel, and the points that tie a goroutine to the one that it is beside.
func TestPlan(t *testing.T) {
	for range 20 {
		r := trace.NewPlan()
		r.Start(1)
		work, done, points := r.Work(), make(chan trace.Point, 1), make(chan trace.Point, 1)
		r.Kernel("before", trace.Shape{1, 2}, 3).End()
		aside := work.Beside()
		go func() {
			aside.Enter()
			var p trace.Point
			aside.Yield(func() { p = <-points })
			aside.After(p)
			r.Kernel("beside", trace.Shape{}, 0).End()
			done <- aside.Leave()
		}()
		r.Kernel("main", trace.Shape{}, 0).End()
		points <- work.Signal()
		var end trace.Point
		work.Yield(func() { end = <-done })
		work.After(end)
		r.Kernel("after", trace.Shape{}, 0).End()
		r.Stop()
		events, lost := r.Events()
		of := map[string][]string{}
		for _, e := range events {
			step := e.Name
			if step == "" {
				step = fmt.Sprintf("%s %d", e.Category, e.Args.Point)
			}
			of[e.Lane.String()] = append(of[e.Lane.String()], step)
		}
		got := fmt.Sprintf("%s | %s, %d lost, %d edges", strings.Join(of["work"], ", "),
			strings.Join(of["beside"], ", "), lost, events[0].Args.Entries)
		want := "before, signal 1, main, signal 2, after 3, after | after 1, after 2, beside, signal 3, 0 " +
			"lost, 3 edges"
		require.Equal(t, want, got)
	}
}
